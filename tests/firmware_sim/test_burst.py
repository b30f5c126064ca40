"""Load: every message its own, every acknowledgement written down."""

import asyncio
import json
from collections.abc import Callable
from itertools import chain, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.burst import Burst, burst, ranges
from firmware_sim.fields import InputError
from firmware_sim.fleet import Fleet
from firmware_sim.journal import Journal, Line
from firmware_sim.specification import invented
from firmware_sim.tasmota.catalogue import TasmotaModel
from tests.firmware_sim.conftest import a_tasmota, in_world
from tests.firmware_sim.peer import Message, Peer
from tests.firmware_sim.process import started
from tests.support.brokers import Mosquitto
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("F6")

Lines = Callable[..., list[Line]]


def number_of(message: Message) -> int | None:
    """The number that a telemetry message carries, if it is one of a burst."""
    frame = message.json
    energy = frame.get("ENERGY")
    if isinstance(energy, dict) and energy["Total"]:
        return int(energy["Total"])
    if frame.get("method") == "NotifyStatus":
        params = json.loads(message.payload)["params"]
        [part] = [value for key, value in params.items() if key != "ts"]
        if "aenergy" in part and part["aenergy"]["total"]:
            return int(part["aenergy"]["total"] / 1000)
    return None


def numbered(message: Message) -> bool:
    """Whether a message is one of a burst."""
    return message.topic.endswith(("/events/rpc", "/SENSOR")) and number_of(message) is not None


def numbers(peer: Peer, topic: str = "#") -> list[int]:
    """The numbers that have come."""
    return [number_of(message) or 0 for message in peer.heard(topic) if numbered(message)]


def told(lines: list[Line]) -> set[int]:
    """The numbers that the journal lists."""
    found = [line.details["ranges"] for line in lines]
    return {
        number
        for one in chain.from_iterable(entry for entry in found if isinstance(entry, list))
        for number in range(one[0], one[1] + 1)
    }


async def test_every_number_comes_once_over_real_topics_at_qos_1(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    async with Fleet(invented("7", 8), in_world(broker, journal)) as fleet:
        tally = await burst(fleet.appliances.values(), journal, Burst(count=300))
        await eventually(lambda: len(numbers(peer)) == 300)

    assert (tally.sent, tally.acknowledged, tally.lost) == (300, 300, 0)
    assert sorted(numbers(peer)) == list(range(1, 301))
    assert told(lines("acknowledged")) == set(range(1, 301))
    assert {message.qos for message in peer.messages if numbered(message)} == {1}


async def test_an_appliances_own_numbers_rise(broker: Mosquitto, peer: Peer, journal: Journal) -> None:
    async with Fleet(invented("7", 8), in_world(broker, journal)) as fleet:
        await burst(fleet.appliances.values(), journal, Burst(count=200, first=1000, window=10))
        await eventually(lambda: len(numbers(peer)) == 200)

    for topic in {message.topic for message in peer.messages}:
        assert numbers(peer, topic) == sorted(numbers(peer, topic))


async def test_what_a_lost_connection_took_is_told_and_the_rest_goes_on(
    broker: Mosquitto, journal: Journal, lines: Lines
) -> None:
    async with Fleet(invented("7", 4), in_world(broker, journal)) as fleet:
        running = asyncio.create_task(burst(fleet.appliances.values(), journal, Burst(count=3000, rate=2000)))
        await eventually(lambda: lines("acknowledged"))
        broker.kill()
        broker.start()
        tally = await running

    acknowledged, lost = told(lines("acknowledged")), told(lines("lost"))
    assert tally.sent == 3000
    assert acknowledged | lost == set(range(1, 3001))
    assert not acknowledged & lost
    assert (tally.acknowledged, tally.lost) == (len(acknowledged), len(lost))


async def test_a_fleet_without_meters_cannot_count(broker: Mosquitto, journal: Journal) -> None:
    async with Fleet([a_tasmota(TasmotaModel.SENSOR)], in_world(broker, journal)) as fleet:
        with pytest.raises(InputError, match="no appliance has a meter"):
            await burst(fleet.appliances.values(), journal, Burst(count=1))


def test_as_a_process_it_sends_its_burst_and_ends(broker: Mosquitto, journal_path: Path) -> None:
    where = f"127.0.0.1:{broker.port}"

    with started(where, "--burst", "500", "--rate", "5000", "--journal", str(journal_path)) as running:
        running.until_ready()
        tally = running.line()["burst"]
        status = running.process.wait(60)

    assert status == 0
    assert isinstance(tally, dict)
    assert (tally["sent"], tally["acknowledged"], tally["lost"]) == (500, 500, 0)


@given(st.sets(st.integers(0, 60)))
def test_ranges_hold_exactly_their_numbers(given_numbers: set[int]) -> None:
    found = ranges(given_numbers)

    assert [n for low, high in found for n in range(low, high + 1)] == sorted(given_numbers)
    assert all(high + 1 < low for (_, high), (low, _) in pairwise(found))
