"""The shadow: versions that only grow, and every change told in the end."""

import dataclasses
import json
from copy import deepcopy
from dataclasses import dataclass
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from edgeagent.core.shadow import Heard, Shadow, StateReading, Telling, Value, differs, etag
from edgeagent.ids import ReadingName

pytestmark = pytest.mark.requirement("C1")

POWER, LEVEL = ReadingName("power"), ReadingName("level")
SECOND = 1_000_000_000


@dataclass(frozen=True)
class Rule:
    """How a reading is told."""

    deadband: float = 0
    min_interval: timedelta = timedelta(0)
    max_interval: timedelta | None = None


ALWAYS = Rule()
SLOW = Rule(min_interval=timedelta(seconds=10), max_interval=timedelta(seconds=60))

values: st.SearchStrategy[Value] = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
)


def live(seconds: float = 0) -> Heard:
    """A message that comes so many seconds after boot."""
    return Heard(at=int(seconds * 1_000_000), boot=int(seconds * SECOND), retained=False)


def retained(seconds: float = 0) -> Heard:
    """The broker's stored copy."""
    return Heard(at=int(seconds * 1_000_000), boot=int(seconds * SECOND), retained=True)


def empty() -> Shadow:
    """The shadow of a device of which nothing was heard."""
    return Shadow(0, etag({}))


