"""The plans that the agent makes of an update, carried out by hand on the appliances of three families.

Nothing here knows how the agent works a command: a step is published, what is heard is followed, and the
version has the last word.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Final

import pytest

from edgeagent.contracts.sources import Value
from edgeagent.core.confirmation import Heard
from edgeagent.core.profile.compile import CompiledDevice, compile_device
from edgeagent.core.profile.firmware import FirmwarePlan
from edgeagent.core.updating import Course, Running, UpdateStep, follow
from edgeagent.ids import device_id
from firmware_sim.appliance import Appliance
from firmware_sim.board import World
from firmware_sim.faults import Fault, FaultPlan, Kind
from firmware_sim.image import Damage
from firmware_sim.journal import Journal
from firmware_sim.specification import BridgeSpecification
from firmware_sim.tasmota.settings import FlashKind, TasmotaSettings
from firmware_sim.zigbee2mqtt.models import ZigbeeModel
from firmware_sim.zigbee2mqtt.settings import Paired, ZigbeeSettings
from tests.core.profile.building import GATEWAY, family
from tests.firmware_sim.conftest import MAC, QUIET, a_shelly, a_tasmota, in_world, runs
from tests.firmware_sim.images import PUBLIC, a_shelly_image, a_tasmota_image, a_zigbee_image
from tests.firmware_sim.peer import Peer
from tests.firmware_sim.site import Site, serving
from tests.support.brokers import Mosquitto
from tests.support.waiting import eventually

pytestmark = [pytest.mark.requirement("F4"), pytest.mark.requirement("M1")]

LAMP: Final = "0x00158d0001020304"
SHELLY: Final = "shellyplugsg3-02a1b2c3d4e5"
HURRY = replace(QUIET, transfer=timedelta(milliseconds=100), retry=timedelta(milliseconds=10))


class Hand:
    """Carries a plan out, and hears what the device says."""

    def __init__(self, peer: Peer, device: CompiledDevice) -> None:
        self._peer = peer
        self._device = device

    async def does(self, plan: FirmwarePlan) -> list[Course]:
        """Send each step when the one before is over; ends with one that is denied."""
        courses: list[Course] = []
        for step in plan.steps:
            courses.append(await self.sends(step))
            if courses[-1].denied is not None:
                break
        return courses

    async def sends(self, step: UpdateStep) -> Course:
        """Send a step, and follow it to its end."""
        begun = len(self._peer.messages)
        self._peer.says(step.topic, step.payload)
        await eventually(lambda: self.follows(step, begun).is_over(step))
        return self.follows(step, begun)

    async def finds(self, plan: FirmwarePlan) -> Running:
        """Ask which version runs, again while it is one on the way; what the last one means."""
        found: list[Running] = []

        def told() -> bool:
            step = self._device.read_back(plan.verification.reading, number=len(found) + 100)
            if step is not None:
                self._peer.says(step.topic, step.payload)
            found.append(plan.verification.of(self._newest(plan.verification.reading)))
            return found[-1] in {Running.WANTED, Running.OTHER}

        await eventually(told)
        return found[-1]

    def follows(self, step: UpdateStep, begun: int) -> Course:
        """How far a step is by what was heard from there on."""
        course = Course()
        for message in self._peer.messages[begun:]:
            decoded = self._device.decode(message.topic, message.payload, retained=False)
            course = follow(step, course, Heard(topic=message.topic, decoded=decoded))
        return course

    def _newest(self, reading: str) -> Value | None:
        for message in reversed(self._peer.messages):
            decoded = self._device.decode(message.topic, message.payload, retained=False)
            for name, value in decoded.readings:
                if name == reading:
                    return value
        return None


def compiled(profile: str, device: str, parameters: Mapping[str, object]) -> CompiledDevice:
    """A device of a shipped family."""
    return compile_device(family(profile), device_id(device), parameters, gateway=GATEWAY)


def plug() -> CompiledDevice:
    """The Tasmota plug."""
    names = {place: f"{place}/tasmota_C3D4E5" for place in ("cmnd", "stat", "tele")}
    return compiled("tasmota", MAC, {"topic": "tasmota_C3D4E5", **names})


def lamp() -> CompiledDevice:
    """The lamp behind the bridge."""
    return compiled("zigbee2mqtt", LAMP, {"friendly_name": "bar/lamp 1"})


def a_bridge() -> BridgeSpecification:
    """A bridge with one lamp."""
    paired = Paired(ieee=LAMP, model=ZigbeeModel.LAMP, name="bar/lamp 1")
    return BridgeSpecification(mac=MAC, settings=ZigbeeSettings(devices=(paired,)))


def world(broker: Mosquitto, journal: Journal, *faults: Fault) -> World:
    """A world in a hurry, whose maker is known."""
    return replace(in_world(broker, journal, timing=HURRY, plan=FaultPlan(faults)), maker=PUBLIC)


def planned(device: CompiledDevice, site: Site, name: str, version: str) -> FirmwarePlan:
    """The plan to install a file."""
    return device.firmware(url=f"{site.url}/{name}", version=version, number=7)


@pytest.mark.parametrize(
    "settings",
    [TasmotaSettings(), TasmotaSettings(flash=FlashKind.ONE_MEGABYTE)],
    ids=["one boot", "two boots"],
)
async def test_a_tasmota_is_updated_by_its_plan(
    settings: TasmotaSettings, broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    files = {"t.bin": a_tasmota_image(), "t-minimal.bin": a_tasmota_image(minimal=True)}

    async with (
        serving(files) as site,
        Appliance(a_tasmota(settings=settings), world(broker, journal)) as device,
    ):
        plan, hand = planned(plug(), site, "t.bin", "14.2.0"), Hand(peer, plug())
        courses = await hand.does(plan)
        found = await hand.finds(plan)
        running = runs(device)

    assert [course.denied for course in courses] == [None, None]
    assert (found, running) == (Running.WANTED, "14.2.0")


async def test_a_tasmota_that_finds_no_file_denies_and_runs_what_it_ran(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with serving({}) as site, Appliance(a_tasmota(), world(broker, journal)) as device:
        plan, hand = planned(plug(), site, "t.bin", "14.2.0"), Hand(peer, plug())
        courses = await hand.does(plan)
        found = await hand.finds(plan)
        running = runs(device)

    assert courses[-1].denied is not None
    assert courses[-1].denied.words.startswith("Failed")
    assert (found, running) == (Running.OTHER, "14.1.0")


async def test_a_shelly_is_updated_by_its_plan(broker: Mosquitto, peer: Peer, journal: Journal) -> None:
    shelly = compiled("shelly-gen2", SHELLY, {"switches": [0]})

    async with (
        serving({"s.fw": a_shelly_image()}) as site,
        Appliance(a_shelly(), world(broker, journal)) as device,
    ):
        plan, hand = planned(shelly, site, "s.fw", "1.7.2"), Hand(peer, shelly)
        (course,) = await hand.does(plan)
        found = await hand.finds(plan)
        running = runs(device)

    assert (course.taken, course.done, course.back, course.denied) == (True, True, True, None)
    assert course.percent is not None
    assert (found, running) == (Running.WANTED, "1.7.2")


async def test_a_shelly_denies_what_its_maker_has_not_signed(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    shelly = compiled("shelly-gen2", SHELLY, {"switches": [0]})

    async with (
        serving({"s.fw": a_shelly_image(damage=Damage.SIGNATURE)}) as site,
        Appliance(a_shelly(), world(broker, journal)),
    ):
        plan, hand = planned(shelly, site, "s.fw", "1.7.2"), Hand(peer, shelly)
        (course,) = await hand.does(plan)
        found = await hand.finds(plan)

    assert course.denied is not None
    assert (course.done, found) == (False, Running.OTHER)


async def test_a_lamp_behind_a_bridge_is_updated_by_its_plan(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with (
        serving({"l.ota": a_zigbee_image()}) as site,
        Appliance(a_bridge(), world(broker, journal)) as bridge,
    ):
        await peer.hears("zigbee2mqtt/bar/lamp 1")
        plan, hand = planned(lamp(), site, "l.ota", "192"), Hand(peer, lamp())
        (course,) = await hand.does(plan)
        found = await hand.finds(plan)
        running = runs(bridge, LAMP)

    assert (course.percent, course.done, course.denied) == (100, True, None)
    assert (found, running) == (Running.WANTED, "192")


async def test_a_bridge_that_restarts_in_the_middle_is_seen_though_it_answers_nothing(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    stalled = Fault(kind=Kind.STALL, part=LAMP, percent=30)

    async with (
        serving({"l.ota": a_zigbee_image()}) as site,
        Appliance(a_bridge(), world(broker, journal, stalled)),
    ):
        await peer.hears("zigbee2mqtt/bar/lamp 1")
        plan, hand = planned(lamp(), site, "l.ota", "192"), Hand(peer, lamp())
        (step,) = plan.steps
        begun = len(peer.messages)
        peer.says(step.topic, step.payload)
        await eventually(lambda: hand.follows(step, begun).percent)
        peer.says("zigbee2mqtt/bridge/request/restart", "")
        await eventually(lambda: hand.follows(step, begun).denied)
        found = await hand.finds(plan)

    assert found is Running.OTHER


async def test_an_update_by_way_of_a_bridge_is_called_off(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    stalled = Fault(kind=Kind.STALL, part=LAMP, percent=30)

    async with (
        serving({"l.ota": a_zigbee_image()}) as site,
        Appliance(a_bridge(), world(broker, journal, stalled)),
    ):
        await peer.hears("zigbee2mqtt/bar/lamp 1")
        plan, hand = planned(lamp(), site, "l.ota", "192"), Hand(peer, lamp())
        (step,) = plan.steps
        begun = len(peer.messages)
        peer.says(step.topic, step.payload)
        await eventually(lambda: hand.follows(step, begun).percent)
        cancel = lamp().cancel(number=8)
        assert cancel is not None
        peer.says(cancel.topic, cancel.payload)
        answer = await peer.hears(cancel.expectation.answers[0].topic)
        await eventually(lambda: hand.follows(step, begun).denied)

    assert (answer.json["status"], answer.json["transaction"]) == ("ok", 8)
