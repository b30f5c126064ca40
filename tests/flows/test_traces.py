"""The trace of a command: followed from the cloud to the device and the result, and drawn afterwards."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.event import EventType
from edgeagent.contracts.policy import Bans
from edgeagent.contracts.reports.dead_letters import LettersWanted, ReplayRequest
from edgeagent.contracts.reports.trace import SpanReport, WayReport
from edgeagent.core.audit_chain import AuditKind
from edgeagent.errors import RejectedError
from edgeagent.flows.admission import Arrival
from edgeagent.flows.traces import trace
from edgeagent.flows.uplink import Uplink, UplinkSettings
from edgeagent.ids import CommandId, device_id
from edgeagent.store import audit, receipts
from edgeagent.store.audit import Act, Span
from tests.flows.commanding import Hub, new_hub
from tests.flows.signing import HUB, POWER, SECOND, TV, VOLUME
from tests.support.fake_cloud import FakeCloud
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("O2")

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TOLD = f"00-{TRACE}-{SPAN}-01"


async def way(hub: Hub, command: CommandId) -> WayReport:
    """The way of a command for one device."""
    [found] = (await trace(hub.store, command)).ways
    return found


def by_name(found: WayReport) -> dict[str, SpanReport]:
    """The last span of each name."""
    return {span.name: span for span in found.spans}


async def test_a_command_keeps_the_trace_of_its_issuer_up_to_the_receipt(tmp_path: Path) -> None:
    async with new_hub(tmp_path) as hub:
        await hub.television()
        command = hub.command(POWER, on=True)
        hub.passes(SECOND)

        await hub.now.admission.admit([Arrival(hub.signed(command), traceparent=TOLD)])
        await hub.works()

        # The whole is the issuer's child, and all else is a part of it.
        found = await way(hub, command.id)
        spans = by_name(found)
        assert (found.trace, spans["command"].parent) == (TRACE, SPAN)
        names = [span.name for span in found.spans]
        assert names == ["command", "cloud", "gate", "lane", "work", "step", "confirmation", "receipt"]
        inner = {"step", "confirmation"}
        for span in found.spans[1:]:
            assert span.parent == spans["work" if span.name in inner else "command"].span
            assert span.end is not None
        assert len({span.span for span in found.spans}) == len(found.spans)
        assert spans["cloud"].end is not None
        assert spans["cloud"].end - spans["cloud"].start == SECOND

        # The device and the receipt were told the very spans.
        sent = [message.traceparent for message in hub.bus.published if "/set/" in message.topic]
        assert sent == [f"00-{TRACE}-{spans['step'].span}-01"]
        [receipt] = hub.rows("SELECT traceparent FROM outbox WHERE type LIKE '%receipt'")
        assert receipt == (f"00-{TRACE}-{spans['receipt'].span}-01",)


@pytest.mark.parametrize("told", [None, "00-nonsense", f"00-{'0' * 32}-{SPAN}-01"])
async def test_a_command_without_a_usable_trace_begins_one_of_its_own(
    tmp_path: Path, told: str | None
) -> None:
    async with new_hub(tmp_path) as hub:
        await hub.television()
        one, other = hub.command(POWER, on=True), hub.command(POWER, on=False)

        for command in (one, other):
            await hub.now.admission.admit([Arrival(hub.signed(command), traceparent=told)])
            await hub.works()

        found = [await way(hub, command.id) for command in (one, other)]
        assert len({each.trace for each in found}) == 2
        assert [each.spans[0].parent for each in found] == ["", ""]


async def test_what_is_not_signed_changes_nothing_but_the_trace(tmp_path: Path) -> None:
    async with new_hub(tmp_path) as hub:
        await hub.television()
        envelope = hub.signed(hub.command(POWER, on=True))

        # It comes again under another trace: a repeat, whose trace stays what it was.
        for told in (TOLD, f"00-{'a' * 32}-{'b' * 16}-01"):
            await hub.now.admission.admit([Arrival(envelope, traceparent=told)])

        assert hub.rows("SELECT traceparent FROM inbox") == [(TOLD,)]


async def test_every_try_and_wait_is_drawn_and_what_goes_on_is_open(tmp_path: Path) -> None:
    async with new_hub(tmp_path) as hub:
        tv = await hub.television()
        tv.is_deaf()
        tv.is_mute()
        command = hub.command(POWER, on=True)
        await hub.admits(command)

        await hub.works()

        spans = by_name(await way(hub, command.id))
        assert spans["wait"].says["reason"] == "retrying"
        assert [name for name, span in spans.items() if span.end is None] == ["command", "wait"]

        tv.obeys()
        hub.passes(60 * SECOND)
        await hub.works()
        found = await way(hub, command.id)
        assert [span.name for span in found.spans].count("step") == 2
        assert by_name(found)["step"].says["attempt"] == "2"
        assert all(span.end is not None for span in found.spans)
        assert found.spans[0].says["outcome"] == "succeeded"


@pytest.mark.requirement("S1")
async def test_the_parts_of_an_action_are_steps_of_their_own_which_the_device_was_told(
    tmp_path: Path,
) -> None:
    async with new_hub(tmp_path) as hub:
        policy = hub.now.trust.policy
        assert policy is not None
        rule = policy.actions[POWER]
        await hub.has_policy(version=2, actions={**policy.actions, ActionName.PRESENT: rule})
        await hub.television()
        command = hub.command(ActionName.PRESENT, input="HDMI 2", volume=15)
        await hub.admits(command)

        await hub.works_all()

        found = await way(hub, command.id)
        steps = [span for span in found.spans if span.name == "step"]
        sent = [message.traceparent for message in hub.bus.published if "/set/" in message.topic]
        assert found.spans[0].says["outcome"] == "succeeded"
        assert len(steps) > 1
        assert sent == [f"00-{found.trace}-{span.span}-01" for span in steps]
        ended = [span for span in found.spans if span.name == "confirmation"]
        assert [span.says["step"] for span in ended] == [span.says["step"] for span in steps]


async def test_each_device_of_a_command_has_its_own_way_in_the_one_trace(tmp_path: Path) -> None:
    async with new_hub(tmp_path) as hub:
        second = device_id("tv-2")
        await hub.television()
        await hub.television(second)
        command = hub.command(POWER, device=[TV, second], on=True)
        await hub.now.admission.admit([Arrival(hub.signed(command), traceparent=TOLD)])

        await hub.works_all()

        ways = (await trace(hub.store, command.id)).ways
        assert [each.device for each in ways] == [TV, second]
        assert {each.trace for each in ways} == {TRACE}
        ids = [span.span for each in ways for span in each.spans]
        assert len(ids) == len(set(ids))


async def test_the_upload_of_the_receipt_is_a_part_of_it(tmp_path: Path) -> None:
    async with new_hub(tmp_path) as hub:
        await hub.television()
        command = hub.command(POWER, on=True)
        cloud = FakeCloud(HUB, hub.clock)
        await hub.now.admission.admit([Arrival(hub.signed(command), traceparent=TOLD)])
        await hub.works()
        hub.passes(7 * SECOND)
        assert "upload" not in by_name(await way(hub, command.id))

        uplink = asyncio.create_task(
            Uplink(hub.store, cloud, hub.now.around, UplinkSettings(linger=0 * SECOND)).run()
        )
        await eventually(lambda: not hub.rows("SELECT 1 FROM outbox"))
        uplink.cancel()
        with suppress(asyncio.CancelledError):
            await uplink

        upload = by_name(await way(hub, command.id))["upload"]
        assert upload.end is not None
        assert upload.end - upload.start >= 7 * SECOND
        told = [event for event in cloud.stored.values() if EventType.RECEIPT.encode() in event]
        assert [TRACE.encode() in event for event in told] == [True]


async def test_a_command_that_never_came_has_no_trace(tmp_path: Path) -> None:
    async with new_hub(tmp_path) as hub:
        with pytest.raises(RejectedError, match="no command nothing has come"):
            await trace(hub.store, CommandId("nothing"))


@pytest.mark.requirement("D2")
async def test_a_replay_goes_on_in_the_trace_of_what_it_repeats_below_its_receipt(tmp_path: Path) -> None:
    async with new_hub(tmp_path) as hub:
        await hub.television()
        command = hub.command(POWER, on=True)
        await hub.now.admission.admit([Arrival(hub.signed(command), traceparent=TOLD)])
        await hub.has_policy(version=2, bans=Bans(devices=frozenset({TV})))
        await hub.works()
        first = by_name(await way(hub, command.id))
        await hub.has_policy(version=3)

        await hub.now.letters.replay(ReplayRequest(wanted=LettersWanted(number=1)), "uid:0 root")
        await hub.works()

        found = await way(hub, command.id)
        spans = by_name(found)
        assert (found.trace, found.run) == (TRACE, 2)
        assert spans["command"].parent == first["receipt"].span
        assert spans["command"].says["replay_of"] == "1"
        assert spans["dead_letter_replayed"].says == {"dead_letter": "1", "replay_of": "1"}
        assert (spans["lane"].end, spans["receipt"].says["outcome"]) == (spans["work"].start, "succeeded")


@pytest.mark.requirement("D2", "T8")
async def test_a_letter_whose_run_is_forgotten_keeps_its_trace_as_well(tmp_path: Path) -> None:
    async with new_hub(tmp_path) as hub:
        await hub.television()
        command = hub.command(POWER, on=True)
        await hub.now.admission.admit([Arrival(hub.signed(command), traceparent=TOLD)])
        await hub.has_policy(version=2, bans=Bans(devices=frozenset({TV})))
        await hub.works()
        await hub.store.write(lambda tx: tx.execute("DELETE FROM inbox"))
        await hub.has_policy(version=3)

        await hub.now.letters.replay(ReplayRequest(wanted=LettersWanted(number=1)), "uid:0 root")

        assert (await way(hub, command.id)).trace == TRACE


async def test_what_is_told_of_others_meanwhile_and_of_it_afterwards_is_told_apart(tmp_path: Path) -> None:
    async with new_hub(tmp_path) as hub:
        await hub.television()
        command, other = hub.command(POWER, on=True), hub.command(VOLUME, level=3)
        await hub.admits(command, other)
        await hub.works_all()
        drawn = len((await way(hub, command.id)).spans)
        late = [
            Act(kind=kind, subject=subject, actor="agent", detail={"run": 1})
            for subject in (command.id, other.id)
            for kind in (AuditKind.COMMAND_CORRECTED, AuditKind.EXPORTED)
        ]

        await hub.store.write(lambda tx: audit.append(tx, late, hub.now.around.stamp()))

        found = await way(hub, command.id)
        assert [span.name for span in found.spans[drawn:]] == ["command_corrected"]


async def test_the_trail_is_not_walked_for_the_way_of_one_command(tmp_path: Path) -> None:
    async with new_hub(tmp_path) as hub:
        await hub.television()
        done, waits = hub.command(POWER, on=True), hub.command(VOLUME, level=3)
        begun = (await hub.store.read(audit.head)).number
        await hub.admits(done)
        await hub.works()
        ended = (await hub.store.read(audit.head)).number
        await hub.admits(waits)

        spans = await hub.store.read(lambda db: [receipts.spans(db, each.id) for each in (done, waits)])

        assert spans == [[Span(begun, ended)], [Span(ended, 2**63 - 1)]]
