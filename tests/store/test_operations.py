"""What became of operations: one row for each key, in the hands of the last command that says it."""

import pytest

from edgeagent.core.operation import OperationState
from edgeagent.errors import BrokenInvariantError
from edgeagent.ids import CommandId, Digest
from edgeagent.store import operations
from edgeagent.store.database import Database, Transaction
from tests.store.commands import new

pytestmark = pytest.mark.requirement("I1", "I2")

KEY, OTHER = Digest("0" * 64), Digest("1" * 64)
FIRST, SECOND = CommandId("c-1"), CommandId("c-2")
TAKEN = {OperationState.PROCESSING, OperationState.COMPLETED}


def begun(tx: Transaction, state: OperationState = OperationState.PROCESSING) -> None:
    """An operation that the first command has said, and what became of it."""
    assert operations.begin(tx, new(FIRST, operation=KEY), 1)
    operations.settle(tx, KEY, 1, state)


async def found(store: Database, key: Digest = KEY) -> tuple[OperationState, CommandId] | None:
    """What is known of an operation."""
    return await store.read(lambda db: operations.find(db, key))


async def test_one_that_nobody_has_said_is_not_known(store: Database) -> None:
    await store.write(begun)

    assert await found(store, OTHER) is None
    assert await found(store) == (OperationState.PROCESSING, FIRST)


@pytest.mark.parametrize("state", OperationState)
async def test_it_is_put_into_other_hands_only_when_it_has_failed_or_is_unknown(
    store: Database, state: OperationState
) -> None:
    await store.write(lambda tx: begun(tx, state))

    taken = await store.write(lambda tx: operations.begin(tx, new(SECOND, operation=KEY), 2))

    assert taken is (state not in TAKEN)
    assert await found(store) == ((state, FIRST) if state in TAKEN else (OperationState.PROCESSING, SECOND))


@pytest.mark.parametrize("state", OperationState)
async def test_what_became_of_it_is_the_word_of_the_run_in_whose_hands_it_is(
    store: Database, state: OperationState
) -> None:
    def fill(tx: Transaction) -> None:
        begun(tx, OperationState.UNKNOWN)
        operations.begin(tx, new(SECOND, operation=KEY), 2)
        operations.settle(tx, KEY, 1, state)

    await store.write(fill)
    assert await found(store) == (OperationState.PROCESSING, SECOND)

    await store.write(lambda tx: operations.settle(tx, KEY, 2, state))

    assert await found(store) == (state, SECOND)


async def test_what_is_unknown_can_become_completed(store: Database) -> None:
    await store.write(lambda tx: begun(tx, OperationState.UNKNOWN))

    await store.write(lambda tx: operations.settle(tx, KEY, 1, OperationState.COMPLETED))

    assert await found(store) == (OperationState.COMPLETED, FIRST)
    assert not await store.write(lambda tx: operations.begin(tx, new(SECOND, operation=KEY), 2))


async def test_the_database_knows_no_other_state(store: Database) -> None:
    await store.write(begun)

    with pytest.raises(BrokenInvariantError):
        await store.write(lambda tx: tx.execute("UPDATE operations SET state = 'done'"))

    assert await found(store) == (OperationState.PROCESSING, FIRST)


@pytest.mark.requirement("T4")
async def test_it_is_forgotten_after_the_latest_expiry_of_a_command_that_said_it(store: Database) -> None:
    def fill(tx: Transaction) -> None:
        operations.begin(tx, new(FIRST, operation=KEY, expires_at=200), 1)
        operations.settle(tx, KEY, 1, OperationState.FAILED)
        operations.begin(tx, new(SECOND, operation=KEY, expires_at=100), 2)
        operations.settle(tx, KEY, 2, OperationState.COMPLETED)
        operations.begin(tx, new(SECOND, operation=OTHER, expires_at=100), 3)

    await store.write(fill)

    assert await store.write(lambda tx: operations.forget(tx, 199, 10)) == 0
    assert await store.write(lambda tx: operations.forget(tx, 200, 10)) == 1
    assert await found(store) is None
    assert await found(store, OTHER) == (OperationState.PROCESSING, SECOND)
