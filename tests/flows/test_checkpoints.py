"""The trail's head, signed now and then; and the trail followed, held against what was signed, and pruned."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest

from edgeagent.contracts.checkpoint import Checkpoint
from edgeagent.contracts.event import EventType, Stream
from edgeagent.contracts.reports.audit import ExportWanted, RowsWanted, VerifyReport, VerifyWanted
from edgeagent.core.audit_chain import AuditKind, next_hash
from edgeagent.core.evidence import told_checkpoint
from edgeagent.errors import RejectedError
from edgeagent.flows.checkpoints import LONGEST, MOST_ROWS, AuditSettings, Checkpoints
from edgeagent.store import audit, outbox
from edgeagent.store.audit import Act, Head
from edgeagent.store.database import Transaction
from tests.flows.commanding import Hub, new_hub
from tests.flows.signing import POWER
from tests.support.waiting import eventually

YEARS = timedelta(days=800)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub that has just started."""
    async with new_hub(tmp_path) as made:
        yield made


async def records(hub: Hub, count: int) -> Head:
    """Put so many acts on record."""
    stamp = hub.now.around.stamp()
    acts = [Act(kind=AuditKind.STARTED, subject=f"row-{n}", actor="agent", detail={}) for n in range(count)]
    return await hub.store.write(partial(audit.append, acts=acts, stamp=stamp))


async def told(hub: Hub) -> list[Checkpoint]:
    """The checkpoints that go up."""
    return [Checkpoint.model_validate(data) for _, data in await hub.records(EventType.CHECKPOINT)]


async def is_signed(hub: Hub) -> Head:
    """Sign the head."""
    return await hub.store.write(hub.now.checkpoints.sign)


async def is_acknowledged(hub: Hub) -> None:
    """Let the cloud take everything."""
    for stream, (first, following) in (await hub.store.read(outbox.extents)).items():
        numbers = range(first, following)
        await hub.store.write(partial(outbox.acknowledge, stream=stream, numbers=numbers))


async def verified(hub: Hub, wanted: VerifyWanted | None = None) -> VerifyReport:
    """What following the trail comes to."""
    return await hub.now.trail.verify(wanted or VerifyWanted())


async def broken_at(hub: Hub) -> tuple[int, str]:
    """Where the trail does not hold, and why."""
    report = await verified(hub)
    assert report.broken is not None
    return report.broken.number, report.broken.why


def forge(tx: Transaction, number: int) -> None:
    """Edit a row and make all hashes from it on anew, as somebody does who has the database."""
    tx.execute("UPDATE audit SET actor = 'nobody' WHERE number = ?", (number,))
    before = audit.rows(tx, after=number - 2, most=1) if number > 1 else []
    last = before[0][1] if before else bytes(32)
    for row, _ in audit.rows(tx, after=number - 1, most=100_000):
        last = next_hash(last, row)
        tx.execute("UPDATE audit SET hash = ? WHERE number = ?", (last, row.number))


# When a checkpoint is made.


@pytest.mark.requirement("A3")
async def test_a_row_is_covered_within_an_hour_by_a_head_that_the_hub_has_signed(hub: Hub) -> None:
    head = await records(hub, 3)
    await hub.now.checkpoints.look()
    assert await told(hub) == []

    hub.passes(LONGEST)
    await hub.now.checkpoints.look()

    [checkpoint] = await told(hub)
    signed = told_checkpoint(checkpoint, hub.keys.hub.public)
    assert (signed.hub, signed.epoch) == (hub.now.around.origin.hub, hub.now.around.origin.epoch)
    assert (signed.audit.number, signed.audit.hash) == (head.number, head.hash.hex())


@pytest.mark.requirement("A3")
async def test_a_trail_at_rest_makes_no_checkpoint(hub: Hub) -> None:
    await records(hub, 3)
    hub.passes(LONGEST)
    await hub.now.checkpoints.look()
    before = await hub.store.read(audit.head)

    for _ in range(3):
        hub.passes(LONGEST)
        await hub.now.checkpoints.look()

    assert len(await told(hub)) == 1
    assert await hub.store.read(audit.head) == before


