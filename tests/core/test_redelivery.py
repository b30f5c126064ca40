"""Redeliveries: what the broker sends again is stored once, and nothing else is taken for it.

The model knows every message that the session has brought, in order. A message is a repeat only if the
broker says so and one of the last ``WINDOW`` messages, the latest of its packet id, was the same.
"""

from collections.abc import Iterable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from edgeagent.core.redelivery import MARK_BYTES, Mark, Redeliveries, digest

pytestmark = pytest.mark.requirement("Q2")

WINDOW = 6

ON, OFF = digest("stat/plug/POWER", b"ON"), digest("stat/plug/POWER", b"OFF")
EVERY_MARK = [(packet_id, content) for packet_id in range(1, 5) for content in (ON, OFF)]

messages = st.lists(st.sampled_from(EVERY_MARK), max_size=4)


def is_known(heard: list[Mark], mark: Mark) -> bool:
    """Whether the model takes a message marked DUP for a repeat."""
    same_id = [held for held in heard[-WINDOW:] if held[0] == mark[0]]
    return bool(same_id) and same_id[-1] == mark


def hear(redeliveries: Redeliveries, marks: Iterable[Mark], *, dup: bool = False) -> list[bool]:
    """Hear messages, and say which are repeats."""
    return [redeliveries.is_repeat(mark, dup=dup) for mark in marks]


class Disk:
    """The rows of one session, as the store keeps them."""

    def __init__(self) -> None:
        self.rows: dict[int, bytes] = {}

    def commit(self, redeliveries: Redeliveries, marks: list[Mark]) -> None:
        """Store what a commit of these messages has to store, and forget what is not needed any more."""
        batch = redeliveries.next_batch
        assert batch not in self.rows
        stored = redeliveries.to_store(marks)
        assert len(stored) % MARK_BYTES == 0
        self.rows = {number: row for number, row in self.rows.items() if number >= redeliveries.oldest_needed}
        self.rows[batch] = stored
        redeliveries.committed(marks)

    def load(self) -> Redeliveries:
        """What a new start knows."""
        return Redeliveries(WINDOW, sorted(self.rows.items()))


class Session(RuleBasedStateMachine):
    """A broker session, with crashes."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = Disk()
        self.redeliveries = self.disk.load()
        self.heard: list[Mark] = []
        self.saved: list[Mark] = []

    def hears(self, marks: list[Mark], dups: list[bool]) -> None:
        """Hear messages one after the other."""
        for mark, dup in zip(marks, dups, strict=False):
            expected = dup and is_known(self.heard, mark)

            assert self.redeliveries.is_repeat(mark, dup=dup) == expected

            self.heard.append(mark)

    @rule(marks=messages, dups=st.lists(st.booleans(), min_size=4, max_size=4))
    def messages_are_stored(self, marks: list[Mark], dups: list[bool]) -> None:
        self.hears(marks, dups)
        self.disk.commit(self.redeliveries, marks)
        self.saved = list(self.heard)

    @rule(marks=messages, dups=st.lists(st.booleans(), min_size=4, max_size=4))
    def messages_change_nothing(self, marks: list[Mark], dups: list[bool]) -> None:
        self.hears(marks, dups)
        self.redeliveries.unchanged(marks)

    @rule(marks=messages, dups=st.lists(st.booleans(), min_size=4, max_size=4))
    def the_process_dies_before_the_commit(self, marks: list[Mark], dups: list[bool]) -> None:
        self.hears(marks, dups)
        self.redeliveries = self.disk.load()
        self.heard = list(self.saved)

    @rule()
    def the_broker_loses_the_session(self) -> None:
        self.redeliveries.forget_all()
        self.heard, self.saved = [], []
        self.disk.rows = {
            number: row for number, row in self.disk.rows.items() if number >= self.redeliveries.next_batch
        }
        self.disk.commit(self.redeliveries, [])

    @invariant()
    def a_restart_would_know_what_is_saved(self) -> None:
        for mark in EVERY_MARK:
            assert self.disk.load().is_repeat(mark, dup=True) == is_known(self.saved, mark)

    @invariant()
    def the_disk_is_bounded(self) -> None:
        kept = sum(len(row) for row in self.disk.rows.values()) // MARK_BYTES

        # A window, the commit that reaches back beyond it, and what waited for a commit beside it.
        assert kept <= WINDOW + 2 * (4 + WINDOW)


TestASession = Session.TestCase
TestASession.settings = settings(max_examples=50)


def test_a_message_sent_again_after_a_crash_is_a_repeat() -> None:
    disk = Disk()
    before = disk.load()
    hear(before, [(1, ON)])
    disk.commit(before, [(1, ON)])

    after = disk.load()

    assert hear(after, [(1, ON)], dup=True) == [True]


def test_the_same_words_said_again_are_no_repeat() -> None:
    """On, off, on: three changes, although two of them say the same."""
    redeliveries = Redeliveries(WINDOW)

    assert hear(redeliveries, [(1, ON), (2, OFF), (3, ON)]) == [False, False, False]


def test_a_message_marked_dup_that_never_arrived_before_is_new() -> None:
    redeliveries = Redeliveries(WINDOW)

    assert hear(redeliveries, [(1, ON)], dup=True) == [False]


def test_a_packet_id_that_is_used_again_is_no_repeat_of_its_former_message() -> None:
    """The first copy of the second message was lost; the broker sends it again under the same id."""
    redeliveries = Redeliveries(WINDOW)
    hear(redeliveries, [(1, ON)])
    redeliveries.committed([(1, ON)])

    assert hear(redeliveries, [(1, OFF)], dup=True) == [False]
    assert hear(redeliveries, [(1, ON)], dup=True) == [False]


def test_an_equal_message_from_before_the_window_is_another_one() -> None:
    """Packet ids come round again: a press of the same button a day ago must not swallow today's."""
    redeliveries = Redeliveries(WINDOW)
    others = [(packet_id, OFF) for packet_id in range(2, WINDOW + 2)]
    hear(redeliveries, [(1, ON), *others])
    redeliveries.committed([(1, ON), *others])

    assert hear(redeliveries, [(1, ON)], dup=True) == [False]


