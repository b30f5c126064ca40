"""Paths and predicates: what they find, what they ask, and what they refuse to be."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.contracts.door import ReadingValue, Unusable
from edgeagent.core.profile.paths import Missing, getter, path, same
from edgeagent.core.profile.predicates import predicate
from edgeagent.errors import MalformedError

pytestmark = pytest.mark.requirement("M1")

DOCUMENT: ReadingValue = {
    "a": {"b": [1, {"x y": True}]},
    "switch:0": {"output": False},
    "none": None,
    "n": 5,
    "f": 5.0,
    "text": "Successful. Restarting",
    "list": ["x", 1],
    "odd": Unusable.NUMBER,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$", DOCUMENT),
        ("$.n", 5),
        ("$.a.b[0]", 1),
        ("$.a.b[1]['x y']", True),
        ("$['switch:{id}'].output", False),
        ("$.none", None),
        ("$.a.b[2]", Missing.MISSING),
        ("$.a[0]", Missing.MISSING),
        ("$.n.deeper", Missing.MISSING),
        ("$.b", Missing.MISSING),
    ],
)
def test_a_path_finds_its_place_or_nothing(text: str, expected: object) -> None:
    assert getter(path(text).bind({"id": 0}))(DOCUMENT) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "$a",
        "$.",
        "$..a",
        "$.a b",
        "$[a]",
        "$['a]",
        "$[-1]",
        "$[1000]",
        "$.a[*]",
        "$.{Id}",
        "$.{",
        "$.a.b.c.d.e.f.g.h.i",
    ],
)
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(MalformedError):
        path(text)


@pytest.mark.requirement("V5")
@given(st.text(max_size=20))
def test_a_value_in_a_key_stays_within_that_key(value: str) -> None:
    found = path("$.params['switch:{id}'].output").bind({"id": value})

    assert found.steps == ("params", f"switch:{value}", "output")


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("$.n == 5", True),
        ("$.f == 5", True),
        ("$.n == 5.0", True),
        ("$.n == '5'", False),
        ("$.a.b[0] == true", False),
        ("$.a.b[1]['x y'] == true", True),
        ("$.a.b[1]['x y'] == 1", False),
        ("$.none == null", True),
        ("$.n == {wanted}", True),
        ("$.n != 6", True),
        ("$.absent != 6", False),
        ("$.n < 6", True),
        ("$.n > 5", False),
        ("$.n > {low}", True),
        ("$.text < 6", False),
        ("$.a.b[1]['x y'] > 0", False),
        ("$.n in [4, 5]", True),
        ("$.n in ['4', '5']", False),
        ("$.absent in [null]", False),
        ("$.text contains 'Restart'", True),
        ("$.list contains 'x'", True),
        ("$.list contains 1", True),
        ("$.list contains true", False),
        ("$.n contains 5", False),
        ("$.text startswith 'Successful'", True),
        ("$.text startswith 'estart'", False),
        ("$.text startswith 'Success{tail}'", True),
        ("$.n startswith '5'", False),
        ("$.none exists", True),
        ("$.b exists", False),
        ("$.b absent", True),
        ("$.none absent", False),
        ("$.odd == 5", False),
        ("$ exists", True),
    ],
)
def test_a_predicate_asks_what_it_says(text: str, holds: bool) -> None:  # noqa: FBT001 - a table's outcome
    asks = predicate(text).bind({"wanted": 5, "low": 4, "tail": "ful"})

    assert asks(DOCUMENT) is holds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "$.a",
        "$.a =",
        "$.a = 1",
        "$.a ==",
        "$.a==1",
        "$.a == x",
        "$.a == 'x",
        "$.a == 'x' or $.b == 'y'",
        "$.a in 'x'",
        "$.a in []",
        "$.a in ['x',]",
        "$.a in ['x' 'y']",
        "$.a < 'x'",
        "$.a exists 1",
        "$.* == 1",
        "$.a matches '.*'",
        "$.a == 1 + 1",
        "__import__('os') == 1",
    ],
)
def test_what_is_no_predicate_is_refused(text: str) -> None:
    with pytest.raises(MalformedError):
        predicate(text)


@pytest.mark.requirement("V5")
@given(st.text(max_size=20))
def test_a_value_in_a_predicate_is_compared_and_never_read(value: str) -> None:
    asks = predicate("$.src == {device}").bind({"device": value})

    assert asks({"src": value})
    assert not asks({"src": value + "x"})


@pytest.mark.requirement("M6")
@given(st.text(max_size=60))
def test_no_text_does_more_than_be_refused(text: str) -> None:
    for read in (path, predicate):
        with suppress(MalformedError):
            read(text)


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [(True, 1, False), (0, False, False), (1, 1.0, True), ("1", 1, False), (None, None, True)],
)
def test_truth_is_no_number(left: object, right: object, equal: bool) -> None:  # noqa: FBT001 - a table's outcome
    assert same(left, right) is equal


def test_a_text_with_a_quote_in_it_stands_in_the_other_kind() -> None:
    asks = predicate("$.said contains \"to '{name}' failed\"").bind({"name": "lamp"})

    assert asks({"said": "Publish 'set' to 'lamp' failed: no route"})
    assert not asks({"said": "Publish 'set' to 'lamp 2' failed: no route"})
    assert predicate("$.a in [\"it's\", 'b']").bind({})({"a": "it's"})
    for text in ('$.a == "x', "$.a == \"x'", '$.a == "x" "y"', "$.a in [\"x\" 'y']"):
        with pytest.raises(MalformedError):
            predicate(text)
