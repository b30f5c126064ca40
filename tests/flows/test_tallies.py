"""Forged commands and repeats by the thousand: counted, and neither rows nor commits for each."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from edgeagent.contracts.event import EventType
from edgeagent.contracts.reasons import Reason
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.gate.verdict import Accept, Refuse
from edgeagent.errors import StorageError
from edgeagent.flows.tallies import MINUTE, MOST_SAMPLES
from tests.flows.commanding import Hub, new_hub
from tests.flows.signing import OTHER_TV, POWER, TV
from tests.support.keys import MemoryKey
from tests.support.stores import full_disk
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("T9")

FORGER = MemoryKey()
_UNVERIFIED = "SELECT count(*) FROM audit WHERE kind = 'commands_unverified'"


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub with a television."""
    async with new_hub(tmp_path) as hub:
        await hub.television()
        yield hub


def forged(hub: Hub, count: int) -> list[bytes]:
    return [hub.signed(hub.command(POWER, on=True), FORGER) for _ in range(count)]


async def counts(hub: Hub, kind: AuditKind = AuditKind.COMMANDS_UNVERIFIED) -> list[tuple[object, object]]:
    return [(row["reason"], row["count"]) for row in await hub.audited(kind)]


async def test_the_first_is_on_record_at_once_with_its_digest_and_size(hub: Hub) -> None:
    [envelope] = forged(hub, 1)

    await hub.admits(envelope)

    [row] = await hub.audited(AuditKind.COMMANDS_UNVERIFIED)
    digest = sha256(envelope).hexdigest()
    assert (row["actor"], row["reason"], row["count"]) == ("unknown", Reason.BAD_SIGNATURE, 1)
    assert row["samples"] == [{"sha256": digest, "bytes": len(envelope)}]
    [(_, told)] = await hub.records(EventType.REFUSED)
    assert told == {"reason": Reason.BAD_SIGNATURE, "count": 1, "samples": row["samples"]}


@pytest.mark.requirement("B2")
@pytest.mark.slow
async def test_ten_thousand_forged_ones_cost_no_rows_and_the_good_one_after_them_is_done(hub: Hub) -> None:
    good, flood = hub.command(POWER, on=True), forged(hub, 20)
    await hub.admits(*flood)
    commits, audited = hub.store.commits, hub.rows("SELECT count(*) FROM audit")

    for _ in range(499):
        await hub.admits(*flood)

    assert (hub.store.commits, hub.rows("SELECT count(*) FROM audit")) == (commits, audited)
    [verdict] = await hub.admits(good)
    assert isinstance(verdict, Accept)
    await hub.works_all()
    assert hub.rows("SELECT command, state FROM inbox") == [(good.id, "succeeded")]
    hub.passes(MINUTE)
    await hub.now.tallies.close_due()
    assert await counts(hub) == [(Reason.BAD_SIGNATURE, 20), (Reason.BAD_SIGNATURE, 9980)]


async def test_a_flood_costs_one_row_a_minute_and_source_and_has_few_samples(hub: Hub) -> None:
    for _ in range(3):
        for _ in range(5):
            await hub.admits(*forged(hub, 4), b"no envelope")
        hub.passes(MINUTE)
        await hub.now.tallies.close_due()

    rows = await hub.audited(AuditKind.COMMANDS_UNVERIFIED)
    by_reason = {
        reason: [row["count"] for row in rows if row["reason"] == reason]
        for reason in (Reason.BAD_SIGNATURE, Reason.MALFORMED)
    }
    assert by_reason == {Reason.BAD_SIGNATURE: [4, 16, 20, 20], Reason.MALFORMED: [1, 4, 5, 5]}
    assert all(len(row["samples"]) <= MOST_SAMPLES for row in rows)  # type: ignore[arg-type]  # a list
    assert len(await hub.records(EventType.REFUSED)) == len(rows)


async def test_a_source_that_was_quiet_for_a_minute_is_told_at_once_again(hub: Hub) -> None:
    await hub.admits(*forged(hub, 1))
    hub.passes(MINUTE)
    assert await hub.now.tallies.close_due() is None

    await hub.admits(*forged(hub, 2))

    assert await counts(hub) == [(Reason.BAD_SIGNATURE, 1), (Reason.BAD_SIGNATURE, 2)]