def test_messages_without_a_commit_push_old_ones_out_of_the_window_too() -> None:
    redeliveries = Redeliveries(WINDOW)
    hear(redeliveries, [(1, ON)])
    redeliveries.committed([(1, ON)])
    others = [(packet_id, OFF) for packet_id in range(2, WINDOW + 2)]
    hear(redeliveries, others)
    redeliveries.unchanged(others)

    assert hear(redeliveries, [(1, ON)], dup=True) == [False]


def test_a_message_that_comes_again_before_its_commit_is_a_repeat() -> None:
    """The connection dropped for a moment while the batch was gathered."""
    redeliveries = Redeliveries(WINDOW)
    hear(redeliveries, [(1, ON)])

    assert hear(redeliveries, [(1, ON)], dup=True) == [True]


def test_what_changed_nothing_is_stored_with_the_next_commit() -> None:
    disk = Disk()
    redeliveries = disk.load()
    hear(redeliveries, [(1, ON)])
    redeliveries.unchanged([(1, ON)])
    hear(redeliveries, [(2, OFF)])
    disk.commit(redeliveries, [(2, OFF)])

    assert hear(disk.load(), [(1, ON), (2, OFF)], dup=True) == [True, True]


def test_a_new_session_forgets_and_its_commits_go_on_counting() -> None:
    """So that no commit of it meets a row that is stored still."""
    disk = Disk()
    redeliveries = disk.load()
    hear(redeliveries, [(1, ON)])
    disk.commit(redeliveries, [(1, ON)])

    redeliveries.forget_all()

    assert hear(redeliveries, [(1, ON)], dup=True) == [False]
    assert redeliveries.next_batch == 2


@pytest.mark.requirement("R7")
def test_memory_is_bounded_by_the_window_and_not_by_the_packet_ids() -> None:
    redeliveries = Redeliveries(WINDOW)
    for packet_id in range(1, 65_536):
        redeliveries.is_repeat((packet_id, ON), dup=False)

    known = [hear(redeliveries, [(packet_id, ON)], dup=True)[0] for packet_id in range(65_530, 65_536)]
    lost = [hear(redeliveries, [(packet_id, ON)], dup=True)[0] for packet_id in range(1, 1000)]

    assert all(known)
    assert not any(lost)


def test_the_topic_belongs_to_a_messages_content() -> None:
    assert digest("a", b"x") != digest("b", b"x")
    assert digest("a", b"x") != digest("a", b"y")
    assert len(digest("a", b"")) == 16
    assert digest("\udcff", b"") != digest("\udcfe", b"")
