"""Delivery marks on disk: saved with the messages that they stand for, or not at all."""

from functools import partial

import pytest

from edgeagent.core.redelivery import Redeliveries, digest
from edgeagent.errors import BrokenInvariantError, RejectedError
from edgeagent.store import marks
from edgeagent.store.database import Database, Transaction

pytestmark = pytest.mark.requirement("Q2")

ON = (1, digest("stat/plug/POWER", b"ON"))
OFF = (2, digest("stat/plug/POWER", b"OFF"))


async def test_marks_come_back_oldest_commit_first_and_each_session_for_itself(store: Database) -> None:
    knowledge = Redeliveries(10)
    raw = knowledge.to_store([ON])
    for batch in (10, 9, 11):
        await store.write(partial(marks.add, session="control", batch=batch, marks=raw))
    await store.write(partial(marks.add, session="telemetry", batch=1, marks=b""))

    assert await store.read(partial(marks.load, session="control")) == [(9, raw), (10, raw), (11, raw)]
    assert await store.read(partial(marks.load, session="telemetry")) == [(1, b"")]
    assert await store.read(partial(marks.load, session="other")) == []


async def test_what_was_stored_is_known_after_a_restart(store: Database) -> None:
    knowledge = Redeliveries(10)
    await store.write(
        partial(marks.add, session="control", batch=knowledge.next_batch, marks=knowledge.to_store([ON, OFF]))
    )

    again = Redeliveries(10, await store.read(partial(marks.load, session="control")))

    assert again.is_repeat(ON, dup=True)
    assert again.is_repeat(OFF, dup=True)
    assert again.next_batch == 2


async def test_a_commit_that_fails_leaves_no_mark(store: Database) -> None:
    def fail(tx: Transaction) -> None:
        marks.add(tx, "control", 1, Redeliveries(10).to_store([ON]))
        raise RejectedError("not this time")

    with pytest.raises(RejectedError):
        await store.write(fail)

    assert await store.read(partial(marks.load, session="control")) == []


async def test_marks_whose_window_has_passed_are_forgotten_in_their_session_only(store: Database) -> None:
    for session in ("control", "telemetry"):
        for batch in (1, 2, 3):
            await store.write(partial(marks.add, session=session, batch=batch, marks=b""))

    await store.write(partial(marks.forget, session="control", before=3))

    assert await store.read(partial(marks.load, session="control")) == [(3, b"")]
    assert len(await store.read(partial(marks.load, session="telemetry"))) == 3


@pytest.mark.parametrize(
    ("batch", "raw"),
    [pytest.param(1, b"", id="the same commit again"), pytest.param(2, b"x" * 17, id="half a mark")],
)
async def test_marks_that_cannot_be_are_refused(store: Database, batch: int, raw: bytes) -> None:
    await store.write(partial(marks.add, session="control", batch=1, marks=b""))

    with pytest.raises(BrokenInvariantError):
        await store.write(partial(marks.add, session="control", batch=batch, marks=raw))

    assert await store.read(partial(marks.load, session="control")) == [(1, b"")]
