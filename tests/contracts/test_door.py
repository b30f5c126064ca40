"""The JSON door: what passes means the same to everybody behind it."""

import json
import math
from collections.abc import Callable
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, JsonValue

from edgeagent.contracts.door import DEPTH, Contract, Unusable, decode, encode, parse, parse_readings
from edgeagent.errors import MalformedError

pytestmark = pytest.mark.requirement("M6")

LIMIT = 64 * 1024

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=15,
)


def depth_of(value: JsonValue) -> int:
    """How many arrays and objects stand around the innermost value."""
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


def same(left: object, right: object) -> bool:
    """Equal in type too, since True is not 1, and 0.0 not 0."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


@given(value=documents, ascii_only=st.booleans(), indent=st.none() | st.integers(0, 3))
def test_whatever_json_can_say_within_bounds_passes_unchanged(
    value: JsonValue, *, ascii_only: bool, indent: int | None
) -> None:
    raw = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "surrogatepass")

    if depth_of(value) > DEPTH:
        with pytest.raises(MalformedError):
            parse(raw, limit=LIMIT)
    else:
        assert same(parse(raw, limit=LIMIT), value)
        assert same(parse_readings(raw, limit=LIMIT), value)


@given(raw=st.binary() | st.text('{}[]",:\\u0dDeE+-.19 \n').map(str.encode))
def test_any_bytes_are_a_value_that_others_read_alike_or_are_refused(raw: bytes) -> None:
    try:
        value = parse(raw, limit=LIMIT)
    except MalformedError:
        return

    assert same(value, json.loads(raw.decode()))
    assert same(parse(json.dumps(value).encode(), limit=LIMIT), value)


@given(raw=st.binary() | st.text('{}[]",:\\u0dDeE+-.19NaInfity \n').map(str.encode))
def test_any_bytes_of_a_device_are_readings_or_are_refused(raw: bytes) -> None:
    try:
        parse_readings(raw, limit=LIMIT)
    except MalformedError:
        return

    assert raw.decode().encode() == raw


@pytest.mark.parametrize("read", [parse, parse_readings])
@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b" ", id="a space"),
        pytest.param(b"\xef\xbb\xbf{}", id="a byte order mark"),
        pytest.param('{"a":1}'.encode("utf-16"), id="UTF-16"),
        pytest.param(b'{"a":"\xff"}', id="not UTF-8"),
        pytest.param(b'{"a":"\xed\xa0\x80"}', id="a surrogate as UTF-8"),
        pytest.param(b'{"a":"\xc0\x80"}', id="NUL in two bytes"),
        pytest.param(rb'{"a":"\ud800"}', id="half a pair"),
        pytest.param(rb'{"\udc00":1}', id="half a pair in a key"),
        pytest.param(b'{"a":1,"a":2}', id="a key twice"),
        pytest.param(rb'{"a":1,"\u0061":2}', id="a key twice, once escaped"),
        pytest.param(b'[{"b":{"a":1,"a":1}}]', id="a key twice, deep inside"),
        pytest.param(b"{'a':1}", id="other quotes"),
        pytest.param(b'{"a":1,}', id="a comma too many"),
        pytest.param(b'{"a":1} {}', id="two documents"),
        pytest.param(b'{"a":1', id="cut"),
        pytest.param(b'{"a":"b', id="cut in a string"),
        pytest.param(b'{"a":01}', id="a leading zero"),
        pytest.param(b'{"a":1.}', id="a point without digits"),
        pytest.param(b'{"a":0x10}', id="hexadecimal"),
        pytest.param(b'{"a":"\x00"}', id="NUL in a string"),
        pytest.param(b'{"a":1}\x00', id="NUL after it"),
        pytest.param(b"[" * 17 + b"]" * 17, id="one level too deep"),
        pytest.param(b'{"a":' * 5000 + b"1" + b"}" * 5000, id="5,000 levels"),
        pytest.param(b"[" * 60_000, id="60,000 levels that never end"),
        pytest.param(b"]" * 100 + b"[" * 100, id="closed before it is opened"),
        pytest.param(b'"' + b"[" * 100, id="brackets in a string without end"),
    ],
)
def test_what_parsers_disagree_about_is_refused(read: Callable[..., object], raw: bytes) -> None:
    with pytest.raises(MalformedError):
        read(raw, limit=LIMIT)


@pytest.mark.parametrize(
    "number",
    [
        pytest.param("NaN", id="not a number"),
        pytest.param("Infinity", id="infinity"),
        pytest.param("-Infinity", id="minus infinity"),
        pytest.param("1e400", id="beyond a double"),
        pytest.param("-1e400", id="beyond a double, below zero"),
        pytest.param("1e-400", id="not to be told from zero"),
        pytest.param("9223372036854775808", id="one beyond 64 bits"),
        pytest.param("-9223372036854775809", id="one below 64 bits"),
        pytest.param("1" * 5000, id="5,000 digits"),
        pytest.param("0." + "0" * 400 + "1", id="a one after 400 zeros"),
    ],
)
def test_a_number_that_nobody_could_keep_is_refused_and_of_a_device_left_out(number: str) -> None:
    raw = f'{{"broken":{number},"whole":21.5}}'.encode()

    with pytest.raises(MalformedError):
        parse(raw, limit=LIMIT)

    assert parse_readings(raw, limit=LIMIT) == {"broken": Unusable.NUMBER, "whole": 21.5}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("-0", 0),
        ("-0.0", -0.0),
        ("0e99", 0.0),
        ("0.000E-999", 0.0),
        ("5e-324", 5e-324),
        ("1.7976931348623157e308", 1.7976931348623157e308),
    ],
)
def test_numbers_at_the_edge_pass(text: str, value: float) -> None:
    found = parse(text.encode(), limit=LIMIT)

    assert same(found, value)
    assert isinstance(found, int | float)
    assert math.copysign(1, found) == math.copysign(1, value)


def test_sixteen_levels_pass_and_brackets_in_strings_are_no_levels() -> None:
    deepest = b"[" * DEPTH + rb'"[[[[{{{{\"[[["' + b"]" * DEPTH

    assert depth_of(parse(deepest, limit=LIMIT)) == DEPTH


def test_the_size_is_looked_at_before_anything_else() -> None:
    assert parse(b"[1]", limit=3) == [1]

    with pytest.raises(MalformedError, match="4 bytes, of which 3 are allowed"):
        parse(b"\xff\xff\xff\xff", limit=3)


class Setting(Contract):
    """A contract with a field of each kind."""

    name: str
    level: Annotated[int, Field(ge=0, le=10)]
    factor: float = 1.0
    marks: list[bool] = Field(default_factory=list)


@pytest.mark.requirement("V1")
@given(
    name=st.text(st.characters(exclude_categories=["Cs"])),
    level=st.integers(0, 10),
    factor=st.floats(allow_nan=False, allow_infinity=False),
    marks=st.lists(st.booleans()),
)
def test_a_contract_comes_back_as_it_was_written(
    name: str, level: int, factor: float, marks: list[bool]
) -> None:
    setting = Setting(name=name, level=level, factor=factor, marks=marks)

    assert decode(Setting, encode(setting), limit=1024 * 1024) == setting


@pytest.mark.requirement("V1")
@pytest.mark.parametrize(
    ("raw", "place"),
    [
        pytest.param(b'{"name":"a","level":1,"script":"x"}', "script", id="an unknown field"),
        pytest.param(b'{"level":1}', "name", id="a missing field"),
        pytest.param(b'{"name":1,"level":1}', "name", id="a number for a text"),
        pytest.param(b'{"name":"a","level":"1"}', "level", id="a text for a number"),
        pytest.param(b'{"name":"a","level":true}', "level", id="a truth for a number"),
        pytest.param(b'{"name":"a","level":1.0}', "level", id="a fraction for a whole number"),
        pytest.param(b'{"name":"a","level":11}', "level", id="out of range"),
        pytest.param(b'{"name":"a","level":1,"marks":[1]}', "marks.0", id="inside a list"),
        pytest.param(b"[]", "value", id="no object"),
        pytest.param(b"null", "value", id="null"),
    ],
)
def test_what_a_contract_does_not_list_is_refused_by_its_place(raw: bytes, place: str) -> None:
    with pytest.raises(MalformedError, match=rf"^{place}: "):
        decode(Setting, raw, limit=LIMIT)


@pytest.mark.requirement("A2")
def test_a_refusal_does_not_repeat_what_it_refuses() -> None:
    raw = b'{"name":["hunter2"],"level":"hunter2","password":"hunter2"}'

    with pytest.raises(MalformedError) as refusal:
        decode(Setting, raw, limit=LIMIT)

    assert "hunter2" not in str(refusal.value)


def test_a_refusal_names_a_few_faults_however_many_there_are() -> None:
    raw = json.dumps({f"field{number}": 1 for number in range(1000)}).encode()

    with pytest.raises(MalformedError) as refusal:
        decode(Setting, raw, limit=LIMIT)

    assert len(str(refusal.value)) < 400
    assert str(refusal.value).endswith("(+998 more)")


@pytest.mark.requirement("V5")
def test_a_refusal_is_one_short_line_whatever_the_unknown_field_is_called() -> None:
    raw = json.dumps({"name": "a", "level": 1, "\x1b[2J\n" + "x" * 10_000: 1}).encode()

    with pytest.raises(MalformedError) as refusal:
        decode(Setting, raw, limit=LIMIT)

    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) < 120


def test_what_passed_the_door_cannot_be_changed() -> None:
    setting = decode(Setting, b'{"name":"a","level":1}', limit=LIMIT)

    with pytest.raises(ValueError, match="frozen"):
        setting.level = 2  # type: ignore[misc]  # what mypy forbids is what is tried
