"""The final commit of a command: state, operation, lock, audit row and receipt, all or nothing."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from edgeagent.contracts.event import EventType, Stream
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.evidence import told_receipt
from edgeagent.core.lease import SHORTEST as LEASE
from edgeagent.core.lifecycle import State
from edgeagent.core.work import Ending, Later, StepName
from edgeagent.errors import IllegalTransitionError, LostRaceError, StorageError
from edgeagent.flows.breakers import Breakers
from edgeagent.flows.settling import Ended, Settling
from edgeagent.store import audit, locks, outbox
from tests.flows.commanding import Hub, new_hub
from tests.flows.scripted import Television
from tests.flows.signing import POWER, REBOOT, SECOND, TV
from tests.support.stores import broken_log, full_disk

FULL = Path("/dev/full")
FAILS_TO_SYNC = Path("/dev/null")
SUCCESS = Ending(outcome=Outcome.SUCCEEDED)

each_fault = pytest.mark.parametrize("fault", [FULL, FAILS_TO_SYNC], ids=["disk full", "sync fails"])


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub that has just started."""
    async with new_hub(tmp_path) as made:
        yield made


@pytest.fixture
async def tv(hub: Hub) -> Television:
    """Its television, off."""
    return await hub.television()


def settling(hub: Hub) -> Settling:
    """What writes results."""
    return Settling(hub.now.devices, hub.now.around, hub.keys.hub, Breakers(hub.now.around, hub.now.trust))


@pytest.mark.requirement("S3", "A1")
async def test_an_end_is_one_commit_of_all_that_goes_with_it(hub: Hub, tv: Television) -> None:
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    claim = await hub.claims()
    commits = hub.now.store.commits

    await hub.now.desk.finish(claim, SUCCESS)

    assert hub.now.store.commits == commits + 1
    assert (await hub.row(command)).state is State.SUCCEEDED
    assert hub.rows("SELECT state, command FROM operations") == [("completed", command.id)]
    assert hub.rows("SELECT device, run, token FROM locks") == [(TV, None, None)]
    [(number, told)] = await hub.records(EventType.RECEIPT)
    assert told["command"] == command.id
    assert hub.rows("SELECT run, number FROM receipts") == [(claim.run, number)]
    [act] = await hub.audited(AuditKind.COMMAND_SETTLED)
    assert (act["subject"], act["receipt"], act["fence"]) == (command.id, number, claim.fence)
    assert tv.effects == []


@pytest.mark.requirement("A4", "S3")
@pytest.mark.usefixtures("tv")
async def test_a_receipt_is_signed_by_the_hub_and_names_the_audit_row_of_its_commit(hub: Hub) -> None:
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    await hub.now.desk.finish(await hub.claims(), SUCCESS)

    signed = told_receipt(await hub.ended(command), hub.keys.hub.public)

    assert (signed.hub, signed.epoch) == (hub.now.around.origin.hub, hub.now.around.origin.epoch)
    [(row, stored)] = await hub.now.store.read(partial(audit.rows, after=signed.audit.number - 1, most=1))
    assert (row.kind, row.subject) == (AuditKind.COMMAND_SETTLED, command.id)
    assert stored.hex() == signed.audit.hash


@pytest.mark.requirement("A4", "T4")
@pytest.mark.usefixtures("tv")
async def test_a_command_that_comes_again_is_answered_with_the_same_bytes(hub: Hub) -> None:
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    await hub.now.desk.finish(await hub.claims(), SUCCESS)
    [first] = hub.rows("SELECT number, data FROM outbox WHERE type = 'edgeagent.command.receipt'")
    await hub.now.store.write(lambda tx: outbox.acknowledge(tx, Stream.RECORD, [int(str(first[0]))]))

    await hub.admits(command)

    assert hub.rows("SELECT number, data FROM outbox WHERE type = 'edgeagent.command.receipt'") == [first]


@pytest.mark.requirement("S3", "R2")
@each_fault
async def test_of_an_end_that_the_disk_does_not_take_nothing_is_seen(
    hub: Hub, tv: Television, fault: Path
) -> None:
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    claim = await hub.claims()
    before = hub.contents()

    with broken_log(hub.path, fault), pytest.raises(StorageError):
        await hub.now.desk.finish(claim, SUCCESS)

    assert hub.contents() == before
    assert (await hub.row(command)).state is State.RUNNING
    assert tv.effects == []


@pytest.mark.requirement("S3", "R2", "Q5")
async def test_one_whose_end_was_not_written_is_taken_over_and_ends_once(hub: Hub, tv: Television) -> None:
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    claim = await hub.claims()
    tv.is_silent(1)
    await hub.now.desk.publish(claim, StepName.ACT)
    # The commit may make the file grow; its undoing reads the first page again, which must be there.
    with full_disk(hub.path), pytest.raises(StorageError):
        await hub.now.desk.finish(claim, SUCCESS)
    hub.passes(LEASE)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.attempts, receipt.fence) == (Outcome.SUCCEEDED, 1, 2)
    assert len(await hub.records(EventType.RECEIPT)) == 1
    assert tv.effects == [("power", True)]


