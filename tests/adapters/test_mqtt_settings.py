"""The settings of the way to the broker."""

from datetime import timedelta

import pytest
from pydantic import SecretBytes

from edgeagent.adapters.mqtt.settings import MqttSettings
from edgeagent.contracts.mqtt import Session
from edgeagent.errors import ConfigurationError


@pytest.mark.requirement("A2")
def test_the_password_is_not_shown() -> None:
    settings = MqttSettings(username="agent", password=SecretBytes(b"hunter2"))

    assert "hunter2" not in repr(settings)
    assert "hunter2" not in str(settings)


@pytest.mark.requirement("H4")
def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        MqttSettings(port=0, keepalive=timedelta(0), password=SecretBytes(b"x"), telemetry_window=70_000)

    for name in ("port", "keepalive", "password", "telemetry_window"):
        assert name in str(caught.value)


def test_each_session_has_its_window() -> None:
    settings = MqttSettings(control_window=7, telemetry_window=70)

    assert settings.window(Session.CONTROL) == 7
    assert settings.window(Session.TELEMETRY) == 70
