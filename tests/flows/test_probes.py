"""Asking devices how they are: when they are admitted, come online, or we were away; never too often."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.flows.probes import Probes
from edgeagent.ids import device_id
from edgeagent.ports.links import LinkError, Trouble
from tests.flows.building import WELL_AFTER, Hub, new_hub
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("M2")

SECOND = timedelta(seconds=1)

PATIENT = """
format = 1
id = "patient"
version = "1.0.0"
title = "Has to be asked each minute whether it is there"
transport = "hub"

[reading.power]
kind = "boolean"
state = true
from = [{ topic = "{device}/state", pick = "$.power" }]

[probe]
publish = { topic = "{device}/get", empty = true }
answer = [{ topic = "{device}/state" }]
within = "4s"
every = "1m"
"""


@asynccontextmanager
async def asking(hub: Hub) -> AsyncIterator[Probes]:
    """Who asks, introduced to those on whose word it does, as in the agent."""
    probes = Probes(hub.bus, hub.devices, hub.around)
    hub.confirmations.when_back(probes.ask_all)
    hub.confirmations.when_online(probes.ask)
    hub.devices.when_admitted(probes.ask)
    task = asyncio.create_task(probes.run())
    try:
        yield probes
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def asked(hub: Hub) -> list[str]:
    """The topics on which questions were sent."""
    return [message.topic for message in hub.bus.published]


async def test_a_device_is_asked_when_it_is_admitted(tmp_path: Path) -> None:
    async with new_hub(tmp_path) as hub, asking(hub):
        await hub.admits("dev-1")
        await eventually(lambda: hub.bus.published)

        [message] = hub.bus.published
        assert (message.topic, message.payload, message.expires_in) == ("dev-1/get", b"", 4)


async def test_a_device_is_asked_when_it_comes_online(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1") as hub, asking(hub):
        hub.bus.delivers("dev-1/lwt", b"Offline")
        hub.bus.delivers("dev-1/lwt", b"Online")
        await eventually(lambda: asked(hub) == ["dev-1/get"])


async def test_all_devices_are_asked_when_we_are_back(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1", "dev-2") as hub, asking(hub):
        hub.bus.goes_down()
        hub.bus.comes_up()
        await eventually(lambda: sorted(asked(hub)) == ["dev-1/get", "dev-2/get"])


@pytest.mark.requirement("R7")
async def test_one_that_flaps_is_not_asked_at_each_flap(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1") as hub, asking(hub):
        for _ in range(50):
            hub.bus.delivers("dev-1/lwt", b"Offline")
            hub.bus.delivers("dev-1/lwt", b"Online")
            await hub.settles()
        await hub.breathes()
        assert asked(hub) == ["dev-1/get"]

        await hub.passes(WELL_AFTER)
        await eventually(lambda: len(asked(hub)) == 2)
        await hub.passes(10 * WELL_AFTER)
        await hub.breathes()

        assert len(asked(hub)) == 2


async def test_what_could_not_be_sent_is_asked_when_the_connection_stands(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1") as hub, asking(hub) as probes:
        hub.bus.goes_down()
        await hub.settles()
        probes.ask(device_id("dev-1"))
        await hub.breathes()
        assert asked(hub) == []

        hub.bus.comes_up()

        await eventually(lambda: asked(hub) == ["dev-1/get"])


async def test_one_broker_error_ends_nothing(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1", "dev-2") as hub, asking(hub) as probes:
        hub.bus.answers_publish_with(LinkError(Trouble.BUSY, "too much on its way"))

        probes.ask_all()

        await eventually(lambda: asked(hub) == ["dev-2/get"])


async def test_a_family_that_has_to_be_asked_is_asked_again_and_again(tmp_path: Path) -> None:
    async with new_hub(tmp_path, profiles=[PATIENT]) as hub, asking(hub):
        await hub.admits("dev-1", "patient")
        await eventually(lambda: len(asked(hub)) == 1)
        for count in range(2, 5):
            await hub.passes(59 * SECOND)
            await hub.breathes()
            assert len(asked(hub)) == count - 1

            await hub.passes(SECOND)
            await reached(hub, count)


async def test_a_family_without_a_question_is_not_asked(tmp_path: Path) -> None:
    silent = PATIENT[: PATIENT.index("[probe]")].replace("patient", "silent")
    async with new_hub(tmp_path, profiles=[silent]) as hub, asking(hub) as probes:
        await hub.admits("dev-1", "silent")
        probes.ask_all()
        await hub.breathes()

        assert asked(hub) == []


async def test_a_device_that_was_let_go_is_not_asked(tmp_path: Path) -> None:
    async with new_hub(tmp_path, profiles=[PATIENT]) as hub, asking(hub) as probes:
        await hub.admits("dev-1", "patient")
        await eventually(lambda: len(asked(hub)) == 1)
        await hub.devices.forget(device_id("dev-1"), actor="uid:0 root")

        probes.ask(device_id("dev-1"))
        await hub.passes(timedelta(hours=1))
        await hub.breathes()

        assert len(asked(hub)) == 1


async def reached(hub: Hub, count: int) -> None:
    """Wait until so many questions were sent."""
    await eventually(lambda: len(asked(hub)) == count)
