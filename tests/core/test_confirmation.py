"""Confirmation: what counts as an answer, whatever a profile says."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.policy import Level
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.sources import Value
from edgeagent.core.confirmation import (
    Answer,
    Confirmed,
    Contradicted,
    Denied,
    Echo,
    Expectation,
    Heard,
    Progress,
    Refusal,
    Wish,
    hear,
    read_back,
)
from edgeagent.core.profile.decode import Decoded
from edgeagent.core.profile.paths import getter, path
from edgeagent.core.profile.predicates import predicate
from edgeagent.ids import ReadingName, topic
from tests.core.profile.building import family, live, made

pytestmark = pytest.mark.requirement("M2")

POWER = ReadingName("power")
COMMAND, STATE, ANSWERS = topic("cmnd/a"), topic("stat/a"), topic("hub/a/rpc")
ON = Wish(POWER, value=True)


def expected(*, cycle: Level | None = None, wish: Wish | None = ON) -> Expectation:
    """What may be heard after a command: an echo, a correlated answer, a refusal."""
    answer = Answer(topic=ANSWERS, tests=(), correlate=getter(path("$.id")), number=7)
    refusal = Answer(
        topic=ANSWERS, tests=(predicate("$.error exists").bind({}),), correlate=getter(path("$.id")), number=7
    )
    return Expectation(
        published=COMMAND,
        answers=(answer,),
        echoes=(Echo(reading=POWER, topics=frozenset({STATE, COMMAND}), wish=wish, level=Level.APPLIED),),
        cycle=cycle,
        refusals=(Refusal(answer=refusal, reason=getter(path("$.error"))),),
        within=timedelta(seconds=5),
    )


def shows(value: Value, where: str = STATE, **changes: bool) -> Heard:
    """A message that shows the reading."""
    return Heard(topic=where, decoded=Decoded(readings=[(POWER, value)]), **changes)


def says(document: dict[str, object] | None, where: str = ANSWERS, **changes: bool) -> Heard:
    """A message with this document."""
    return Heard(topic=where, decoded=Decoded(document=document), **changes)  # type: ignore[arg-type]  # plain JSON


def presence(*, online: bool, retained: bool = False) -> Heard:
    """The device's last will, or its birth."""
    return Heard(topic="lwt", decoded=Decoded(availability=online), retained=retained)


def after(expectation: Expectation, *messages: Heard, before: Value | None = None) -> Progress:
    """How far the confirmation has come."""
    progress = Progress(before={} if before is None else {POWER: before})
    for message in messages:
        progress = hear(expectation, progress, message)
    return progress


def test_the_wished_value_heard_live_after_the_publish_applies_it() -> None:
    assert after(expected(), shows(value=True)).confirmed == Confirmed(Level.APPLIED, value=True)


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(shows(value=True, retained=True), id="the broker's stored copy"),
        pytest.param(shows(value=True, after=False), id="on its way before the publish"),
        pytest.param(shows(value=True, own=True), id="known to be our own"),
        pytest.param(shows(value=True, where=COMMAND), id="on the topic that we published on"),
        pytest.param(shows(value=True, where="stat/b"), id="on another device's topic"),
        pytest.param(shows(value=False), id="another value"),
        pytest.param(shows(1), id="a number for a truth"),
        pytest.param(says({"id": 7}, retained=True), id="a stored answer"),
        pytest.param(says({"id": 7}, after=False), id="an answer before the question"),
        pytest.param(says({"id": 8}), id="an answer to another question"),
        pytest.param(says({"id": True}), id="a truth for a number"),
        pytest.param(says({}), id="an answer without a number"),
        pytest.param(says({"id": 7}, "hub/b/rpc"), id="an answer on another device's topic"),
        pytest.param(says(None), id="an answer that could not be read"),
    ],
)
def test_nothing_else_does(message: Heard) -> None:
    assert after(expected(), message).confirmed is None
    assert after(expected(), message).denied is None


def test_an_earlier_report_that_was_on_its_way_is_no_failure() -> None:
    """The lamp's last report says ON; the command says OFF; then the lamp says OFF."""
    expectation = expected(wish=Wish(POWER, value=False))

    first = after(expectation, shows(value=True))
    second = after(expectation, shows(value=True), shows(value=False))

    assert first == Progress()
    assert second.confirmed == Confirmed(Level.APPLIED, value=False)


def test_our_own_publish_that_comes_back_confirms_nothing() -> None:
    """A bridge with one topic for state and commands plays our own message back to us."""
    device = made(family("one-topic"), base="tv")
    plan = device.plan(ActionName.VOLUME, {"level": 40}, number=1)
    heard = Heard(topic="tv/volume", decoded=live(device, "tv/volume", "40"))

    assert after(plan.steps[0].expectation, heard) == Progress()


def test_a_better_proof_replaces_a_weaker_one_and_never_the_other_way() -> None:
    accepted, applied = says({"id": 7}), shows(value=True)

    assert after(expected(), accepted).confirmed == Confirmed(Level.ACCEPTED)
    assert after(expected(), accepted, applied).confirmed == Confirmed(Level.APPLIED, value=True)
    assert after(expected(), applied, accepted).confirmed == Confirmed(Level.APPLIED, value=True)