@pytest.mark.requirement("A3")
async def test_many_rows_do_not_wait_for_the_hour(hub: Hub) -> None:
    before = await hub.store.read(audit.head)
    head = await records(hub, MOST_ROWS - before.number)

    await hub.now.checkpoints.look()

    assert [each.audit.number for each in await told(hub)] == [head.number]


@pytest.mark.requirement("A3")
async def test_the_flow_looks_by_itself(hub: Hub) -> None:
    await records(hub, MOST_ROWS)
    settings = AuditSettings(look=timedelta(milliseconds=1))
    running = asyncio.create_task(Checkpoints(hub.store, hub.keys.hub, hub.now.around, settings).run())

    await eventually(lambda: running.done() or hub.rows("SELECT 1 FROM checkpoints") != [])

    running.cancel()
    with suppress(asyncio.CancelledError):
        await running

    assert len(await told(hub)) == 1


# The trail, followed.


@pytest.mark.requirement("A3")
async def test_a_whole_trail_is_told_with_its_head_and_what_it_was_held_against(hub: Hub) -> None:
    await records(hub, 1500)
    await is_signed(hub)
    head = await records(hub, 700)
    await hub.store.write(partial(audit.note_told, told=head))

    report = await verified(hub)

    assert report.broken is None
    assert (report.begins_after, report.checkpoints) == (0, 1)
    assert (report.head.number, report.head.hash) == (head.number, head.hash.hex())


@pytest.mark.requirement("A3")
@pytest.mark.parametrize(
    ("edit", "number"),
    [
        pytest.param("UPDATE audit SET actor = 'nobody' WHERE number = 7", 7, id="edited"),
        pytest.param("DELETE FROM audit WHERE number = 7", 7, id="removed"),
        pytest.param("UPDATE audit SET number = 2000 - number WHERE number IN (7, 1993)", 7, id="moved"),
        pytest.param("DELETE FROM audit WHERE number > 15", 16, id="cut behind a checkpoint"),
        pytest.param("DELETE FROM audit", 1, id="all of it gone"),
        pytest.param("DELETE FROM audit WHERE number < 5", 1, id="its beginning gone"),
        pytest.param("UPDATE checkpoints SET data = CAST('{}' AS BLOB)", 20, id="checkpoint edited"),
    ],
)
async def test_what_is_done_to_the_rows_shows(hub: Hub, edit: str, number: int) -> None:
    before = await hub.store.read(audit.head)
    await records(hub, 20 - before.number)
    await is_signed(hub)
    await records(hub, 5)

    await hub.store.write(lambda tx: tx.execute(edit))

    assert (await broken_at(hub))[0] == number


@pytest.mark.requirement("A3")
async def test_rows_swapped_show(hub: Hub) -> None:
    await records(hub, 20)

    def swap(tx: Transaction) -> None:
        tx.execute("UPDATE audit SET number = 999 WHERE number = 7")
        tx.execute("UPDATE audit SET number = 7 WHERE number = 8")
        tx.execute("UPDATE audit SET number = 8 WHERE number = 999")

    await hub.store.write(swap)

    assert (await broken_at(hub))[0] == 7


@pytest.mark.requirement("A3")
async def test_a_chain_that_was_made_anew_does_not_fit_what_the_hub_has_signed(hub: Hub) -> None:
    await records(hub, 20)
    head = await is_signed(hub)
    await records(hub, 5)

    await hub.store.write(lambda tx: forge(tx, 7))

    assert await hub.store.read(audit.verify) is None, "the chain alone cannot tell"
    assert await broken_at(hub) == (head.number, "it is not the row that a signed checkpoint names")


@pytest.mark.requirement("A3")
async def test_a_checkpoint_that_another_key_has_signed_counts_for_nothing(hub: Hub) -> None:
    await records(hub, 3)
    head = await is_signed(hub)
    await hub.store.write(
        lambda tx: tx.execute(
            "UPDATE checkpoints SET data = CAST(replace(data, 'venue-7', 'venue-8') AS BLOB)"
        )
    )

    number, why = await broken_at(hub)

    assert number == head.number
    assert "proves nothing" in why