@pytest.mark.requirement("R2", "Q1")
@each_fault
async def test_nothing_is_sent_that_was_not_recorded_before(hub: Hub, tv: Television, fault: Path) -> None:
    command = hub.command(REBOOT)
    await hub.admits(command)
    claim = await hub.claims(Tier.MEDIUM)

    with broken_log(hub.path, fault), pytest.raises(StorageError):
        await hub.now.dispatch[Tier.MEDIUM].work(claim)

    assert (hub.bus.published, tv.effects) == ([], [])
    row = await hub.row(command)
    assert (row.sent, row.attempts) == (False, 0)


@pytest.mark.requirement("R2", "Q3")
@each_fault
async def test_a_command_that_the_disk_does_not_take_has_not_come(
    hub: Hub, tv: Television, fault: Path
) -> None:
    before = hub.contents()
    command = hub.command(POWER, on=True)

    with broken_log(hub.path, fault), pytest.raises(StorageError):
        await hub.admits(command)

    assert hub.contents() == before
    await hub.admits(command)
    await hub.works()
    assert (await hub.ended(command)).outcome is Outcome.SUCCEEDED
    assert len(tv.effects) == 1


@pytest.mark.requirement("R2")
async def test_a_postponement_that_the_disk_does_not_take_leaves_the_lock(hub: Hub, tv: Television) -> None:
    await hub.admits(hub.command(POWER, on=True))
    claim = await hub.claims()
    before = hub.contents()

    with broken_log(hub.path, FULL), pytest.raises(StorageError):
        await hub.now.desk.postpone(claim, Later(reason=Reason.RETRYING, after=SECOND))

    assert hub.contents() == before
    assert tv.effects == []


@pytest.mark.requirement("L1", "S3")
async def test_who_does_not_hold_the_lock_writes_nothing(hub: Hub, tv: Television) -> None:
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    await hub.claims()
    row = await hub.row(command)
    before = hub.contents()
    ended = Ended(ending=SUCCESS, lock=locks.Key(TV, "0" * 32), fence=1)

    with pytest.raises(LostRaceError):
        await hub.now.store.write(lambda tx: settling(hub).settle(tx, row, ended))

    assert hub.contents() == before
    assert tv.effects == []


@pytest.mark.requirement("S3", "T4")
async def test_a_final_state_is_not_followed_by_another(hub: Hub, tv: Television) -> None:
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    await hub.works()
    row = await hub.row(command)
    before = hub.contents()

    for outcome in Outcome:
        ended = Ended(ending=Ending(outcome=outcome))
        with pytest.raises(IllegalTransitionError):
            await hub.now.store.write(lambda tx, ended=ended: settling(hub).settle(tx, row, ended))  # type: ignore[misc]

    assert hub.contents() == before
    assert len(tv.effects) == 1


@pytest.mark.requirement("I2", "S3")
@pytest.mark.parametrize("outcome", [Outcome.EXPIRED, Outcome.REFUSED])
async def test_what_was_sent_cannot_end_as_if_nothing_was_done(
    hub: Hub, tv: Television, outcome: Outcome
) -> None:
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    claim = await hub.claims()
    tv.is_silent()
    await hub.now.desk.publish(claim, StepName.ACT)
    before = hub.contents()

    with pytest.raises(IllegalTransitionError):
        await hub.now.desk.finish(claim, Ending(outcome=outcome))

    assert hub.contents() == before


@pytest.mark.requirement("I2")
@pytest.mark.parametrize(
    ("outcome", "operation"),
    [
        pytest.param(Outcome.SUCCEEDED, "completed"),
        pytest.param(Outcome.UNKNOWN, "unknown"),
        pytest.param(Outcome.FAILED, "failed"),
        pytest.param(Outcome.REFUSED, "failed"),
        pytest.param(Outcome.EXPIRED, "failed"),
        pytest.param(Outcome.ROLLED_BACK, "failed"),
        pytest.param(Outcome.ROLLBACK_FAILED, "unknown"),
    ],
    ids=str,
)
async def test_what_becomes_of_the_operation_follows_from_the_end(
    hub: Hub, tv: Television, outcome: Outcome, operation: str
) -> None:
    await hub.admits(hub.command(POWER, on=True))
    claim = await hub.claims()

    await hub.now.desk.finish(claim, Ending(outcome=outcome))

    assert hub.rows("SELECT state FROM operations") == [(operation,)]
    assert tv.effects == []


@pytest.mark.requirement("A4", "V5")
async def test_words_of_a_device_are_cut_to_what_a_receipt_may_hold(hub: Hub, tv: Television) -> None:
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    claim = await hub.claims()

    await hub.now.desk.finish(claim, Ending(outcome=Outcome.FAILED, detail="x" * 1000))

    assert (await hub.ended(command)).detail == "x" * 200
    assert tv.effects == []
