"""What is due, who is in the way, and which command comes first: the questions that the inbox answers."""

from pathlib import Path

import pytest

from edgeagent.clock import BootId
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.core.lifecycle import State
from edgeagent.ids import CommandId, DeviceId, KeyId
from edgeagent.store import inbox, inbox_over, lines
from edgeagent.store.database import Database, Transaction
from edgeagent.store.inbox_row import Moved, NewCommand, Now, Over, Row
from edgeagent.store.memory import recall
from tests.store.commands import DESK, LAMP, NOW, asked, inserted, later, locked, new
from tests.support.clocks import FIRST_BOOT, SECOND_BOOT
from tests.support.stores import HUB_MIGRATIONS, use

OTHER = DeviceId("lamp-2")


def names(found: list[Row]) -> list[str]:
    """The commands of some rows."""
    return [row.command for row in found]


def waiting(tx: Transaction, name: str, sequence: int, due: tuple[int, BootId] | None, **more: object) -> Row:
    """A command that waits until then."""
    row = inserted(tx, new(name, sequence=sequence, **more), State.RUNNING)
    inbox.move(tx, row, Moved(State.WAITING, Reason.RETRYING, due))
    found = inbox.by_run(tx, row.run)
    assert found is not None
    return found


# What is due.


@pytest.mark.requirement("Q5", "L1")
async def test_the_oldest_of_a_lane_is_due_whatever_its_sequence(store: Database) -> None:
    def fill(tx: Transaction) -> None:
        inserted(tx, new("medium", sequence=9, lane=Tier.MEDIUM))
        inserted(tx, new("held", sequence=8), State.HELD)
        inserted(tx, new("first", sequence=7))
        inserted(tx, new("second", sequence=1))

    await store.write(fill)

    for lane, expected in ((Tier.LOW, "first"), (Tier.MEDIUM, "medium"), (Tier.HIGH, None)):
        found = await store.read(lambda db, lane=lane: lines.first(db, lane, NOW))  # type: ignore[misc]
        assert (None if found is None else found.command) == expected


@pytest.mark.requirement("L3", "L4", "L5")
@pytest.mark.parametrize(
    ("now", "is_free"),
    [
        pytest.param(NOW, False, id="held"),
        pytest.param(later(29_999), False, id="held to the last millisecond"),
        pytest.param(later(30_000), True, id="lapsed"),
        pytest.param(later(-9_000, boot=SECOND_BOOT), True, id="of another boot"),
        pytest.param(later(0, incarnation=2), True, id="of an earlier start"),
    ],
)
async def test_a_command_whose_device_somebody_works_is_not_due(
    store: Database,
    now: Now,
    is_free: bool,  # noqa: FBT001 - a column of the table
) -> None:
    def fill(tx: Transaction) -> None:
        locked(tx, inserted(tx, new("works", sequence=1), State.RUNNING))
        inserted(tx, new("waits", sequence=2))
        inserted(tx, new("beside", sequence=3, device=OTHER, lane=Tier.MEDIUM))

    await store.write(fill)

    found = await store.read(lambda db: lines.first(db, Tier.LOW, now))
    beside = await store.read(lambda db: lines.first(db, Tier.MEDIUM, now))
    gone = await store.read(lambda db: inbox.abandoned(db, now))

    assert (found is not None) is is_free
    assert beside is not None
    assert names(gone) == (["works"] if is_free else [])


@pytest.mark.requirement("L3", "Q4")
async def test_one_that_runs_without_a_lock_of_its_own_is_abandoned(store: Database) -> None:
    def fill(tx: Transaction) -> None:
        first = inserted(tx, new("robbed", sequence=1), State.RUNNING)
        second = inserted(tx, new("robber", sequence=2), State.RUNNING)
        locked(tx, first, whose="a", until=NOW.milliseconds)
        locked(tx, second, whose="b")
        inserted(tx, new("bare", sequence=3, device=OTHER), State.RUNNING)

    await store.write(fill)

    assert names(await store.read(lambda db: inbox.abandoned(db, NOW))) == ["robbed", "bare"]