class DeviceOverTime(RuleBasedStateMachine):
    """One device with two state readings: heard, told, forgotten, restarted, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.shadow = empty()
        self.now = 0
        self.reporting = {POWER: ALWAYS, LEVEL: SLOW}
        self.said: dict[ReadingName, Value] = {}
        self.versions: dict[ReadingName, int] = {}
        self.version = 0
        self.told_at: dict[ReadingName, int] = {}

    @rule(
        name=st.sampled_from([POWER, LEVEL]),
        value=st.booleans() | st.integers(0, 3),
        is_retained=st.booleans(),
    )
    def hears(self, *, name: ReadingName, value: Value, is_retained: bool) -> None:
        before = self.shadow.state.get(name)
        was = None if before is None else (before.value, before.version)
        heard = Heard(at=self.now // 1000, boot=self.now, retained=is_retained)

        telling = self.shadow.hear_state(name, value, self.reporting[name], heard)

        held = self.shadow.state[name]
        changed = was is None or differs(was[0], value, 0)
        assert held.version == (self.shadow.version if changed else was and was[1])
        assert self.shadow.version == self.version + changed
        if telling is Telling.NOW:
            self.tells(name)
        elif telling is Telling.NOTHING:
            assert self.said[name] == held.value

    def tells(self, name: ReadingName) -> None:
        """Tell a reading as it is."""
        interval = self.reporting[name].min_interval // timedelta(microseconds=1) * 1000
        if name in self.told_at:
            assert self.now - self.told_at[name] >= interval
        self.shadow.told([name], self.now)
        self.said[name] = self.shadow.state[name].value
        self.told_at[name] = self.now

    @rule(seconds=st.integers(1, 30))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds * SECOND

    @rule()
    def what_is_due_is_told(self) -> None:
        for name, due in self.shadow.withheld(self.reporting.__getitem__).items():
            if due <= self.now:
                self.tells(name)

    @precondition(lambda self: self.shadow.state)
    @rule()
    def the_agent_starts_again(self) -> None:
        """What is stored comes back; what was only in memory does not, and boot time goes on."""
        self.shadow = Shadow(
            self.shadow.version,
            self.shadow.etag,
            {
                name: StateReading(
                    json.loads(json.dumps(held.value)), held.version, held.at, held.retained, held.told
                )
                for name, held in self.shadow.state.items()
            },
        )
        # The intervals count from the start.
        self.told_at.clear()

    @invariant()
    def versions_only_grow_and_none_is_ahead_of_the_devices(self) -> None:
        assert self.shadow.version >= self.version
        self.version = self.shadow.version
        for name, held in self.shadow.state.items():
            assert self.versions.get(name, 0) <= held.version <= self.shadow.version
            self.versions[name] = held.version
        held_versions = [held.version for held in self.shadow.state.values()]
        assert len(set(held_versions)) == len(held_versions)
        assert max(held_versions, default=0) == self.shadow.version

    @invariant()
    def every_change_is_told_or_waits_to_be(self) -> None:
        waiting = self.shadow.withheld(self.reporting.__getitem__)
        for name, held in self.shadow.state.items():
            assert name in waiting or self.said[name] == held.value


TestADeviceOverTime = DeviceOverTime.TestCase


def test_telemetry_has_no_version() -> None:
    shadow = empty()

    shadow.hear_telemetry(LEVEL, 20.5, ALWAYS, 0)

    assert shadow.version == 0
    assert shadow.state == {}


def test_the_etag_stands_for_the_values_and_not_for_their_order_or_history() -> None:
    one, other = empty(), empty()
    one.hear_state(POWER, value=False, reporting=ALWAYS, heard=live())
    for name, value in ((POWER, True), (LEVEL, 3)):
        one.hear_state(name, value, ALWAYS, live())
    for name, value in ((LEVEL, 3), (POWER, True)):
        other.hear_state(name, value, ALWAYS, live())
    one.seal()
    other.seal()

    assert one.etag == other.etag
    assert one.version == 3
    assert other.version == 2


@given(state=st.dictionaries(st.sampled_from([POWER, LEVEL, ReadingName("input")]), values, max_size=3))
def test_the_etag_is_the_same_after_a_way_through_json(state: dict[ReadingName, Value]) -> None:
    assert etag(json.loads(json.dumps(state))) == etag(state)
    assert len(etag(state)) == 16


@given(left=values, right=values)
def test_a_change_changes_the_etag(left: Value, right: Value) -> None:
    if differs(left, right, 0):
        assert etag({POWER: left}) != etag({POWER: right})


@pytest.mark.requirement("U7")
@pytest.mark.parametrize(
    ("held", "value", "deadband", "expected"),
    [
        pytest.param(20.0, 20.5, 0.5, False, id="on the edge of the deadband"),
        pytest.param(20.0, 20.6, 0.5, True, id="beyond the deadband"),
        pytest.param(1, 1.0, 0, False, id="one and 1.0"),
        pytest.param(True, 1, 0, True, id="true and one"),
        pytest.param(False, 0, 10, True, id="false and nought, whatever the deadband"),
        pytest.param("on", "on", 0, False, id="the same word"),
        pytest.param("on", "ON", 0, True, id="other case"),
        pytest.param("1", 1, 0, True, id="a word and a number"),
        pytest.param(2**63 - 1, 2**63 - 2, 0, True, id="large whole numbers"),
        pytest.param(0.0, -0.0, 0, False, id="both noughts"),
    ],
)
def test_what_counts_as_another_value(held: Value, value: Value, deadband: float, *, expected: bool) -> None:
    assert differs(held, value, deadband) is expected
    assert differs(value, held, deadband) is expected


@pytest.mark.requirement("U7")
def test_a_value_that_creeps_is_told_once_it_has_left_the_deadband() -> None:
    """Compared with what is held, not with what was heard last."""
    shadow = empty()
    told = [shadow.hear_telemetry(LEVEL, 20 + step / 10, Rule(deadband=0.5), step) for step in range(12)]

    assert told.count(Telling.NOW) == 2
    assert told[6] is Telling.NOW


@pytest.mark.requirement("U7")
def test_a_state_that_flaps_is_told_once_as_it_then_is_with_the_count_of_what_was_not() -> None:
    shadow = empty()
    assert shadow.hear_state(POWER, value=True, reporting=SLOW, heard=live(0)) is Telling.NOW
    shadow.told([POWER], 0)

    telling = [
        shadow.hear_state(POWER, value=value, reporting=SLOW, heard=live(second))
        for second, value in ((1, False), (2, True), (3, False))
    ]
    due = shadow.withheld(lambda _: SLOW)
    coalesced = shadow.told([POWER], 10 * SECOND)

    assert telling == [Telling.LATER] * 3
    assert due == {POWER: 10 * SECOND}
    assert coalesced == 2
    assert shadow.state[POWER].value is False
    assert shadow.version == 4


@pytest.mark.requirement("U7", "Q9")
def test_an_unchanged_value_is_told_again_only_after_the_longest_interval() -> None:
    shadow = empty()
    shadow.hear_state(POWER, value=True, reporting=SLOW, heard=live(0))
    shadow.told([POWER], 0)

    soon = shadow.hear_state(POWER, value=True, reporting=SLOW, heard=live(59))
    late = shadow.hear_state(POWER, value=True, reporting=SLOW, heard=live(60))

    assert soon is Telling.NOTHING
    assert late is Telling.NOW
    assert shadow.version == 1


@pytest.mark.requirement("U7")
def test_withheld_telemetry_that_goes_back_to_what_was_told_is_not_told() -> None:
    shadow = empty()
    shadow.hear_telemetry(LEVEL, 20, SLOW, 0)

    away = shadow.hear_telemetry(LEVEL, 30, SLOW, 1 * SECOND)
    back = shadow.hear_telemetry(LEVEL, 20, SLOW, 2 * SECOND)

    assert away is Telling.LATER
    assert back is Telling.NOTHING
    assert shadow.withheld(lambda _: SLOW) == {}


@pytest.mark.requirement("U7")
def test_withheld_telemetry_is_told_when_its_interval_is_over_as_it_was_last() -> None:
    shadow = empty()
    shadow.hear_telemetry(LEVEL, 20, SLOW, 0)
    shadow.hear_telemetry(LEVEL, 30, SLOW, 1 * SECOND)
    shadow.hear_telemetry(LEVEL, 40, SLOW, 2 * SECOND)

    due = shadow.withheld(lambda _: SLOW)
    released = shadow.release_telemetry(LEVEL, 10 * SECOND)

    assert due == {LEVEL: 10 * SECOND}
    assert released == 40
    assert shadow.withheld(lambda _: SLOW) == {}
    assert shadow.hear_telemetry(LEVEL, 40, SLOW, 11 * SECOND) is Telling.NOTHING


@pytest.mark.requirement("M2")
def test_only_a_live_message_makes_a_reading_live_and_lost_touch_ends_it() -> None:
    shadow = empty()

    shadow.hear_state(POWER, value=True, reporting=ALWAYS, heard=retained(1))
    from_the_broker = shadow.state[POWER].live_at, shadow.state[POWER].retained
    shadow.hear_state(POWER, value=True, reporting=ALWAYS, heard=live(2))
    from_the_device = shadow.state[POWER].live_at, shadow.state[POWER].retained
    shadow.lose_touch()

    assert from_the_broker == (None, True)
    assert from_the_device == (2 * SECOND, False)
    assert shadow.state[POWER].live_at is None


def test_a_retained_copy_of_a_known_value_does_not_make_it_a_guess() -> None:
    shadow = empty()
    shadow.hear_state(POWER, value=True, reporting=ALWAYS, heard=live(1))

    shadow.hear_state(POWER, value=True, reporting=ALWAYS, heard=retained(2))

    assert not shadow.state[POWER].retained
    assert shadow.state[POWER].live_at == 1 * SECOND
    assert shadow.version == 1


def test_a_copy_is_the_same_and_stays_so_whatever_is_heard_afterwards() -> None:
    shadow = empty()
    shadow.hear_state(POWER, value=True, reporting=ALWAYS, heard=live(1))
    shadow.hear_telemetry(LEVEL, 10, SLOW, 1 * SECOND)
    shadow.seal()

    copied = shadow.copied()
    before = deepcopy(shadow)
    shadow.hear_state(POWER, value=False, reporting=ALWAYS, heard=live(2))
    shadow.hear_state(LEVEL, value=3, reporting=ALWAYS, heard=live(2))
    shadow.hear_telemetry(LEVEL, 20, SLOW, 2 * SECOND)
    shadow.lose_touch()
    shadow.seal()

    assert copied == before
    assert copied != shadow


def test_a_copy_leaves_out_nothing_that_is_known_of_a_reading() -> None:
    shadow = empty()
    shadow.hear_state(POWER, value=True, reporting=ALWAYS, heard=live(1))
    shadow.hear_telemetry(LEVEL, 10, SLOW, 1 * SECOND)
    for reading in (shadow.state[POWER], shadow.telemetry[LEVEL]):
        for number, field in enumerate(dataclasses.fields(reading)):
            setattr(reading, field.name, 100 + number)

    assert shadow.copied() == shadow
