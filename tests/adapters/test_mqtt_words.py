"""What is made of a broker's refusals."""

from datetime import timedelta

import pytest

from edgeagent.adapters.mqtt.words import cleaned, refusal
from edgeagent.ports.links import Trouble


@pytest.mark.requirement("E4", "R8")
@pytest.mark.parametrize(
    ("code", "trouble"),
    [
        pytest.param(0x84, Trouble.BROKEN_ANSWER, id="speaks no MQTT 5"),
        pytest.param(0x85, Trouble.LOGIN, id="client id refused"),
        pytest.param(0x86, Trouble.LOGIN, id="bad user name or password"),
        pytest.param(0x87, Trouble.LOGIN, id="not authorised"),
        pytest.param(0x88, Trouble.BUSY, id="unavailable"),
        pytest.param(0x89, Trouble.BUSY, id="busy"),
        pytest.param(0x8A, Trouble.LOGIN, id="banned"),
        pytest.param(0x8B, Trouble.UNREACHABLE, id="shutting down"),
        pytest.param(0x8E, Trouble.LOGIN, id="session taken over"),
        pytest.param(0x93, Trouble.BROKEN_ANSWER, id="says that we overran it"),
        pytest.param(0x97, Trouble.BUSY, id="quota exceeded"),
        pytest.param(0x9C, Trouble.UNREACHABLE, id="use another server"),
        pytest.param(0x9D, Trouble.UNREACHABLE, id="moved"),
        pytest.param(0x9F, Trouble.BUSY, id="connection rate exceeded"),
    ],
)
def test_each_refusal_says_what_kind_of_trouble_it_is(code: int, trouble: Trouble) -> None:
    assert refusal(code, "Some Name", "", client_id="me").trouble is trouble


@pytest.mark.requirement("E4")
def test_a_broker_that_is_busy_or_gone_elsewhere_is_left_alone_for_longer() -> None:
    busy = refusal(0x89, "Server busy", "", client_id="me")
    moved = refusal(0x9D, "Server moved", "", client_id="me")

    assert busy.retry_after == timedelta(seconds=10)
    assert moved.retry_after == timedelta(seconds=60)


@pytest.mark.requirement("H9")
def test_a_session_that_was_taken_over_is_told_as_two_agents_of_one_identity() -> None:
    why = refusal(0x8E, "Session taken over", "", client_id="edgeagent-h-control")

    assert "two agents with one identity" in str(why)
    assert "edgeagent-h-control" in str(why)


@pytest.mark.requirement("V5")
def test_what_the_broker_adds_is_told_without_what_a_terminal_would_obey() -> None:
    why = refusal(0x87, "Not authorized", "go\x1b[2J away\n", client_id="me")

    assert str(why) == "not authorized (0x87): go?[2J away?"
    assert len(cleaned("x" * 5000)) == 200
