"""What the store remembers of one command, in one statement: as each table's own module tells it."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.order import Verb
from edgeagent.core.breaker import Breaker, Moment, Scope, Signal
from edgeagent.core.freshness import BootDeadline
from edgeagent.core.gate.world import Approval
from edgeagent.core.lifecycle import State
from edgeagent.core.operation import OperationState
from edgeagent.core.stops import Standing
from edgeagent.ids import CommandId, DeviceId, Digest
from edgeagent.store import approvals, breakers, meta, operations, stops
from edgeagent.store.approvals import NewApproval
from edgeagent.store.database import Transaction
from edgeagent.store.memory import Memory, recall
from tests.store.commands import DESK, LAMP, asked, inserted, new
from tests.support.clocks import FIRST_BOOT
from tests.support.stores import scratch

MINE = new("mine", sequence=4, operation=Digest("7" * 64))
APPROVAL = Approval("uid:1000 anna", BootDeadline(FIRST_BOOT, timedelta(seconds=60)))


def remembers(*works: Callable[[Transaction], object]) -> Memory:
    """What is remembered of it after something was written."""
    with scratch() as tx:
        for work in works:
            work(tx)
        return recall(tx, asked(MINE))


@pytest.mark.requirement("T4")
def test_of_a_command_that_never_came_nothing_is_remembered() -> None:
    assert remembers() == Memory(
        sha256=None,
        state=None,
        signers=frozenset(),
        actor="",
        sequence_of=None,
        superseded_by=None,
        forgotten=None,
        operation=None,
        stops=frozenset(),
        approvals=(),
        breaker=None,
    )


@pytest.mark.requirement("T4")
@pytest.mark.parametrize("state", [State.HELD, State.RUNNING, State.SUCCEEDED])
def test_its_last_run_tells_where_it_stands_who_signed_and_who_is_on_record(state: State) -> None:
    found = remembers(lambda tx: inserted(tx, MINE, state))

    assert (found.sha256, found.state, found.actor) == (MINE.sha256, state, DESK)
    assert found.signers == {DESK}
    assert found.sequence_of == "mine"


@pytest.mark.requirement("T4")
def test_its_payload_is_known_also_where_it_came_for_another_device() -> None:
    other = new("mine", sequence=4, device=DeviceId("lamp-2"))

    found = remembers(lambda tx: inserted(tx, other))

    assert (found.sha256, found.state, found.sequence_of) == (MINE.sha256, None, None)


@pytest.mark.requirement("B3", "T4", "I1")
def test_what_is_stopped_forgotten_and_done_is_remembered() -> None:
    # Given two kinds that are stopped and one that is not any more, old commands that are forgotten, and an
    # operation in the hands of another command.
    moment = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def fill(tx: Transaction) -> None:
        for number, kind in enumerate(("action:power", "tier:high", "action:volume"), start=1):
            verb = Verb.RESUME if kind == "action:volume" else Verb.STOP
            word = Standing(kind=kind, verb=verb, sequence=number, by="anna", why="so", at=1, is_guess=False)
            assert stops.put(tx, word)
        meta.raise_forgotten(tx, moment)
        other = new("other", sequence=3, operation=MINE.operation)
        row = inserted(tx, other, State.SUCCEEDED)
        assert operations.begin(tx, other, row.run)
        operations.settle(tx, other.operation, row.run, OperationState.COMPLETED)

    found = remembers(fill)

    assert found.stops == {"action:power", "tier:high"}
    assert found.forgotten == moment
    assert found.operation == (OperationState.COMPLETED, CommandId("other"))


@pytest.mark.requirement("T7")
@pytest.mark.parametrize(
    ("state", "counts"), [(State.HELD, True), (State.QUEUED, True), (State.REFUSED, False)]
)
def test_a_persons_word_is_remembered_while_the_run_is_open(state: State, *, counts: bool) -> None:
    def fill(tx: Transaction) -> None:
        row = inserted(tx, MINE, state)
        word = NewApproval(sha256=MINE.sha256, device=LAMP, run=row.run, at=1, approval=APPROVAL)
        approvals.add(tx, word)

    found = remembers(fill)

    assert found.approvals == ((APPROVAL,) if counts else ())


@pytest.mark.requirement("B1")
def test_only_the_breaker_of_its_issuer_and_action_is_its_own() -> None:
    now = Moment(FIRST_BOOT, timedelta(seconds=5))
    mine = Breaker(
        scope=Scope(DESK, ActionName.POWER), signal=Signal.BY_HAND, why="so", opened=now, open_for=None
    )
    other = Breaker(
        scope=Scope(DESK, ActionName.VOLUME), signal=Signal.BY_HAND, why="so", opened=now, open_for=None
    )

    assert (remembers(lambda tx: breakers.put(tx, other, 1))).breaker is None
    assert (remembers(lambda tx: breakers.put(tx, mine, 1))).breaker == mine
