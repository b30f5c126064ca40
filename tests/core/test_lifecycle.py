"""The states of a command and their moves: the table, walked pair by pair."""

from itertools import product

import pytest

from edgeagent.contracts.receipt import Outcome
from edgeagent.core.lifecycle import FINAL, NEXT, OPEN, State, check_move, state_of
from edgeagent.errors import IllegalTransitionError

pytestmark = pytest.mark.requirement("T4", "I2")

# Written out a second time on purpose, as DESIGN has it: a slip in the table is no slip here.
_ENDS_UNBEGUN = "superseded cancelled expired refused"
_ENDS_BEGUN = "succeeded failed unknown rolled_back rollback_failed"
LEGAL = {
    "new": "held queued refused",
    "held": f"queued {_ENDS_UNBEGUN}",
    "queued": f"running waiting {_ENDS_UNBEGUN}",
    "waiting": f"queued {_ENDS_UNBEGUN}",
    "running": f"waiting queued expired refused {_ENDS_BEGUN}",
}
UNSENT_ONLY = set(_ENDS_UNBEGUN.split())

every_pair = pytest.mark.parametrize(
    ("current", "target"),
    [pytest.param(*pair, id=f"{pair[0]} > {pair[1]}") for pair in product(State, State)],
)


def is_legal(current: State, target: State) -> bool:
    """Whether the table of DESIGN lists a move."""
    return target.value in LEGAL.get(current.value, "").split()


def allows(current: State, target: State, *, sent: bool) -> bool:
    """Whether the code lets a move pass."""
    try:
        check_move(current, target, sent=sent)
    except IllegalTransitionError:
        return False
    return True


@every_pair
def test_of_what_was_not_sent_exactly_the_listed_moves_are_let_pass(current: State, target: State) -> None:
    assert allows(current, target, sent=False) is is_legal(current, target)


@every_pair
def test_of_what_was_sent_no_move_says_that_nothing_was_done(current: State, target: State) -> None:
    legal = is_legal(current, target) and target.value not in UNSENT_ONLY

    assert allows(current, target, sent=True) is legal


@pytest.mark.parametrize("state", sorted(FINAL))
def test_nothing_follows_a_final_state(state: State) -> None:
    assert NEXT[state] == frozenset()


def test_a_state_is_new_or_open_or_final() -> None:
    assert {State.NEW} | OPEN | FINAL == set(State)
    assert not OPEN & FINAL
    assert State.NEW not in OPEN | FINAL


def test_every_open_state_has_a_way_to_every_end_that_its_run_can_have() -> None:
    """No state is a trap: from each, whatever happens, some end can be reached."""
    for start in OPEN:
        seen, waiting = {start}, [start]
        while waiting:
            for state in NEXT[waiting.pop()] - seen:
                seen.add(state)
                waiting.append(state)

        assert seen >= FINAL - {State.CANCELLED, State.SUPERSEDED}


@pytest.mark.parametrize("outcome", Outcome)
def test_each_outcome_is_a_final_state_of_the_same_name(outcome: Outcome) -> None:
    assert state_of(outcome) in FINAL
    assert state_of(outcome).value == outcome.value


def test_each_final_state_is_an_outcome() -> None:
    assert {str(state) for state in FINAL} == {str(outcome) for outcome in Outcome}


def test_a_refused_move_names_both_states_and_that_it_was_sent() -> None:
    with pytest.raises(IllegalTransitionError, match="running may not become expired once sent"):
        check_move(State.RUNNING, State.EXPIRED, sent=True)