@pytest.mark.requirement("T4")
async def test_repeats_are_counted_by_the_key_that_signed_and_each_device_is_told_its_result_again(
    hub: Hub,
) -> None:
    await hub.television(OTHER_TV)
    envelope = hub.signed(command := hub.command(POWER, on=True, device=(TV, OTHER_TV)))
    await hub.admits(envelope)
    await hub.works_all()
    told = await hub.records(EventType.RECEIPT)
    await hub.uploads(*(number for number, _ in told))

    for _ in range(50):
        await hub.admits(envelope)
    hub.passes(MINUTE)
    await hub.now.tallies.close_due()

    assert await hub.records(EventType.RECEIPT) == told
    rows = await hub.audited(AuditKind.COMMAND_REPLAYED)
    assert [(row["actor"], row["reason"], row["count"]) for row in rows] == [
        (hub.keys.desk.id, Reason.REPLAYED, 2),
        (hub.keys.desk.id, Reason.REPLAYED, 98),
    ]
    sample = {"sha256": sha256(envelope).hexdigest(), "bytes": len(envelope), "command": command.id}
    assert [row["samples"] for row in rows] == [[sample], [sample]]
    [(_, first), _] = await hub.records(EventType.REFUSED)
    assert first == {"reason": "replayed", "count": 2, "samples": [sample], "issuer": hub.keys.desk.id}


@pytest.mark.requirement("V6")
async def test_whoever_types_what_nobody_lets_them_is_a_source_of_their_own(hub: Hub) -> None:
    await hub.has_policy(version=2, roles={"operators": hub.keys.policy().roles["operators"]})

    verdicts = [await hub.admits_local(hub.command(POWER, on=True)), *await hub.admits(*forged(hub, 1))]

    assert all(isinstance(verdict, Refuse) for verdict in verdicts)
    rows = await hub.audited(AuditKind.COMMANDS_UNVERIFIED)
    assert [row["actor"] for row in rows] == ["uid:1000 anna", "unknown"]


@pytest.mark.requirement("R5")
async def test_nothing_is_lost_when_the_agent_stops_in_order(hub: Hub) -> None:
    for _ in range(5):
        await hub.admits(*forged(hub, 3))

    await hub.store.write(hub.now.tallies.last_words)

    assert await counts(hub) == [(Reason.BAD_SIGNATURE, 3), (Reason.BAD_SIGNATURE, 12)]


@pytest.mark.requirement("R5")
async def test_a_kill_loses_the_counts_of_the_minute_and_never_the_first(hub: Hub) -> None:
    await hub.admits(*forged(hub, 1))
    await hub.admits(*forged(hub, 7))

    await hub.starts_anew()
    await hub.admits(*forged(hub, 2))

    assert await counts(hub) == [(Reason.BAD_SIGNATURE, 1), (Reason.BAD_SIGNATURE, 2)]


@pytest.mark.requirement("T9", "R2")
async def test_what_cannot_be_stored_is_counted_on_and_written_later(hub: Hub) -> None:
    await hub.admits(*forged(hub, 1))
    await hub.admits(*forged(hub, 4))
    hub.passes(MINUTE)

    with full_disk(hub.path), pytest.raises(StorageError):
        await hub.now.tallies.close_due()
    await hub.now.tallies.close_due()

    assert await counts(hub) == [(Reason.BAD_SIGNATURE, 1), (Reason.BAD_SIGNATURE, 4)]


@pytest.mark.requirement("Q9")
async def test_it_sleeps_while_there_is_nothing_to_count_and_writes_when_a_minute_is_over(hub: Hub) -> None:
    running = asyncio.create_task(hub.now.tallies.run())
    await hub.breathes()
    commits = hub.store.commits
    await hub.breathes()
    try:
        assert hub.store.commits - commits <= 5
        await hub.admits(*forged(hub, 1))
        await hub.admits(*forged(hub, 2))
        hub.passes(MINUTE - timedelta(milliseconds=1))
        await hub.breathes()
        assert len(await counts(hub)) == 1

        hub.passes(timedelta(milliseconds=1))
        await hub.admits(b"wakes it")
        await eventually(lambda: hub.rows(_UNVERIFIED) == [(3,)])
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
