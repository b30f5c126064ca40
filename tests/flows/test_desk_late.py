"""Answers that come after a command has ended as unknown: they correct what is known, never the end."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from edgeagent.contracts.event import EventType
from edgeagent.contracts.mqtt import Outgoing
from edgeagent.contracts.policy import ActionRule, Level, Tier, TierRule
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.lifecycle import State
from edgeagent.ids import DeviceId, device_id, label
from tests.flows.commanding import Hub, new_hub
from tests.flows.scripted import Television
from tests.flows.signing import HUB, MINUTE, POWER, REBOOT, SECOND, TOGGLE, VOLUME

SHELLY: DeviceId = device_id("shellyplus1pm-a8032abe54dc")
PLUG: DeviceId = device_id("AABBCCDDEEFF")
ONE_TRY = {tier: TierRule(attempts=1) for tier in (Tier.LOW, Tier.MEDIUM)}


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub whose policy lets everything be tried once."""
    async with new_hub(tmp_path) as made:
        await made.has_policy(version=2, tiers=ONE_TRY)
        yield made


@pytest.fixture
async def tv(hub: Hub) -> Television:
    """Its television, off."""
    return await hub.television()


async def corrections(hub: Hub) -> list[object]:
    """The commands whose outcome was corrected, in the records and in the trail alike."""
    await hub.settles()
    await hub.now.upkeep.look()
    told = [data["command"] for _, data in await hub.records(EventType.CORRECTED)]
    assert told == [row["subject"] for row in await hub.audited(AuditKind.COMMAND_CORRECTED)]
    return list(told)


def operations(hub: Hub) -> list[object]:
    """What became of the operations."""
    return [state for (state,) in hub.rows("SELECT state FROM operations")]


@pytest.mark.requirement("M2", "I2", "A1")
async def test_a_late_echo_completes_the_operation_and_leaves_the_receipt_as_it_is(
    hub: Hub, tv: Television
) -> None:
    tv.is_deaf()
    tv.is_mute()
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    await hub.works()
    receipt = await hub.ended(command)
    assert (receipt.outcome, operations(hub)) == (Outcome.UNKNOWN, ["unknown"])

    tv.reports(power=True)

    assert await corrections(hub) == [command.id]
    assert operations(hub) == ["completed"]
    assert await hub.ended(command) == receipt
    assert (await hub.row(command)).state is State.UNKNOWN


@pytest.mark.requirement("M2", "I2")
async def test_it_is_corrected_once_however_often_the_device_shows_it(hub: Hub, tv: Television) -> None:
    tv.is_silent()
    command = hub.command(TOGGLE)
    await hub.admits(command)
    await hub.works(Tier.MEDIUM)

    for _ in range(3):
        tv.reports()

    assert await corrections(hub) == [command.id]
    tv.reports(power=False)
    assert await corrections(hub) == [command.id]


@pytest.mark.requirement("M2")
async def test_what_shows_something_else_corrects_nothing(hub: Hub, tv: Television) -> None:
    tv.is_deaf()
    tv.is_mute()
    await hub.admits(hub.command(POWER, on=True))
    await hub.works()

    tv.reports(power=False, volume=30)

    assert await corrections(hub) == []
    assert operations(hub) == ["unknown"]


@pytest.mark.requirement("M2")
async def test_a_quarter_of_an_hour_later_nobody_listens_any_more(hub: Hub, tv: Television) -> None:
    tv.is_deaf()
    tv.is_mute()
    await hub.admits(hub.command(POWER, on=True))
    await hub.works()
    hub.passes(16 * MINUTE)

    tv.reports(power=True)

    assert await corrections(hub) == []
    assert operations(hub) == ["unknown"]


@pytest.mark.requirement("M2")
async def test_the_effect_of_a_later_command_is_not_taken_for_the_late_effect_of_an_earlier_one(
    hub: Hub, tv: Television
) -> None:
    tv.is_deaf()
    tv.is_mute()
    unknown = hub.command(POWER, on=True)
    await hub.admits(unknown)
    await hub.works()
    tv.obeys()
    other = hub.command(POWER, on=True)
    await hub.admits(other)

    await hub.works()

    assert (await hub.ended(other)).outcome is Outcome.SUCCEEDED
    assert await corrections(hub) == []


@pytest.mark.requirement("M2", "I2")
async def test_an_answer_that_comes_while_the_device_is_read_back_is_in_time(
    hub: Hub, tv: Television
) -> None:
    tv.is_deaf()
    tv.leaves_out("volume")
    tv.meanwhile(lambda: tv.reports(volume=20))
    command = hub.command(VOLUME, level=20)
    await hub.admits(command)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.level) == (Outcome.SUCCEEDED, Level.APPLIED)


