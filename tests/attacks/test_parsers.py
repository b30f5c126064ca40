"""T29, T30: JSON that parsers read differently, in commands and in readings, is read by nobody here.

Each command below is signed by a key that may do everything: only its form is wrong.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pydantic import JsonValue

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import COMMAND_TYPE
from edgeagent.contracts.door import encode, parse
from edgeagent.contracts.event import Stream
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.envelope import sign
from tests.acceptance.replaying_queue import ReplayingQueue
from tests.attacks.television import Television
from tests.support.agents_cloud import FIRST
from tests.support.agents_venue import PLUG, Venue
from tests.support.brokers import free_port, wait_until
from tests.support.stores import query

pytestmark = [pytest.mark.slow, pytest.mark.requirement("T1", "M6")]

SENSOR: Final = "tele/tasmota_000001/SENSOR"
_EVENTS: Final = 16 * 1024 * 1024


@pytest.fixture
def port() -> int:
    """Where the agent looks for its queue."""
    return free_port()


@pytest.fixture
def venue(tmp_path: Path, port: int) -> Iterator[Venue]:
    """A venue with one plug; the agent is not started."""
    with Venue(tmp_path, cloud_port=port) as running:
        yield running


@pytest.fixture
def queue(venue: Venue, port: int) -> Iterator[ReplayingQueue]:
    """A queue that takes no look at what it lends, between a running agent and the real one."""
    with ReplayingQueue(venue.server, port) as running:
        venue.open()
        yield running
        venue.agent.kill()


def twisted(good: bytes) -> Iterator[bytes]:
    """Payloads of which one parser might say that they switch the plug off, and another toggle it."""
    first = b"{"
    for text in (
        b'"action":"toggle",',
        b'"acti\\u006fn":"toggle",',
        b'"arguments":{"on":true},',
        b'"level":NaN,',
        b'"level":Infinity,',
        b'"level":1e999,',
        b'"level":123456789012345678901234567890,',
        b'"x":' + b"[" * 2000 + b"]" * 2000 + b",",
        b'"x":"\\ud800",',
        b"/* toggle */",
    ):
        yield good.replace(first, first + text, 1)
    yield b"\xef\xbb\xbf" + good
    yield good + good
    yield good + b"\0"
    yield good.replace(b'"power"', b"'power'")
    yield good.replace(b'"on":false', b'"on":NaN')
    yield good.decode().encode("utf-16")


@pytest.mark.threat("T29", "T30", "T31")
def test_no_command_is_carried_out_of_which_two_parsers_might_say_different_things(
    venue: Venue, queue: ReplayingQueue
) -> None:
    off = encode(venue.sign(PLUG, ActionName.POWER, {"on": False}).command)
    bodies = list(twisted(off))

    for body in bodies:
        queue.lend(sign(body, COMMAND_TYPE, [venue.keys.desk]))
    queue.wait_until_taken()
    good = venue.sign(PLUG, ActionName.TOGGLE)
    queue.lend(good.envelope)
    wait_until(lambda: bool(venue.cloud.receipts(good.command.id)), "the good command's receipt")

    assert [told.data["outcome"] for told in venue.cloud.receipts()] == [Outcome.SUCCEEDED]
    assert query(venue.agent.database, "SELECT command FROM inbox") == [(good.command.id,)]
    assert venue.effects(PLUG, ActionName.POWER) == 0
    assert venue.effects(PLUG, ActionName.TOGGLE) == 1
    assert venue.agent.stop() == 0
    assert refusals_of_form(venue) == len(bodies)
    assert venue.audit_break() is None


def refusals_of_form(venue: Venue) -> int:
    """How many envelopes the trail says were refused as malformed, or too large."""
    rows = query(venue.agent.database, "SELECT detail FROM audit WHERE kind = 'commands_unverified'")
    details: list[dict[str, JsonValue]] = [json.loads(str(detail)) for (detail,) in rows]
    counts = [detail["count"] for detail in details if detail["reason"] in {"malformed", "too_large"}]
    return sum(count for count in counts if isinstance(count, int))


@pytest.mark.usefixtures("queue")
@pytest.mark.threat("T30")
def test_a_reading_that_is_no_number_is_left_out_and_the_others_of_its_message_stay(venue: Venue) -> None:
    with Television(venue.broker) as neighbour:
        for place, number in enumerate(("NaN", "Infinity", "-Infinity", "1e999", "9" * 400)):
            neighbour.says(
                SENSOR,
                f'{{"ENERGY":{{"Power":{number},"Voltage":{number},"Total":{FIRST + place}}}}}'.encode(),
            )
        venue.cloud.wait_for(5)

    told = venue.cloud.events(Stream.TELEMETRY)
    readings = [event.data["readings"] for event in told]
    assert venue.cloud.stored_numbers() == [FIRST + place for place in range(5)]
    assert not any(value in str(readings) for value in ("nan", "inf", "999999999"))
    # What went up can be read by a parser that knows no such numbers.
    for event in told:
        parse(encode(event), limit=_EVENTS)


@pytest.mark.usefixtures("queue")
@pytest.mark.threat("T29", "T31")
def test_a_message_that_is_no_json_says_nothing_and_the_next_one_is_heard(venue: Venue) -> None:
    whole = f'{{"ENERGY":{{"Total":{FIRST}}}}}'.encode()
    wait_until(lambda: "power" in venue.agent.device(PLUG).readings, "the plug's own readings")
    before = venue.agent.device(PLUG).readings["power"]

    with Television(venue.broker) as neighbour:
        for payload in (
            whole.replace(b'"Total"', b'"Total":1,"Total"'),
            b'{"ENERGY":{"Total":1},"ENERGY":{"Total":2}}',
            b'{"a":' * 5000 + b"1" + b"}" * 5000,
            b"[" * 60_000,
            whole + whole,
            b"\xef\xbb\xbf" + whole,
            whole.replace(b"Total", b"T\xfftal"),
            whole.replace(b"Total", b"T\\ud800tal"),
            b'{"ENERGY":{"Total":0x10}}',
        ):
            neighbour.says(SENSOR, payload)
            neighbour.says("stat/tasmota_000001/RESULT", payload.replace(b"ENERGY", b"POWER"))
        neighbour.says(SENSOR, whole.replace(str(FIRST).encode(), str(FIRST + 1).encode()))
        venue.cloud.wait_for(1)

    assert venue.cloud.stored_numbers() == [FIRST + 1]
    assert venue.agent.device(PLUG).readings["power"] == before
    assert venue.agent.alive
