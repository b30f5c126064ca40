"""Devices that share something: who listens to what, and what becomes of one that is called otherwise."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest
from pydantic import JsonValue

from edgeagent.contracts.event import Stream
from edgeagent.core.audit_chain import AuditKind
from edgeagent.errors import RejectedError
from edgeagent.flows.devices import Devices
from edgeagent.ids import device_id, label
from edgeagent.store import audit
from tests.core.profile.bridge import COORDINATOR, light, listed
from tests.flows.building import Hub, new_hub
from tests.support.stores import full_disk
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("M4")

LIST: Final = "zigbee2mqtt/bridge/devices"
STATE: Final = "zigbee2mqtt/bridge/state"
FIRST, SECOND = device_id("0x0000000000000001"), device_id("0x0000000000000002")


async def lists(hub: Hub, topic: str = LIST, /, **names: str) -> None:
    """A bridge tells what it has: lamps, by the last digit of their address."""
    told: list[JsonValue] = [COORDINATOR]
    told += [listed(f"0x{place[-1]:0>16}", name, light()) for place, name in names.items()]
    hub.bus.delivers(topic, json.dumps(told).encode(), retain=True)
    await hub.settles()


async def admits(hub: Hub, *devices: str) -> None:
    """An operator takes in what was proposed."""
    for device in devices:
        proposal = hub.devices.proposals[device_id(device)]
        await hub.devices.admit(
            proposal.device, proposal.profile, proposal.parameters, proposal.label, actor="uid:0 root"
        )


async def says(hub: Hub, topic: str, **fields: JsonValue) -> None:
    """The bridge says something."""
    hub.bus.delivers(topic, json.dumps(fields).encode())
    await hub.settles()


def names(devices: Devices) -> dict[str, object]:
    """What each admitted device is called at its bridge."""
    return {device.id: device.compiled.parameters["friendly_name"] for device in devices.all()}


async def moves(hub: Hub) -> list[tuple[str, dict[str, object]]]:
    """What the trail tells of names."""
    rows = await hub.store.read(lambda db: audit.rows(db, after=0, most=1000))
    return [(row.subject, json.loads(row.detail)) for row, _ in rows if row.kind == AuditKind.DEVICE_MOVED]


class TestSharing:
    """What devices share tells of all of them; what is a device's own, of it alone."""

    async def test_one_list_proposes_all_and_one_that_leaves_it_is_proposed_no_more(
        self, tmp_path: Path
    ) -> None:
        async with new_hub(tmp_path) as hub:
            await lists(hub, d1="lamp", d2="spot")
            assert set(hub.devices.proposals) == {FIRST, SECOND}

            await lists(hub, d2="spot")

            assert set(hub.devices.proposals) == {SECOND}

    @pytest.mark.parametrize("name", ["lamp/set", "lamp/get", "set/set", "a/set/b"])
    async def test_a_name_that_is_a_command_to_another_is_neither_proposed_nor_admitted(
        self, tmp_path: Path, name: str
    ) -> None:
        async with new_hub(tmp_path) as hub:
            await lists(hub, d1="lamp", d2=name)
            await admits(hub, FIRST)
            told = {"base": "zigbee2mqtt", "friendly_name": name}

            assert set(hub.devices.proposals) == set()
            with pytest.raises(RejectedError, match="by which its family tells a command to another device"):
                await hub.devices.admit(SECOND, "zigbee2mqtt", told, label("thing"), actor="uid:0 root")
            assert [device.id for device in hub.devices.all()] == [FIRST]

    async def test_another_bridge_neither_overwrites_a_proposal_nor_takes_it_back(
        self, tmp_path: Path
    ) -> None:
        async with new_hub(tmp_path) as hub:
            await lists(hub, d1="lamp")
            await lists(hub, "attic/bridge/devices", d1="mine")
            assert hub.devices.proposals[FIRST].parameters["friendly_name"] == "lamp"

            await lists(hub, "attic/bridge/devices")
            assert hub.devices.proposals[FIRST].parameters["friendly_name"] == "lamp"

            # Once its own bridge has it no more, it is the other's.
            await lists(hub)
            await lists(hub, "attic/bridge/devices", d1="mine")
            assert hub.devices.proposals[FIRST].parameters["base"] == "attic"

    async def test_the_lists_of_two_bridges_do_not_take_from_each_other(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            await lists(hub, d1="lamp")
            await lists(hub, "attic/bridge/devices", d2="spot")

            assert set(hub.devices.proposals) == {FIRST, SECOND}

    async def test_a_bridge_that_goes_takes_all_of_its_devices_along(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            await lists(hub, d1="lamp", d2="spot")
            await admits(hub, FIRST, SECOND)
            await says(hub, STATE, state="online")
            assert [device.online for device in hub.devices.all()] == [True, True]

            await says(hub, "zigbee2mqtt/spot/availability", state="offline")
            assert [device.online for device in hub.devices.all()] == [True, False]
            await says(hub, STATE, state="offline")
            await says(hub, STATE, state="online")

            assert [device.online for device in hub.devices.all()] == [True, False]

    async def test_one_that_is_forgotten_leaves_the_others_what_they_share(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            await lists(hub, d1="lamp", d2="spot")
            await admits(hub, FIRST, SECOND)

            await hub.devices.forget(FIRST, actor="uid:0 root")
            await says(hub, STATE, state="online")

            assert [device.online for device in hub.devices.all()] == [True]

    @pytest.mark.parametrize("name", ["lamp", "bridge/state", "bridge/logging", "lamp/availability"])
    async def test_nobody_takes_a_topic_of_another_or_of_the_bridge(self, tmp_path: Path, name: str) -> None:
        async with new_hub(tmp_path) as hub:
            await lists(hub, d1="lamp")
            await admits(hub, FIRST)
            before = hub.rows("SELECT * FROM devices")

            with pytest.raises(RejectedError, match="has the topic"):
                await hub.devices.admit(
                    SECOND, "zigbee2mqtt", {"friendly_name": name}, label("x"), actor="uid:0 root"
                )

            assert hub.rows("SELECT * FROM devices") == before
            await says(hub, STATE, state="online")
            assert [device.online for device in hub.devices.all()] == [True]

    async def test_what_the_bridge_answers_costs_nothing_while_nobody_waits(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            await lists(hub, d1="lamp")
            await admits(hub, FIRST)
            before = hub.devices.all()[0].heard

            await says(hub, "zigbee2mqtt/bridge/logging", level="error", message="x")

            assert hub.devices.all()[0].heard == before
            assert hub.counted("edgeagent_messages_unusable_total") == 0


@asynccontextmanager
async def following(folder: Path) -> AsyncIterator[Hub]:
    """A hub that takes over what its devices announce anew."""
    async with new_hub(folder) as hub:
        task = asyncio.create_task(hub.devices.follow())
        try:
            yield hub
        finally:
            task.cancel()


class TestMoving:
    """A device is known by its address and spoken to by its name."""

    async def test_another_name_is_followed_put_on_record_and_kept(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO")
        async with following(tmp_path) as hub:
            await lists(hub, d1="lamp")
            await admits(hub, FIRST)

            await lists(hub, d1="bar/lamp 1")
            await eventually(lambda: names(hub.devices) == {FIRST: "bar/lamp 1"})
            await says(hub, "zigbee2mqtt/bar/lamp 1", state="ON")
            await says(hub, "zigbee2mqtt/lamp", state="OFF")

            assert await hub.values("power", FIRST) == [True]
            assert await moves(hub) == [(FIRST, {"friendly_name": "bar/lamp 1"})]
            [line] = [vars(each) for each in caplog.records if each.msg == "device moved"]
            assert (line["device"], line["changed"]) == (FIRST, ["friendly_name"])
            assert "bar/lamp 1" not in str(line)
            assert len(await hub.told(Stream.RECORD)) == 1
            await hub.dies()
            await hub.starts()
            assert names(hub.devices) == {FIRST: "bar/lamp 1"}

    @pytest.mark.requirement("T9")
    async def test_a_bridge_that_renames_without_end_costs_a_row_a_minute(self, tmp_path: Path) -> None:
        async with following(tmp_path) as hub:
            await lists(hub, d1="lamp")
            await admits(hub, FIRST)

            for number in range(20):
                await lists(hub, d1=f"lamp {number}")
                await eventually(lambda: names(hub.devices) == {FIRST: f"lamp {number}"})  # noqa: B023 - awaited here
            first = [(FIRST, {"friendly_name": "lamp 0"})]
            assert await moves(hub) == first

            await hub.passes(timedelta(seconds=61))
            await lists(hub, d1="lamp")
            await eventually(lambda: names(hub.devices) == {FIRST: "lamp"})
            assert await moves(hub) == [*first, (FIRST, {"friendly_name": "lamp 19", "moves": 19})]

    async def test_two_may_change_their_names_with_each_other(self, tmp_path: Path) -> None:
        async with following(tmp_path) as hub:
            await lists(hub, d1="lamp", d2="spot")
            await admits(hub, FIRST, SECOND)

            await lists(hub, d1="spot", d2="lamp")

            await eventually(lambda: names(hub.devices) == {FIRST: "spot", SECOND: "lamp"})
            await says(hub, "zigbee2mqtt/lamp", state="ON")
            assert await hub.values("power", SECOND) == [True]
            assert await hub.values("power", FIRST) == []

    @pytest.mark.parametrize("name", ["spot", "bridge/state", "spot/set", "spot/get/x", "a/#", "x" * 600, ""])
    async def test_a_name_that_cannot_be_its_own_changes_nothing(self, tmp_path: Path, name: str) -> None:
        async with following(tmp_path) as hub:
            await lists(hub, d1="lamp", d2="spot", d3="door")
            await admits(hub, FIRST, SECOND, "0x0000000000000003")

            await lists(hub, d1=name, d2="spot", d3="gate")

            # What is wrong with one hinders no other.
            await eventually(lambda: "gate" in names(hub.devices).values())
            assert names(hub.devices)[FIRST] == "lamp"
            assert [subject for subject, _ in await moves(hub)] == ["0x0000000000000003"]

    async def test_who_would_follow_one_that_has_to_stay_stays_too(self, tmp_path: Path) -> None:
        async with following(tmp_path) as hub:
            await lists(hub, d1="a", d2="b", d3="c", d4="d", d5="e")
            await admits(hub, *(f"0x{place:016x}" for place in range(1, 6)))

            # The first three stand in a row behind one that does not move; the last is in nobody's way.
            await lists(hub, d1="b", d2="c", d3="d", d4="d", d5="f")

            await eventually(lambda: "f" in names(hub.devices).values())
            assert [*names(hub.devices).values()] == ["a", "b", "c", "d", "f"]
            assert [subject for subject, _ in await moves(hub)] == ["0x0000000000000005"]

    async def test_of_two_that_take_one_name_one_moves(self, tmp_path: Path) -> None:
        async with following(tmp_path) as hub:
            await lists(hub, d1="a", d2="b")
            await admits(hub, FIRST, SECOND)

            await lists(hub, d1="c", d2="c")

            await eventually(lambda: "c" in names(hub.devices).values())
            assert sorted(map(str, names(hub.devices).values())) in (["a", "c"], ["b", "c"])

    async def test_another_bridge_moves_nobody(self, tmp_path: Path) -> None:
        async with following(tmp_path) as hub:
            await lists(hub, d1="lamp", d2="spot")
            await admits(hub, FIRST, SECOND)

            await lists(hub, "attic/bridge/devices", d1="mine now")
            await lists(hub, d1="lamp", d2="moved")

            await eventually(lambda: names(hub.devices)[SECOND] == "moved")
            assert names(hub.devices)[FIRST] == "lamp"

    @pytest.mark.requirement("Q1")
    async def test_a_name_waits_for_a_store_that_cannot_be_written(self, tmp_path: Path) -> None:
        async with following(tmp_path) as hub:
            await lists(hub, d1="lamp")
            await admits(hub, FIRST)

            with full_disk(hub.path):
                await lists(hub, d1="other")
                assert names(hub.devices) == {FIRST: "lamp"}

            await eventually(lambda: names(hub.devices) == {FIRST: "other"})
