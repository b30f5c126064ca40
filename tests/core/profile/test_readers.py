"""From raw values to readings: every family's way of writing, and nothing that only looks like it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.contracts.door import ReadingValue, Unusable
from edgeagent.contracts.sources import ReadingKind
from edgeagent.core.profile.readers import (
    NOTHING,
    UNUSABLE,
    Outcome,
    Rule,
    clean,
    color,
    plain_number,
    reader,
)
from edgeagent.core.profile.units import Scale, converter
from edgeagent.errors import MalformedError

pytestmark = pytest.mark.requirement("M1", "M6")

NUMBER, INTEGER = Rule(kind=ReadingKind.NUMBER, low=-50, high=150), Rule(kind=ReadingKind.INTEGER)
TEXT, BOOLEAN = Rule(kind=ReadingKind.TEXT, longest=8), Rule(kind=ReadingKind.BOOLEAN)
WORDS = Rule(kind=ReadingKind.BOOLEAN, words=(("ON", True), ("OFF", False), ("1", True)))
OTHERS = Rule(kind=ReadingKind.BOOLEAN, words=(("standby", False), ("*", True)))
NUMERIC_TEXT = Rule(kind=ReadingKind.NUMBER, numeric_text=True)
MIRED = Rule(kind=ReadingKind.INTEGER, low=1900, high=6600, unit="mired", target="K")
SENTINEL = Rule(kind=ReadingKind.NUMBER, unknown=(999, "n/a"))


@pytest.mark.parametrize(
    ("rule", "raw", "expected"),
    [
        pytest.param(NUMBER, 21.5, 21.5, id="number"),
        pytest.param(NUMBER, 21, 21, id="whole number"),
        pytest.param(NUMBER, 151, UNUSABLE, id="out of range"),
        pytest.param(NUMBER, "21.5", UNUSABLE, id="number in text, not allowed"),
        pytest.param(NUMBER, True, UNUSABLE, id="truth for a number"),
        pytest.param(NUMBER, Unusable.NUMBER, UNUSABLE, id="NaN"),
        pytest.param(NUMBER, None, NOTHING, id="null"),
        pytest.param(NUMBER, [1, 2], NOTHING, id="list for a number"),
        pytest.param(NUMBER, {"a": 1}, NOTHING, id="object for a number"),
        pytest.param(NUMERIC_TEXT, "21.5", 21.5, id="number in text, allowed"),
        pytest.param(NUMERIC_TEXT, "21,5", UNUSABLE, id="decimal comma"),
        pytest.param(INTEGER, 4, 4, id="integer"),
        pytest.param(INTEGER, 4.0, 4, id="whole float"),
        pytest.param(INTEGER, 4.5, UNUSABLE, id="half an integer"),
        pytest.param(MIRED, 370, 2703, id="mired"),
        pytest.param(MIRED, 0, UNUSABLE, id="no mired"),
        pytest.param(BOOLEAN, True, True, id="truth"),
        pytest.param(BOOLEAN, 1, UNUSABLE, id="1 is no truth"),
        pytest.param(BOOLEAN, "false", UNUSABLE, id="word for a truth"),
        pytest.param(WORDS, "ON", True, id="word"),
        pytest.param(WORDS, 1, True, id="number as word"),
        pytest.param(WORDS, "on", UNUSABLE, id="word in another case"),
        pytest.param(WORDS, True, UNUSABLE, id="truth where words are"),
        pytest.param(OTHERS, "app", True, id="any other word"),
        pytest.param(OTHERS, "standby", False, id="the one word"),
        pytest.param(TEXT, "HDMI1", "HDMI1", id="text"),
        pytest.param(TEXT, 3, "3", id="id that is a number"),
        pytest.param(TEXT, 3.5, UNUSABLE, id="fraction for a text"),
        pytest.param(TEXT, "Acme\0\0", "Acme", id="NULs"),
        pytest.param(TEXT, "\x1b[31mred", "[31mred", id="escape sequence"),
        pytest.param(TEXT, "x" * 20, "x" * 8, id="too long"),
        pytest.param(SENTINEL, 999, NOTHING, id="sentinel"),
        pytest.param(SENTINEL, 999.0, NOTHING, id="sentinel as float"),
        pytest.param(SENTINEL, "n/a", NOTHING, id="sentinel word"),
        pytest.param(SENTINEL, 998, 998, id="beside the sentinel"),
        pytest.param(SENTINEL, [999], NOTHING, id="list with a sentinel"),
    ],
)
def test_a_raw_value_becomes_a_reading_or_is_told_why_not(
    rule: Rule, raw: ReadingValue, expected: object
) -> None:
    found = reader(rule)(raw)

    assert found == expected
    assert type(found) is type(expected)


def test_a_word_to_be_ignored_leaves_no_trace_and_one_to_be_kept_is_read_as_it_is() -> None:
    ignoring = reader(Rule(kind=ReadingKind.BOOLEAN, words=(("on", True),), others="ignore"))
    keeping = reader(Rule(kind=ReadingKind.TEXT, words=(("1", "HDMI 1"),), others="keep"))

    assert ignoring("overpower") is NOTHING
    assert keeping("1") == "HDMI 1"
    assert keeping("2") == "2"


def test_an_empty_text_is_a_text_and_no_happening() -> None:
    assert reader(Rule(kind=ReadingKind.TEXT))("") == ""
    assert reader(Rule(kind=ReadingKind.TEXT, event=True))("") is NOTHING


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("FF0000", "#FF0000"),
        ("#ff8000", "#FF8000"),
        ("FF000000FF", "#FF0000"),
        ("255,128,0", "#FF8000"),
        ("255,128,0,0,0", "#FF8000"),
        ([255, 128, 0], "#FF8000"),
        ([255, 128], None),
        ([255, 128, 256], None),
        ([255, 128, True], None),
        ("red", None),
        ("FF00", None),
        ("256,0,0", None),
        ("1,2", None),
        (5, None),
    ],
)
def test_a_colour_is_read_however_it_is_written(raw: ReadingValue, expected: str | None) -> None:
    assert color(raw) == expected


@pytest.mark.parametrize(
    "text", ["23,5", "1_000", "0x17", "٢٣", "nan", "inf", "1e999", "", " 1", "+1", ".5", "1."]
)
def test_only_a_plain_decimal_is_a_number(text: str) -> None:
    assert plain_number(text) is None


@given(st.integers(-(10**17), 10**17).map(str) | st.floats(-1e15, 1e15).map("{:.6f}".format))
def test_a_plain_decimal_is_the_number_that_it_writes(text: str) -> None:
    assert plain_number(text) == (float(text) if "." in text else int(text))


@given(st.text(max_size=40))
def test_no_text_makes_a_number_that_is_none(text: str) -> None:
    found = plain_number(text)

    assert found is None or math.isfinite(found)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(Unusable.NUMBER),
    lambda child: st.lists(child, max_size=3) | st.dictionaries(st.text(), child, max_size=3),
    max_leaves=6,
)


@given(
    json_values,
    st.sampled_from([NUMBER, INTEGER, TEXT, BOOLEAN, WORDS, OTHERS, NUMERIC_TEXT, MIRED, SENTINEL]),
)
def test_whatever_is_sent_becomes_a_value_of_the_kind_or_none(raw: ReadingValue, rule: Rule) -> None:
    found = reader(rule)(raw)

    if isinstance(found, Outcome):
        return
    kinds = {ReadingKind.BOOLEAN: bool, ReadingKind.INTEGER: int, ReadingKind.TEXT: str}
    assert isinstance(found, kinds.get(rule.kind, int | float))
    if rule.kind in {ReadingKind.NUMBER, ReadingKind.INTEGER}:
        assert isinstance(found, int | float)
        assert rule.low <= found <= rule.high
    if isinstance(found, str):
        assert found.isprintable()


@pytest.mark.requirement("V5")
@given(st.text(), st.integers(1, 40))
def test_a_cleaned_text_is_printable_and_no_longer_than_allowed(text: str, longest: int) -> None:
    found = clean(text, longest)

    assert len(found) <= longest
    assert found.isprintable()


@pytest.mark.parametrize(
    ("value", "source", "target", "expected"),
    [
        (72.5, "°F", "°C", 22.5),
        (0, "K", "°C", -273.15),
        (1234.5, "Wh", "kWh", 1.2345),
        (60, "Wmin", "kWh", 0.001),
        (760, "mmHg", "hPa", 1013.250144),
        (29.92, "inHg", "hPa", 1013.207481),
        (153, "mired", "K", 6535.947712),
        (2700, "K", "mired", 370.37037),
        (90, "min", "h", 1.5),
    ],
)
def test_units_become_each_other(value: float, source: str, target: str, expected: float) -> None:
    convert = converter(source, target)

    assert convert is not None
    assert convert(value) == expected


def test_units_that_measure_different_things_do_not() -> None:
    assert converter("W", "W") is None
    for source, target in (("W", "kWh"), ("°C", "mired"), ("lx", "W"), ("x", "y")):
        with pytest.raises(MalformedError):
            converter(source, target)


@given(st.floats(-1e6, 1e6), st.floats(0.01, 100), st.floats(-100, 100))
def test_a_scale_goes_back_the_way_it_came(value: float, factor: float, offset: float) -> None:
    scale = Scale(factor, offset)

    assert scale.back(scale.forth(value)) == pytest.approx(value, abs=1e-3)