@pytest.mark.requirement("A3", "U4")
async def test_a_tail_that_was_cut_behind_the_last_checkpoint_shows_by_what_the_cloud_was_told(
    hub: Hub,
) -> None:
    await records(hub, 10)
    head = await records(hub, 5)
    await hub.store.write(partial(audit.note_told, told=head))

    await hub.store.write(lambda tx: tx.execute("DELETE FROM audit WHERE number > ?", (head.number - 2,)))

    number, why = await broken_at(hub)
    assert number == head.number - 1
    assert "the cloud was told" in why


@pytest.mark.requirement("A3")
async def test_somebody_elses_word_on_the_head_is_held_against_the_trail(hub: Hub) -> None:
    head = await records(hub, 10)
    mark = {"number": head.number, "hash": head.hash.hex()}
    lie = {"number": head.number, "hash": sha256(b"another").hexdigest()}

    assert (await verified(hub, VerifyWanted.model_validate({"head": mark}))).broken is None
    broken = (await verified(hub, VerifyWanted.model_validate({"head": lie}))).broken
    assert broken is not None
    assert broken.number == head.number


# The trail, handed out and pruned.


@pytest.mark.requirement("A3")
async def test_old_rows_that_the_cloud_has_a_head_of_go_and_the_rest_still_holds(hub: Hub) -> None:
    await records(hub, 1200)
    basis = await is_signed(hub)
    await is_acknowledged(hub)
    hub.passes(YEARS)
    hub.time_is_known()

    await hub.now.checkpoints.look()

    assert hub.rows("SELECT min(number) FROM audit") == [(basis.number + 1,)]
    [act] = await hub.audited(AuditKind.PRUNED)
    assert (act["after"], act["upto"], act["hash"]) == (0, basis.number, basis.hash.hex())
    report = await verified(hub)
    assert (report.broken, report.begins_after) == (None, basis.number)
    await records(hub, 10)
    assert (await verified(hub)).broken is None


@pytest.mark.requirement("A3")
@pytest.mark.parametrize(
    "why",
    ["not acknowledged", "refused by the cloud", "young", "kept for ever", "unsure time", "few"],
)
async def test_rows_that_may_not_go_stay(hub: Hub, why: str) -> None:
    await records(hub, 100 if why == "few" else 1200)
    await is_signed(hub)
    if why == "refused by the cloud":
        numbers = [number for number, _ in await hub.records(EventType.CHECKPOINT)]
        refused = dict.fromkeys(numbers, "no")
        await hub.store.write(lambda tx: outbox.set_aside(tx, Stream.RECORD, refused))
    if why != "not acknowledged":
        await is_acknowledged(hub)
    hub.passes(timedelta(days=300) if why == "young" else YEARS)
    if why == "kept for ever":
        hub.now.checkpoints.adopt(AuditSettings(keep=timedelta.max))
    if why == "unsure time":
        await hub.reboots()
    else:
        hub.time_is_known()

    await hub.now.checkpoints.look()

    assert hub.rows("SELECT min(number) FROM audit") == [(1,)]
    assert await hub.audited(AuditKind.PRUNED) == []


@pytest.mark.requirement("A3")
async def test_what_a_person_has_exported_may_go_too(hub: Hub) -> None:
    await records(hub, 1200)
    report = await hub.now.trail.begin_export(ExportWanted(file="trail.jsonl"), "uid:0 root")
    await hub.now.trail.end_export(report.upto.number)
    hub.passes(YEARS)
    hub.time_is_known()

    await hub.now.checkpoints.look()

    assert hub.rows("SELECT min(number) FROM audit") == [(report.upto.number + 1,)]
    assert (await verified(hub)).broken is None


@pytest.mark.requirement("A3")
async def test_an_export_that_was_not_finished_lets_nothing_go(hub: Hub) -> None:
    await records(hub, 1200)
    await hub.now.trail.begin_export(ExportWanted(file="trail.jsonl"), "uid:0 root")
    with pytest.raises(RejectedError):
        await hub.now.trail.end_export(7)
    hub.passes(YEARS)
    hub.time_is_known()

    await hub.now.checkpoints.look()

    assert hub.rows("SELECT min(number) FROM audit") == [(1,)]