def test_a_number_may_come_back_as_text() -> None:
    assert after(expected(), says({"id": "7"})).confirmed == Confirmed(Level.ACCEPTED)


def test_a_refusal_denies_until_the_effect_has_been_seen() -> None:
    refusal = says({"id": 7, "error": "busy"})

    assert after(expected(), refusal).denied == Denied(Reason.DEVICE_REFUSED, "busy")
    assert after(expected(), refusal, refusal).denied == Denied(Reason.DEVICE_REFUSED, "busy")
    assert after(expected(), shows(value=True), refusal).denied is None


def test_a_change_is_seen_against_what_was_known_before() -> None:
    change = expected(wish=None)

    assert after(change, shows(value=True), before=False).confirmed == Confirmed(Level.APPLIED, value=True)
    assert after(change, shows(value=False), before=False).confirmed is None
    assert after(change, shows(value=True)).confirmed is None


def test_what_is_heard_before_the_publish_is_what_was_before() -> None:
    progress = after(expected(wish=None), shows(value=False, after=False), shows(value=True))

    assert progress.confirmed == Confirmed(Level.APPLIED, value=True)


def test_going_away_and_coming_back_is_seen_only_in_that_order_and_live() -> None:
    cycle = expected(cycle=Level.VERIFIED)
    gone, back = presence(online=False), presence(online=True)

    assert after(cycle, gone, back).confirmed == Confirmed(Level.VERIFIED)
    assert after(cycle, back, gone).confirmed is None
    assert after(cycle, gone, presence(online=True, retained=True)).confirmed is None
    assert after(cycle, presence(online=False, retained=True), back).confirmed is None
    assert after(expected(), gone, back).confirmed is None


def test_reading_back_is_judged_by_the_answer_alone() -> None:
    expectation = Expectation(
        published=COMMAND,
        answers=(Answer(topic=ANSWERS, tests=(), correlate=getter(path("$.id")), number=7),),
        within=timedelta(seconds=5),
    )

    def judged(value: Value | None, number: int = 7, **changes: bool) -> Confirmed | Contradicted | None:
        found = [] if value is None else [(POWER, value)]
        decoded = Decoded(readings=found, document={"id": number})
        return read_back(ON, expectation, Heard(topic=ANSWERS, decoded=decoded, **changes))

    assert judged(value=True) == Confirmed(Level.VERIFIED, value=True)
    assert judged(value=False) == Contradicted(value=False)
    assert judged(None) is None
    assert judged(value=True, number=8) is None
    assert judged(value=True, retained=True) is None
    assert judged(value=True, after=False) is None
    assert judged(value=True, own=True) is None


@pytest.mark.parametrize(
    ("wish", "tolerance", "value", "met"),
    [
        (True, 0.0, True, True),
        (True, 0.0, 1, False),
        (1, 0.0, True, False),
        (40, 0.0, 40.0, True),
        (40, 2.0, 42, True),
        (40, 2.0, 43, False),
        (20.5, 0.26, 20.25, True),
        ("HDMI 1", 0.0, "HDMI 1", True),
        ("HDMI 1", 0.0, "HDMI 2", False),
        ("HDMI 1", 2.0, "HDMI 2", False),
        ("#FF8000", 2.0, "#FE8102", True),
        ("#FF8000", 2.0, "#FF8300", False),
        ("#FF8000", 0.0, "#FF8001", False),
        ("#FF8000", 2.0, 5, False),
    ],
)
def test_a_wish_is_met_by_what_is_near_enough(wish: Value, tolerance: float, value: Value, met: bool) -> None:  # noqa: FBT001 - a table's outcome
    assert Wish(POWER, wish, tolerance).met_by(value) is met


messages = st.builds(
    Heard,
    topic=st.sampled_from([COMMAND, STATE, ANSWERS, "lwt", "x"]),
    decoded=st.builds(
        Decoded,
        readings=st.lists(st.tuples(st.just(POWER), st.booleans()), max_size=2),
        availability=st.none() | st.booleans(),
        document=st.none() | st.dictionaries(st.sampled_from(["id", "error"]), st.integers(6, 8), max_size=2),
    ),
    retained=st.booleans(),
    after=st.booleans(),
    own=st.booleans(),
)


@given(st.lists(messages, max_size=8), messages)
def test_proof_only_grows(heard: list[Heard], last: Heard) -> None:
    expectation = expected(cycle=Level.VERIFIED)
    progress = after(expectation, *heard)

    further = hear(expectation, progress, last)

    if progress.confirmed is not None:
        assert further.confirmed is not None
        assert further.confirmed.level.reaches(progress.confirmed.level)
    assert progress.denied is None or further.denied == progress.denied


@given(
    st.lists(messages.filter(lambda heard: heard.retained or heard.own or heard.topic == COMMAND), max_size=8)
)
def test_nothing_stored_or_our_own_ever_proves_anything(heard: list[Heard]) -> None:
    assert after(expected(cycle=Level.SENT), *heard) == Progress()
