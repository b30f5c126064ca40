"""Commands that wait for somebody to agree: by more signatures, or by a person at the hub."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.command import Command
from edgeagent.contracts.policy import ApprovalRule, Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.reports.approvals import ApproveRequest
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.envelope import digest_of, unproven_payload
from edgeagent.core.gate.verdict import Accept, Duplicate, Hold, Refuse
from edgeagent.core.lifecycle import State
from edgeagent.errors import RejectedError, StorageError
from edgeagent.ids import Digest, command_id
from tests.flows.approvals import acted, have_a_say
from tests.flows.commanding import Hub, new_hub
from tests.flows.signing import MINUTE, POWER, REBOOT, TV
from tests.support.stores import full_disk

pytestmark = pytest.mark.requirement("T7", "Q8")

ROOT, ANNA = "uid:0 root", "uid:1000 anna"


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub with a television."""
    async with new_hub(tmp_path) as made:
        await made.television()
        yield made


async def approves(hub: Hub, command: Command, by: str = ROOT, *, sha256: str | None = None) -> None:
    """Somebody at the hub agrees, and what follows is done."""
    shown = digest_of(unproven_payload(hub.signed(command)))
    request = ApproveRequest(sha256=Digest(sha256 or shown), device=TV)
    await hub.now.approving.approve(command.id, request, by)
    await hub.now.upkeep.look()


async def stands(hub: Hub, command: Command) -> tuple[State, Reason | None]:
    """Where a command stands."""
    row = await hub.row(command)
    return row.state, row.reason


async def waits(hub: Hub, command: Command) -> bool:
    """Whether it waits for approval and cannot be worked."""
    held = await stands(hub, command) == (State.HELD, Reason.NEEDS_APPROVAL)
    return held and not await hub.has_work(Tier.HIGH)


async def test_without_approval_it_waits_and_is_done_once_it_has_one(hub: Hub) -> None:
    await have_a_say(hub)
    command = hub.command(REBOOT)
    [verdict] = await hub.admits(command)
    assert isinstance(verdict, Hold)
    assert await waits(hub, command)

    await approves(hub, command)

    assert await stands(hub, command) == (State.QUEUED, None)
    assert await hub.has_work(Tier.HIGH)
    [act] = await hub.audited(AuditKind.COMMAND_APPROVED)
    assert (act["subject"], act["actor"], act["device"]) == (command.id, ROOT, TV)
    assert act["sha256"] == (await hub.row(command)).sha256


async def test_where_nobody_agrees_it_expires_and_nothing_was_done(hub: Hub) -> None:
    await have_a_say(hub)
    command = hub.command(REBOOT)
    await hub.admits(command)

    hub.passes(6 * MINUTE)
    await hub.now.upkeep.look()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.attempts) == (Outcome.EXPIRED, 0)


async def test_more_signatures_let_it_go_on_at_once(hub: Hub) -> None:
    others = await have_a_say(hub, ApprovalRule(signatures=2))
    command = hub.command(REBOOT)
    await hub.admits(command)

    await hub.admits(hub.signed(command, hub.keys.desk, others.chief))
    assert await waits(hub, command)
    await hub.admits(hub.signed(command, hub.keys.desk, others.chief))
    assert await waits(hub, command)
    await hub.admits(hub.signed(command, others.deputy))

    assert await stands(hub, command) == (State.QUEUED, None)


async def test_with_all_signatures_from_the_start_it_does_not_wait(hub: Hub) -> None:
    others = await have_a_say(hub, ApprovalRule(signatures=2))

    [verdict] = await hub.admits(hub.signed(hub.command(REBOOT), hub.keys.desk, others.chief, others.deputy))

    assert isinstance(verdict, Accept)


async def test_signatures_without_the_issuers_begin_nothing_and_spoil_nothing(hub: Hub) -> None:
    """They may come first: the queue promises no order."""
    others = await have_a_say(hub, ApprovalRule())
    command = hub.command(REBOOT)

    [alone] = await hub.admits(hub.signed(command, others.chief))
    assert isinstance(alone, Refuse)
    assert hub.rows("SELECT 1 FROM inbox") == []
    await hub.admits(command)
    await hub.admits(hub.signed(command, others.chief))

    assert await stands(hub, command) == (State.QUEUED, None)


async def test_another_payload_under_its_id_is_not_what_was_approved(hub: Hub) -> None:
    others = await have_a_say(hub, ApprovalRule())
    command = hub.command(REBOOT)
    await hub.admits(command)
    changed = command.model_copy(update={"expires_at": command.expires_at + timedelta(seconds=1)})

    [verdict] = await hub.admits(hub.signed(changed, hub.keys.desk, others.chief))

    assert isinstance(verdict, Refuse)
    assert verdict.reason is Reason.ID_CONFLICT
    assert await waits(hub, command)


@pytest.mark.parametrize(
    ("typed_by", "approved_by"), [(ANNA, ANNA), (ANNA, "uid:1000 root"), (ROOT, "uid:0 toor")]
)
async def test_who_typed_it_cannot_approve_it(hub: Hub, typed_by: str, approved_by: str) -> None:
    await have_a_say(hub)
    command = hub.command(REBOOT, valid_for=MINUTE)
    await hub.admits_local(command, by=typed_by)
    before = hub.contents()

    with pytest.raises(RejectedError, match="whoever typed"):
        await hub.now.approving.approve(command.id, await _request(hub, command), approved_by)

    assert hub.contents() == before
    await hub.now.approving.approve(command.id, await _request(hub, command), "uid:7 somebody")
    await hub.now.upkeep.look()
    assert await stands(hub, command) == (State.QUEUED, None)