@pytest.mark.requirement("Q6", "E2", "L5")
async def test_a_waiting_one_is_due_at_its_time_or_in_any_other_boot(store: Database) -> None:
    def fill(tx: Transaction) -> None:
        waiting(tx, "soon", 1, (NOW.milliseconds + 500, FIRST_BOOT))
        waiting(tx, "now", 2, (NOW.milliseconds, FIRST_BOOT))
        waiting(tx, "other boot", 3, (NOW.milliseconds + 90_000, SECOND_BOOT))
        waiting(tx, "on an event", 4, None)
        waiting(tx, "other lane", 5, (0, FIRST_BOOT), lane=Tier.MEDIUM)

    await store.write(fill)

    due = await store.read(lambda db: lines.due_again(db, Tier.LOW, NOW))
    soon = await store.read(lambda db: lines.due_again(db, Tier.LOW, later(500)))

    assert names(due) == ["now", "other boot"]
    assert names(soon) == ["soon", "now", "other boot"]


@pytest.mark.requirement("Q9", "Q5", "L3")
async def test_the_next_moment_to_look_is_a_waiting_one_or_a_lease_that_lapses(store: Database) -> None:
    assert await store.read(lambda db: lines.outlook(db, Tier.LOW, NOW).next) is None

    def lock(tx: Transaction) -> None:
        locked(tx, inserted(tx, new("runs", sequence=1), State.RUNNING), until=35_000)
        waiting(tx, "on an event", 2, None)
        waiting(tx, "other boot", 3, (1, SECOND_BOOT))

    await store.write(lock)
    assert await store.read(lambda db: lines.outlook(db, Tier.LOW, NOW).next) == 35_000
    assert await store.read(lambda db: lines.outlook(db, Tier.MEDIUM, NOW).next) is None
    assert await store.read(lambda db: lines.outlook(db, Tier.LOW, later(0, incarnation=2)).next) is None

    await store.write(lambda tx: waiting(tx, "soon", 4, (12_000, FIRST_BOOT)))
    assert await store.read(lambda db: lines.outlook(db, Tier.LOW, NOW).next) == 12_000


@pytest.mark.requirement("Q8")
async def test_how_many_a_lane_works(store: Database) -> None:
    def fill(tx: Transaction) -> None:
        for number in range(3):
            inserted(tx, new(f"low-{number}", sequence=number + 1), State.RUNNING)
        inserted(tx, new("medium", sequence=9, lane=Tier.MEDIUM), State.RUNNING)
        inserted(tx, new("queued", sequence=8))

    await store.write(fill)

    counts = [await store.read(lambda db, lane=lane: lines.running(db, lane)) for lane in Tier]  # type: ignore[misc]
    assert counts == [3, 1, 0]


# Order within a slot.


@pytest.mark.requirement("T4")
@pytest.mark.parametrize("state", [state for state in State if state is not State.NEW])
async def test_a_later_one_counts_unless_it_was_refused_or_withdrawn(store: Database, state: State) -> None:
    await store.write(lambda tx: inserted(tx, new("later", sequence=5), state))

    found = await store.read(lambda db: recall(db, asked(new("mine", sequence=4), largest=9)))

    assert found.superseded_by == (None if state in {State.REFUSED, State.CANCELLED} else "later")


@pytest.mark.requirement("T4")
async def test_the_latest_of_the_same_issuer_device_and_slot_is_found(store: Database) -> None:
    other_key = KeyId("e" * 64)
    commands: list[NewCommand] = [
        new("earlier", sequence=1),
        new("later", sequence=5),
        new("latest", sequence=6),
        new("slot", sequence=7, slot="volume"),
        new("no-slot", sequence=8, slot=None),
        new("device", sequence=9, device=OTHER),
        new("issuer", sequence=9, issuer=other_key),
    ]
    await store.write(lambda tx: [inserted(tx, command) for command in commands])

    found = await store.read(
        lambda db: [
            recall(db, asked(new("mine", sequence=after), largest=largest)).superseded_by
            for after, largest in ((0, 99), (1, 99), (5, 99), (6, 99), (0, 5), (1, 4))
        ]
    )

    assert found == ["latest", "latest", "latest", None, "later", None]


@pytest.mark.requirement("T4")
async def test_only_earlier_ones_that_have_not_begun_can_give_way(store: Database) -> None:
    open_states = {State.HELD, State.QUEUED, State.WAITING}

    def fill(tx: Transaction) -> None:
        for number, state in enumerate((state for state in State if state is not State.NEW), start=1):
            inserted(tx, new(f"c-{state}", sequence=number), state)
        sent = inserted(tx, new("sent", sequence=50), State.RUNNING)
        inbox.note_sent(tx, sent.run)
        tx.execute("UPDATE inbox SET state = 'waiting' WHERE command = 'sent'")
        inserted(tx, new("same", sequence=60))
        inserted(tx, new("slot", sequence=51, slot="volume"))

    await store.write(fill)

    found = await store.read(lambda db: inbox.earlier_in_slot(db, DESK, LAMP, "power", 60))

    assert set(names(found)) == {f"c-{state}" for state in open_states}


