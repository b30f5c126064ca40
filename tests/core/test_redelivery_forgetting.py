"""The store forgets marks in portions: seldom, never too early, and never so late that they grow."""

import pytest

from edgeagent.core.redelivery import Mark, Redeliveries, digest

pytestmark = pytest.mark.requirement("Q2", "R7")

WINDOW, COMMIT = 320, 10
PORTION = WINDOW // 16


def commit(redeliveries: Redeliveries, number: int) -> None:
    """Hear the messages of a commit, each under a packet id of its own, and commit them."""
    marks: list[Mark] = [(number * COMMIT + place, digest("topic", b"payload")) for place in range(COMMIT)]
    for mark in marks:
        redeliveries.is_repeat(mark, dup=False)
    redeliveries.committed(marks)


def test_what_is_kept_always_reaches_back_a_window_and_no_more_than_a_portion_further() -> None:
    redeliveries = Redeliveries(WINDOW)

    kept = []
    for number in range(500):
        commit(redeliveries, number)
        kept.append((redeliveries.next_batch - redeliveries.oldest_needed) * COMMIT)

    steady = kept[WINDOW // COMMIT :]
    assert min(steady) >= WINDOW
    assert max(steady) <= WINDOW + PORTION


def test_most_commits_forget_nothing() -> None:
    redeliveries = Redeliveries(WINDOW)

    oldest = set()
    for number in range(500):
        commit(redeliveries, number)
        oldest.add(redeliveries.oldest_needed)

    assert len(oldest) <= 500 * COMMIT // PORTION


def test_a_new_start_takes_up_where_the_store_stands() -> None:
    stored = [(batch, b"\0" * 18 * COMMIT) for batch in range(100, 140)]

    redeliveries = Redeliveries(WINDOW, stored)

    assert redeliveries.next_batch == 140
    assert 100 <= redeliveries.oldest_needed <= 140 - WINDOW // COMMIT


def test_a_new_session_needs_nothing_of_the_old_one() -> None:
    redeliveries = Redeliveries(WINDOW)
    for number in range(50):
        commit(redeliveries, number)

    redeliveries.forget_all()

    assert redeliveries.oldest_needed == redeliveries.next_batch