@pytest.mark.requirement("A3")
async def test_a_pruned_trail_whose_checkpoint_is_gone_does_not_hold(hub: Hub) -> None:
    await records(hub, 1200)
    await is_signed(hub)
    await is_acknowledged(hub)
    hub.passes(YEARS)
    hub.time_is_known()
    await hub.now.checkpoints.look()

    await hub.store.write(lambda tx: tx.execute("DELETE FROM checkpoints WHERE number < 1300"))

    assert "no checkpoint covers" in (await broken_at(hub))[1]
    with pytest.raises(RejectedError, match="broken"):
        await hub.now.trail.begin_export(ExportWanted(file="trail.jsonl"), "uid:0 root")


@pytest.mark.requirement("A3", "A1")
async def test_an_export_is_on_record_and_ends_with_a_signed_head(hub: Hub) -> None:
    await records(hub, 700)

    report = await hub.now.trail.begin_export(ExportWanted(file="trail.jsonl"), "uid:0 root")

    [act] = await hub.audited(AuditKind.EXPORTED)
    assert act["subject"] == "trail.jsonl"
    rows, checkpoints, after = [], [], report.basis.number
    while after < report.upto.number:
        page = await hub.now.trail.export_page(after, report.upto.number)
        rows += page.rows
        checkpoints += page.checkpoints
        after = page.rows[-1].number
    assert [row.number for row in rows] == list(range(1, report.upto.number + 1))
    assert rows[-1].kind == AuditKind.EXPORTED
    assert [each.audit for each in checkpoints] == [report.upto]


@pytest.mark.requirement("A1")
async def test_rows_are_found_by_kind_subject_and_time(hub: Hub) -> None:
    await records(hub, 3)
    hub.passes(timedelta(days=1))
    later = hub.now.around.clock.wall().best
    await records(hub, 3)
    desk = hub.now.trail

    by_subject = await desk.rows(RowsWanted(subject="row-1"))
    since = await desk.rows(RowsWanted(since=later))
    newest = await desk.rows(RowsWanted(kind=AuditKind.STARTED, most=2))

    assert [row.subject for row in by_subject.rows] == ["row-1", "row-1"]
    assert [row.subject for row in since.rows] == ["row-0", "row-1", "row-2"]
    assert [row.subject for row in newest.rows] == ["row-1", "row-2"]
    assert (await desk.row(newest.rows[0].number)) == newest.rows[0]
    with pytest.raises(RejectedError, match="no row 9999"):
        await desk.row(9999)


@pytest.mark.requirement("A1")
async def test_the_story_of_a_command_can_be_read_from_the_trail(hub: Hub) -> None:
    tv = await hub.television()
    command = hub.command(POWER, on=True)
    tv.goes_offline()
    await hub.settles()
    await hub.admits(command)
    await hub.works()
    tv.comes_online()
    await hub.settles()
    await hub.now.upkeep.look()
    await hub.works()

    rows = (await hub.now.trail.rows(RowsWanted(subject=command.id))).rows
    story = [(row.kind, json.loads(row.detail)) for row in rows]
    kinds = [kind for kind, _ in story]
    assert kinds == [
        AuditKind.COMMAND_ACCEPTED,
        AuditKind.COMMAND_CLAIMED,
        AuditKind.COMMAND_WAITING,
        AuditKind.COMMAND_QUEUED,
        AuditKind.COMMAND_CLAIMED,
        AuditKind.STEP_SENT,
        AuditKind.COMMAND_SETTLED,
    ]
    accepted, claimed, waiting, _, again, sent, settled = (detail for _, detail in story)
    assert accepted["signers"] == [accepted["issuer"]] == [hub.keys.desk.id]
    assert (accepted["operation"], accepted["arguments"]) == (command.operation, {"on": True})
    assert (accepted["policy"], accepted["sequence"]) == (1, command.sequence)
    assert (claimed["holder"], claimed["fence"], again["fence"]) == ("worker-1", 1, 2)
    assert (waiting["reason"], sent["attempt"], settled["attempts"]) == ("device_offline", 1, 1)
    assert accepted["sha256"] == settled["sha256"]
    assert {row.clock for row in rows} == {"statement"}