@pytest.mark.requirement("I2", "I3", "T4")
async def test_a_one_shot_that_is_held_for_that_outcome_gets_the_first_result(
    hub: Hub, tv: Television
) -> None:
    tv.is_silent()
    first = hub.command(REBOOT, operation="ticket-7")
    await hub.admits(first)
    await hub.works(Tier.MEDIUM)
    second = hub.command(REBOOT, operation="ticket-7")
    await hub.admits(second)
    assert (await hub.row(second)).state is State.HELD

    tv.says(rebooting=True)

    assert await corrections(hub) == [first.id]
    receipt = await hub.ended(second)
    assert (receipt.outcome, receipt.reason) == (Outcome.REFUSED, Reason.OPERATION_DONE)
    assert tv.effects == [("reboot", True)]


# Families that are shipped.


class Shelly:
    """A switch that answers each request under its number, as late as it is told to."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.asked: list[int] = []
        hub.bus.reacts(f"{SHELLY}/rpc", self._hear)

    def _hear(self, message: Outgoing) -> None:
        self.asked.append(json.loads(message.payload)["id"])
        self._hub.passes(6 * SECOND)

    def answers(self, number: int) -> None:
        """It answers a request at last."""
        fields = {
            "id": number,
            "src": SHELLY,
            "dst": f"edgeagent/{HUB}/{SHELLY}",
            "result": {"was_on": False},
        }
        self._hub.bus.delivers(f"edgeagent/{HUB}/{SHELLY}/rpc", json.dumps(fields).encode())


async def shelly(hub: Hub) -> Shelly:
    """Admit a Shelly with one switch, whose yes is enough by policy."""
    rule = ActionRule(tier=Tier.LOW, confirmation=Level.ACCEPTED)
    await hub.has_policy(version=3, tiers=ONE_TRY, actions={POWER: rule})
    await hub.now.devices.admit(SHELLY, "shelly-gen2", {"switches": [0]}, label("Shelly"), actor="uid:0 root")
    hub.bus.delivers(f"{SHELLY}/online", b"true")
    await hub.settles()
    return Shelly(hub)


@pytest.mark.requirement("M2", "I2", "M1")
async def test_seq_late_ack_a_reply_after_the_deadline_corrects_the_unknown(hub: Hub) -> None:
    """The sequence ``seq-late-ack``: the number of the request tells which command it answers."""
    device = await shelly(hub)
    command = hub.command(POWER, on=True, device=SHELLY)
    await hub.admits(command)
    await hub.works()
    assert (await hub.ended(command)).outcome is Outcome.UNKNOWN

    device.answers(device.asked[0])

    assert await corrections(hub) == [command.id]
    assert operations(hub) == ["completed"]


@pytest.mark.requirement("M2", "I2")
async def test_a_numbered_reply_is_told_from_that_of_a_later_command(hub: Hub) -> None:
    device = await shelly(hub)
    first, second = (hub.command(POWER, on=True, device=SHELLY) for _ in range(2))
    for command in (first, second):
        await hub.admits(command)
        await hub.works()
        assert (await hub.ended(command)).outcome is Outcome.UNKNOWN
    assert len(set(device.asked)) == len(device.asked)

    device.answers(device.asked[0])

    assert await corrections(hub) == [first.id]


@pytest.mark.requirement("L1", "L4", "M2")
async def test_seq_two_in_flight_the_second_command_is_sent_when_the_first_has_ended(hub: Hub) -> None:
    """The sequence ``seq-two-in-flight``: nothing tells two echoes of a plug apart; one at a time."""
    await hub.now.devices.admit(PLUG, "tasmota", {"topic": "plug-a"}, label("Plug"), actor="uid:0 root")
    hub.bus.delivers("tele/plug-a/LWT", b"Online")
    await hub.settles()
    on = hub.command(POWER, on=True, device=PLUG)
    off = hub.command(POWER, on=False, device=PLUG)
    hub.bus.reacts("cmnd/plug-a/POWER1", lambda message: _echo(hub, message))
    await hub.admits(on)
    claim = await hub.claims()
    await hub.admits(off)
    assert not await hub.has_work()

    await hub.now.dispatch[Tier.LOW].work(claim)
    assert [sent.payload for sent in hub.bus.published] == [b"ON"]
    await hub.works()

    assert [sent.payload for sent in hub.bus.published] == [b"ON", b"OFF"]
    assert (await hub.ended(on)).outcome is (await hub.ended(off)).outcome is Outcome.SUCCEEDED


def _echo(hub: Hub, message: Outgoing) -> None:
    """The plug does as it is told, and says so."""
    hub.passes(SECOND / 100)
    hub.bus.delivers("stat/plug-a/POWER", message.payload)
