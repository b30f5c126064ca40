"""The recorded sequences of ``tests/vectors/quirks.jsonl`` that concern readings, through the real flow."""

import asyncio
import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from pathlib import Path

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.event import EventType, Stream
from edgeagent.contracts.scalars import duration
from edgeagent.flows.confirmations import Waiter
from tests.core.profile.quirks import VECTORS
from tests.flows.building import WELL_AFTER, Hub, new_hub
from tests.support.waiting import DEADLINE

pytestmark = pytest.mark.requirement("M1", "M6")

PLUG = "AABBCCDDEEFF"
SECOND = timedelta(seconds=1)


@cache
def sequence(name: str) -> list[dict[str, str]]:
    """The steps of a recorded sequence."""
    lines = [json.loads(line) for line in VECTORS.read_text("utf-8").splitlines()]
    [steps] = [line["seq"] for line in lines if line["id"] == name]
    return list(steps)


def messages(name: str) -> Iterator[tuple[str, bytes]]:
    """The messages of a sequence: topic below the plug's prefixes, and payload; ``{}`` is an empty object."""
    for step in sequence(name):
        place, payload = step["in"].split(" ", 1)
        topic = place if "/" in place else f"tele/plug-a/{place}"
        yield topic, payload.partition(" (")[0].encode()


async def with_plug(hub: Hub) -> None:
    """Admit a Tasmota plug that has just come online."""
    await hub.admits(PLUG, "tasmota", topic="plug-a")
    hub.bus.delivers("tele/plug-a/LWT", b"Online")
    await hub.settles()
    await hub.passes(WELL_AFTER)


async def test_seq_lwt_race_later_traffic_overrides_a_late_will(tmp_path: Path) -> None:
    async with new_hub(tmp_path) as hub:
        await with_plug(hub)

        for topic, payload in messages("seq-lwt-race"):
            hub.bus.delivers(topic, payload)
            await hub.settles()

        assert hub.devices.all()[0].online is True
        await hub.passes(WELL_AFTER)
        await hub.reaches(Stream.STATE, 3)
        assert await hub.values("availability") == ["online", "offline", "online"]


@pytest.mark.requirement("U7")
async def test_seq_flap_one_change_and_few_events(tmp_path: Path) -> None:
    [gone, back] = sequence("seq-flap")
    times, span = int(back["times"]), duration(back["over"])
    async with new_hub(tmp_path) as hub:
        await with_plug(hub)

        hub.bus.delivers("tele/plug-a/LWT", gone["in"].removeprefix("LWT ").encode())
        for _ in range(times):
            hub.bus.delivers("tele/plug-a/LWT", back["in"].removeprefix("LWT ").encode())
            await hub.settles()
            await hub.passes(span / times)
        await hub.breathes()

        assert await hub.values("availability") == ["online", "offline", "online"]
        assert await hub.told(Stream.RECORD, EventType.GAP) == []


@pytest.mark.requirement("U7", "R7")
async def test_two_clients_that_fight_over_one_name_give_few_events_and_a_gap(tmp_path: Path) -> None:
    """What the flap looks like from the broker: each connect throws the other out, whose will follows."""
    async with new_hub(tmp_path) as hub:
        await with_plug(hub)

        for _ in range(200):
            hub.bus.delivers("tele/plug-a/LWT", b"Offline")
            hub.bus.delivers("tele/plug-a/LWT", b"Online")
            await hub.settles()
            await hub.passes(SECOND / 20)
        await hub.passes(WELL_AFTER)
        await hub.until(lambda: hub.rows("SELECT 1 FROM shadow_readings WHERE told = 1"))

        first, *told = await hub.values("availability")
        gaps = await hub.told(Stream.RECORD, EventType.GAP)
        kept_back = [gap.data["changes"] for gap in gaps]
        assert first == "online"
        assert told[-1] == "online"
        assert len(told) <= 5
        assert sum(each for each in kept_back if isinstance(each, int)) == 400 - len(told)


@pytest.mark.requirement("Q2")
async def test_seq_dup_qos1_one_failure(tmp_path: Path) -> None:
    """The refusal of the first command comes again when the second is under way, and does not fail it."""
    [topic, payload], _ = messages("seq-dup-qos1")
    document = payload.replace(b"Command", b'"Command"').replace(b"Error", b'"Error"')
    written = threading.Event()
    async with new_hub(tmp_path) as hub:
        await with_plug(hub)
        first, second = waiter(hub), waiter(hub)
        first.sending(hub.clock.boot())
        hub.clock.passes(SECOND)

        # The PUBACK is lost with its connection, since the commit took its time.
        slow = asyncio.create_task(hub.store.write(lambda _: written.wait(DEADLINE)))
        hub.bus.delivers("tele/plug-a/SENSOR", b'{"ENERGY": {"Power": 5}}')
        hub.bus.delivers(topic, document)
        await hub.takes_in()
        hub.bus.goes_down()
        hub.clock.passes(SECOND)
        second.sending(hub.clock.boot())
        hub.clock.passes(SECOND)
        hub.bus.comes_up()
        written.set()
        await slow
        await hub.settles()

        assert [message.dup for message in hub.bus.acknowledged if message.payload == document] == [True]
        assert first.progress.denied is not None
        assert second.progress.denied is None


def waiter(hub: Hub) -> Waiter:
    """Somebody who waits for the plug to switch on."""
    device = hub.devices.all()[0]
    [step] = device.compiled.plan(ActionName.POWER, {"on": True}, number=1).steps
    return hub.confirmations.open(device.id, step.expectation)
