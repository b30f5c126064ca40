"""docs/profiles.md tells the truth: its example works, its tables name what the shipped profiles have."""

import re
from pathlib import Path

import pytest

from edgeagent.contracts.mqtt import Session
from edgeagent.contracts.profile import DeviceProfile
from edgeagent.core.profile.load import load
from edgeagent.profiles.shipped import shipped_profiles
from tests.core.profile.building import live, made, readings

pytestmark = pytest.mark.requirement("M1")

TEXT = (Path(__file__).parents[3] / "docs" / "profiles.md").read_text("utf-8")
SHIPPED = [load(text) for text in shipped_profiles()]


def section(profile: DeviceProfile) -> str:
    """What the document says of a family."""
    found = re.search(rf"^### [^\n]*\(`{profile.id}`\)\n(.*?)(?=^### |\Z)", TEXT, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def test_the_example_reads_a_sensor_with_flat_json() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    device = made(load(example.encode()), "dev-07")

    decoded = live(
        device,
        "tele/dev-07/data",
        '{"seq":12345,"t0":1760000000000000,"temp":21.50,"hum":45.2,"press":1013.2,"batt":3.70,"rssi":-60,'
        '"status":"ok","fw":"1.4.2","note":"abc"}',
    )

    assert readings(decoded) == {
        "sequence": 12345,
        "sent_at": 1760000000000000,
        "temperature": 21.5,
        "humidity": 45.2,
        "pressure": 1013.2,
        "battery_voltage": 3.7,
        "signal_strength": -60,
        "status": "ok",
        "firmware": "1.4.2",
        "note": "abc",
    }
    assert [(each.filter, each.session) for each in device.subscriptions] == [
        ("tele/dev-07/data", Session.TELEMETRY)
    ]
    assert decoded.alive


@pytest.mark.parametrize("profile", SHIPPED, ids=lambda profile: str(profile.id))
def test_the_document_names_every_reading_action_and_limit_of_a_family(profile: DeviceProfile) -> None:
    told = section(profile)
    tables = re.findall(r"`([a-z_]+)`", told)

    assert profile.readings.keys() | profile.commands.keys() | profile.steps.keys() <= set(tables)
    for limit in profile.limits:
        assert f"* {limit}" in told


def test_no_family_is_told_that_is_not_shipped() -> None:
    told = re.findall(r"^### [^\n]*\(`([a-z0-9-]+)`\)$", TEXT, re.MULTILINE)

    assert set(told) == {profile.id for profile in SHIPPED}
