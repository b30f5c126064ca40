"""What comes next of several steps, whatever was recorded and wherever it was broken off."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.contracts.policy import Level
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.saga import Check, CheckUndo, Do, Mark, Over, Phase, Undo, check_mark, following
from edgeagent.errors import RejectedError

pytestmark = pytest.mark.requirement("S1", "S2")

COUNT = 3
AFTER = {
    "do": [Phase.FOUND, Phase.BARRED, Phase.BEGUN],
    "check": [Phase.DONE, Phase.FAILED, Phase.UNSURE, Phase.BEGUN],
    "undo": [Phase.UNDOING, Phase.STUCK],
    "check undo": [Phase.UNDONE, Phase.STUCK, Phase.UNDOING],
}


def mark(part: int, phase: Phase, tries: int = 1, *, reason: Reason | None = None) -> Mark:
    """A step that was sent once."""
    return Mark(part=part, name=f"step {part}", phase=phase, tries=tries, reason=reason)


def marks(*phases: Phase) -> dict[int, Mark]:
    """Steps, each in its phase."""
    return {part: mark(part, phase) for part, phase in enumerate(phases)}


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ({}, Do(0)),
        (marks(Phase.FOUND), Do(1)),
        (marks(Phase.BEGUN), Check(0)),
        ({0: mark(0, Phase.BEGUN, 0)}, Do(0)),
        (marks(Phase.DONE, Phase.BEGUN), Check(1)),
        (marks(Phase.DONE, Phase.FAILED), Undo(0)),
        (marks(Phase.DONE, Phase.UNSURE), Undo(1)),
        (marks(Phase.DONE, Phase.DONE, Phase.BARRED), Undo(1)),
        (marks(Phase.DONE, Phase.UNDOING, Phase.BARRED), CheckUndo(1)),
        ({**marks(Phase.DONE, Phase.FOUND, Phase.FAILED), 0: mark(0, Phase.UNDOING, 0)}, Undo(0)),
        (marks(Phase.DONE, Phase.STUCK, Phase.BARRED), Undo(0)),
    ],
)
def test_what_comes_next(recorded: dict[int, Mark], expected: object) -> None:
    assert following(COUNT, recorded) == expected


@pytest.mark.parametrize(
    ("recorded", "outcome"),
    [
        (marks(Phase.DONE, Phase.FOUND, Phase.DONE), Outcome.SUCCEEDED),
        (marks(Phase.FOUND, Phase.FOUND, Phase.FOUND), Outcome.SUCCEEDED),
        (marks(Phase.FAILED), Outcome.FAILED),
        (marks(Phase.FOUND, Phase.FAILED), Outcome.FAILED),
        (marks(Phase.UNDONE, Phase.BARRED), Outcome.ROLLED_BACK),
        (marks(Phase.UNDONE, Phase.STUCK, Phase.FAILED), Outcome.ROLLBACK_FAILED),
        (marks(Phase.FOUND, Phase.BARRED), Outcome.REFUSED),
        ({0: mark(0, Phase.BARRED, reason=Reason.EXPIRED)}, Outcome.EXPIRED),
    ],
)
def test_how_it_ends(recorded: dict[int, Mark], outcome: Outcome) -> None:
    over = following(COUNT, recorded)

    assert isinstance(over, Over)
    assert over.outcome is outcome


def test_a_success_is_known_as_surely_as_its_least_sure_step() -> None:
    levels = [Level.VERIFIED, Level.ACCEPTED, Level.APPLIED]
    recorded = {part: replace(mark(part, Phase.DONE), level=level) for part, level in enumerate(levels)}

    assert following(COUNT, recorded) == Over(outcome=Outcome.SUCCEEDED, level=Level.ACCEPTED)


def test_why_it_turned_round_stays_however_the_way_back_goes() -> None:
    turned = mark(1, Phase.UNSURE, reason=Reason.NO_CONFIRMATION)

    stuck = turned.becomes(Phase.STUCK, None, Reason.DEVICE_REFUSED, "no")

    assert (stuck.phase, stuck.reason) == (Phase.STUCK, Reason.NO_CONFIRMATION)


def next_word(recorded: dict[int, Mark]) -> tuple[str, int]:
    """What comes next, in a word, and of which step."""
    match following(COUNT, recorded):
        case Do(part):
            return "do", part
        case Check(part):
            return "check", part
        case Undo(part):
            return "undo", part
        case CheckUndo(part):
            return "check undo", part
        case Over():
            return "over", -1


@given(st.data())
def test_however_it_goes_it_ends_and_leaves_nothing_half_done(data: st.DataObject) -> None:
    recorded: dict[int, Mark] = {}
    history: list[tuple[int, Phase]] = []
    for _ in range(60):
        word, part = next_word(recorded)
        if word == "over":
            break
        held = recorded.get(part)
        phase = data.draw(st.sampled_from(AFTER[word]))
        tries = 0 if held is None else held.tries
        if phase in {Phase.BEGUN, Phase.UNDOING}:
            tries = tries + 1 if held is not None and held.phase is phase else 1
            # After some tries whoever drives it gives up.
            phase = phase if tries <= 3 else {"check": Phase.UNSURE, "check undo": Phase.STUCK}[word]
        new = mark(part, phase, tries)
        check_mark(COUNT, recorded, new)
        recorded[part] = new
        history.append((part, phase))

    over = following(COUNT, recorded)
    assert isinstance(over, Over)
    phases = {each.phase for each in recorded.values()}
    assert not phases & {Phase.BEGUN, Phase.UNDOING, Phase.UNSURE}
    assert (over.outcome is Outcome.SUCCEEDED) == (phases <= {Phase.FOUND, Phase.DONE})
    if over.outcome is not Outcome.SUCCEEDED:
        assert Phase.DONE not in phases
    undone = [part for part, phase in history if phase in {Phase.UNDONE, Phase.STUCK}]
    assert undone == sorted(undone, reverse=True)


@given(
    st.dictionaries(st.integers(0, COUNT - 1), st.sampled_from(Phase)),
    st.integers(-1, COUNT + 1),
    st.sampled_from(Phase),
)
def test_nothing_is_recorded_of_a_step_that_is_not_next(
    phases: dict[int, Phase], part: int, phase: Phase
) -> None:
    recorded = {each: mark(each, known) for each, known in phases.items()}
    coming = following(COUNT, recorded)
    if not isinstance(coming, Over) and coming.part == part:
        return

    with pytest.raises(RejectedError):
        check_mark(COUNT, recorded, mark(part, phase))


@pytest.mark.parametrize("phase", list(Phase), ids=str)
def test_a_step_that_may_have_been_sent_is_neither_found_so_nor_barred(phase: Phase) -> None:
    recorded = marks(Phase.BEGUN)
    allowed = {Phase.BEGUN, Phase.DONE, Phase.FAILED, Phase.UNSURE}

    if phase in allowed:
        check_mark(COUNT, recorded, mark(0, phase))
    else:
        with pytest.raises(RejectedError):
            check_mark(COUNT, recorded, mark(0, phase))
