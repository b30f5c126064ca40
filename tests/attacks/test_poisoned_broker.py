"""The broker sends what no broker may send (SPEC M6, R8): the agent gets past it and says so."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.reports.health import Check, HealthReport, Level
from tests.attacks.poisoned_broker import PoisonedBroker
from tests.support.agents_burst import Judgement
from tests.support.agents_cloud import FIRST
from tests.support.agents_venue import PLUG, Venue
from tests.support.brokers import free_port, wait_until
from tests.support.scripted_broker import packet, publish

BURST: Final = 200
# Beyond every number that mosquitto gives to a message here.
NUMBER: Final = 60_000
SESSIONS: Final = ("telemetry", "control")

UNFIT: Final = {
    "no UTF-8": b"tele/\xff\xfe/SENSOR",
    "a surrogate": b"tele/\xed\xa0\x80/SENSOR",
    "one level's wildcard": b"tele/+/SENSOR",
    "all levels' wildcard": b"tele/#",
    "NUL": b"tele/\0/SENSOR",
    "nothing": b"",
}
# What else cannot be read is in ``tests/adapters/test_mqtt_poison``.
UNREADABLE: Final = {
    "a quality of service that was not asked for": publish("tele/x/SENSOR", b"{}", NUMBER, qos=2),
    "a topic longer than its packet": packet(3, b"\xff\xff" + b"tele/x/SENSOR", flags=2),
    "a length of five bytes": b"\x32\xff\xff\xff\xff\x01",
}

pytestmark = [pytest.mark.slow, pytest.mark.threat("T33"), pytest.mark.requirement("M6", "R8", "Q1")]


@pytest.fixture
def port() -> int:
    """Where the agent looks for its broker."""
    return free_port()


@pytest.fixture
def venue(tmp_path: Path, port: int) -> Iterator[Venue]:
    """A venue with one plug; the agent is not started."""
    with Venue(tmp_path, broker_port=port) as running:
        yield running


@pytest.fixture
def broker(venue: Venue, port: int) -> Iterator[PoisonedBroker]:
    """The broker as the running agent sees it."""
    with PoisonedBroker(venue.broker, port) as running:
        venue.open()
        yield running
        venue.agent.kill()


def told(venue: Venue) -> Check:
    """What health says of what the broker sends."""
    report = HealthReport.model_validate_json(venue.agent.run("health", "--json").stdout)
    return next(check for check in report.checks if check.name == "broker-sends")


def sends_a_burst(venue: Venue, *, first: int = FIRST) -> None:
    """Let the plug send numbered readings; all of them reach the cloud."""
    assert venue.burst(BURST, first=first).finish().acknowledged == BURST
    venue.catch_up()


def test_a_topic_that_no_message_may_have_is_dropped_and_the_connection_stays(
    venue: Venue, broker: PoisonedBroker
) -> None:
    proposals = venue.agent.devices().proposals
    poison = b"".join(
        publish(topic, b'{"POWER":"ON"}', NUMBER + place) for place, topic in enumerate(UNFIT.values())
    )

    for session in SESSIONS:
        broker.poison(session, poison)
    wait_until(lambda: broker.poisoned >= len(SESSIONS), "both sessions to be resumed")
    venue.agent.wait_for_broker()
    sends_a_burst(venue)
    power = venue.end_of(venue.order(PLUG, ActionName.POWER, {"on": True}))

    assert power.outcome is Outcome.SUCCEEDED
    assert broker.poisoned == len(SESSIONS)
    check = told(venue)
    assert check.level is Level.WARNING
    assert f"{len(UNFIT)} messages with a topic that none may have were dropped" in check.summary
    assert "session begun afresh" not in venue.agent.log
    assert venue.agent.devices().proposals == proposals
    assert venue.judgement() == Judgement()
    assert venue.agent.stop() == 0
    assert venue.audit_break() is None


@pytest.mark.parametrize("poison", UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_ends_three_connections_and_then_the_session_is_begun_afresh(
    venue: Venue, broker: PoisonedBroker, poison: bytes
) -> None:
    pid = venue.agent.pid
    sends_a_burst(venue)

    broker.poison("telemetry", poison)
    wait_until(lambda: broker.poisoned > 0, "the session to be resumed")
    power = venue.end_of(venue.order(PLUG, ActionName.POWER, {"on": True}))
    wait_until(lambda: not broker.holds("telemetry"), "the broker to be told to forget")
    venue.agent.wait_for_broker()
    sends_a_burst(venue, first=FIRST + BURST)

    # Commands went on meanwhile, over the other session; what was acknowledged is there.
    assert power.outcome is Outcome.SUCCEEDED
    assert broker.poisoned == 3
    assert venue.agent.log.count("session begun afresh") == 1
    assert venue.agent.log.count("link down") + venue.agent.log.count("no link") <= 2 * 3
    check = told(venue)
    assert check.level is Level.WARNING
    assert "begun afresh 1 times" in check.summary
    assert venue.agent.pid == pid
    assert venue.judgement() == Judgement()
    assert venue.records_are_whole()
    assert venue.agent.stop() == 0
    assert venue.audit_break() is None