# What is known.


@pytest.mark.requirement("T4", "D2")
async def test_of_several_runs_of_a_command_the_last_is_told(store: Database) -> None:
    def fill(tx: Transaction) -> None:
        inserted(tx, new("c-1"), State.FAILED)
        tx.execute(
            "INSERT INTO inbox SELECT 2, command, 2, device, issuer, signers, sequence, action, slot, lane,"
            " operation, sha256, envelope, envelope_of, expires_at, begins_at, local_boot, local_until,"
            " actor, 'queued', reason, received_at, available_at, available_boot, attempts, sent,"
            " force_refresh, last_error, lease, parent, parent_most, losses, 1, traceparent, since FROM inbox"
        )

    await store.write(fill)

    [row] = await store.read(lambda db: inbox.by_command(db, CommandId("c-1")))
    assert (row.run, row.ordinal, row.state) == (2, 2, State.QUEUED)


@pytest.mark.requirement("T4")
async def test_the_highest_sequence_of_an_issuer_is_known_over_all_devices(store: Database) -> None:
    assert await store.read(lambda db: inbox.last_sequence(db, DESK)) == 0

    def fill(tx: Transaction) -> None:
        inserted(tx, new("a", sequence=3))
        inserted(tx, new("b", sequence=2**63 - 1, device=OTHER))
        inserted(tx, new("c", sequence=9, issuer=KeyId("e" * 64)))

    await store.write(fill)

    assert await store.read(lambda db: inbox.last_sequence(db, DESK)) == 2**63 - 1


async def test_states_and_the_last_ones_are_listed(store: Database) -> None:
    def fill(tx: Transaction) -> None:
        for number, state in enumerate((State.QUEUED, State.HELD, State.QUEUED, State.FAILED), start=1):
            inserted(tx, new(f"c-{number}", sequence=number), state)

    await store.write(fill)

    assert names(await store.read(lambda db: inbox.in_state(db, State.QUEUED))) == ["c-1", "c-3"]
    assert names(await store.read(lambda db: inbox.recent(db, 3))) == ["c-4", "c-3", "c-2"]
    assert await store.read(lambda db: inbox.by_run(db, 99)) is None
    assert await store.read(lambda db: inbox.by_command(db, CommandId("nobody"))) == []


@pytest.mark.requirement("R5", "T4")
def test_what_was_stored_is_there_after_a_reopening(tmp_path: Path) -> None:
    path = tmp_path / "hub.db"
    use(path, HUB_MIGRATIONS, lambda tx: inserted(tx, new("c-1")))

    [row] = use(path, HUB_MIGRATIONS, lambda tx: inbox.by_command(tx, CommandId("c-1")))

    assert row.state is State.QUEUED


# An envelope that several rows share.


def listed(tx: Transaction) -> None:
    """A command for three devices, all of them over, and a later one."""
    for number, device in enumerate(["a", "b", "c"]):
        inserted(tx, new("list", sequence=number, device=DeviceId(device), expires_at=number), State.FAILED)
    inserted(tx, new("last", sequence=9), State.FAILED)


@pytest.mark.requirement("T3", "T4")
async def test_who_keeps_the_envelope_of_a_list_is_forgotten_last(store: Database) -> None:
    limit = Over(before=100, kept=100, boot=FIRST_BOOT, most=10)

    def forget(tx: Transaction) -> list[int]:
        old = inbox_over.over(tx, limit)
        inbox_over.forget(tx, old)
        return [each.run for each in old]

    await store.write(listed)

    assert [await store.write(forget) for _ in range(3)] == [[2, 3], [1], []]


@pytest.mark.requirement("T7")
async def test_who_keeps_an_envelope_for_others_goes_on_keeping_one(store: Database) -> None:
    """In whatever order signatures are added to the rows of a list."""

    def fill(tx: Transaction) -> None:
        for number, device in enumerate(["a", "b", "c"]):
            inserted(tx, new("list", sequence=number, device=DeviceId(device)), State.HELD)
        for run in (2, 1):
            inbox.add_signatures(tx, run, (b"more", (DESK,)))

    await store.write(fill)

    found = await store.read(lambda db: [inbox.by_run(db, run) for run in (1, 2, 3)])
    assert [row.envelope for row in found if row is not None] == [b"more", b"more", b"more"]