async def test_what_was_typed_here_goes_on_too_when_somebody_signs_it_elsewhere(hub: Hub) -> None:
    others = await have_a_say(hub)
    command = hub.command(REBOOT, valid_for=MINUTE)
    await hub.admits_local(command, by=ANNA)

    await hub.admits(hub.signed(command, hub.keys.hub, others.chief))

    assert await stands(hub, command) == (State.QUEUED, None)


async def _request(hub: Hub, command: Command) -> ApproveRequest:
    return ApproveRequest(sha256=(await hub.row(command)).sha256, device=TV)


async def test_what_cannot_be_approved_is_refused_and_nothing_changed(hub: Hub) -> None:
    await have_a_say(hub)
    waiting, free = hub.command(REBOOT), hub.command(POWER)
    await hub.admits(waiting, free)
    before = hub.contents()

    with pytest.raises(RejectedError, match="is not what was shown"):
        await approves(hub, waiting, sha256="0" * 64)
    with pytest.raises(RejectedError, match="does not wait"):
        await approves(hub, free)
    with pytest.raises(RejectedError, match="no command"):
        await approves(hub, hub.command(REBOOT))
    for_another = (await _request(hub, waiting)).model_copy(update={"device": "tv-9"})
    with pytest.raises(RejectedError, match="no command"):
        await hub.now.approving.approve(waiting.id, for_another, ROOT)

    assert hub.contents() == before
    assert await waits(hub, waiting)


async def test_the_policy_says_whether_a_word_at_the_hub_counts(hub: Hub) -> None:
    await have_a_say(hub, ApprovalRule(at_hub=False))
    command = hub.command(REBOOT)
    await hub.admits(command)
    before = hub.contents()

    with pytest.raises(RejectedError, match="takes no approval of reboot at the hub"):
        await approves(hub, command)

    assert hub.contents() == before
    assert await waits(hub, command)


async def test_a_word_is_good_for_a_while_only(hub: Hub) -> None:
    """It is over before the device is there: somebody has to agree again."""
    await have_a_say(hub, ApprovalRule(at_hub=True, good_for=MINUTE))
    command = hub.command(REBOOT)
    await hub.admits(command)
    await approves(hub, command)

    hub.passes(MINUTE)
    await hub.works(Tier.HIGH)

    assert await stands(hub, command) == (State.WAITING, Reason.NEEDS_APPROVAL)
    assert acted(hub) == 0
    await approves(hub, command)
    assert await stands(hub, command) == (State.QUEUED, Reason.NEEDS_APPROVAL)


async def test_a_word_survives_the_agent_and_not_the_boot(hub: Hub) -> None:
    await have_a_say(hub)
    command = hub.command(REBOOT)
    await hub.admits(command)
    await approves(hub, command)
    await hub.starts_anew()

    await hub.reboots()
    hub.time_is_known()
    await hub.now.upkeep.look()
    await hub.works(Tier.HIGH)

    assert (await stands(hub, command))[1] is Reason.NEEDS_APPROVAL


async def test_what_was_approved_is_done_once_however_often_it_comes(hub: Hub) -> None:
    await have_a_say(hub)
    command = hub.command(REBOOT)
    await hub.admits(command)
    await approves(hub, command)

    verdicts = await hub.admits(*[hub.signed(command)] * 3)

    assert all(isinstance(each, Duplicate) for each in verdicts)
    assert hub.rows("SELECT count(*) FROM inbox") == [(1,)]
    other = hub.command(REBOOT)
    await hub.admits(other)
    assert await stands(hub, other) == (State.HELD, Reason.NEEDS_APPROVAL)


async def test_a_full_disk_takes_no_word(hub: Hub) -> None:
    await have_a_say(hub)
    command = hub.command(REBOOT)
    await hub.admits(command)

    with full_disk(hub.path), pytest.raises(StorageError):
        await approves(hub, command)

    assert await waits(hub, command)
    await approves(hub, command)
    assert await stands(hub, command) == (State.QUEUED, None)


async def test_it_waits_for_the_time_first_and_then_for_approval(hub: Hub) -> None:
    await have_a_say(hub)
    await hub.reboots()
    command = hub.command(REBOOT)
    await hub.admits(command)
    assert await stands(hub, command) == (State.HELD, Reason.CLOCK_UNSURE)

    hub.time_is_known()
    await hub.now.upkeep.look()

    assert await waits(hub, command)


@pytest.mark.parametrize("name", ["c-1", "x" * 64])
async def test_a_command_that_never_came_cannot_be_approved(hub: Hub, name: str) -> None:
    await have_a_say(hub)

    with pytest.raises(RejectedError, match="no command"):
        await hub.now.approving.approve(
            command_id(name), ApproveRequest(sha256=Digest("0" * 64), device=TV), ROOT
        )

    assert hub.rows("SELECT 1 FROM approvals") == []
