"""Ids by their beginning: which one is meant, and how short they may be printed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.core.short_names import LEAST, MOST, meant, shortened, upper_end
from edgeagent.errors import AmbiguousError

ids = st.text("abAB01_-", min_size=1, max_size=20)


@given(st.sets(ids), ids)
def test_what_is_meant_is_what_begins_so_or_what_was_typed(known: set[str], typed: str) -> None:
    begin_so = sorted(name for name in known if name.startswith(typed))

    try:
        name = meant(typed, begin_so)
    except AmbiguousError:
        assert begin_so
        assert len(begin_so) > 1 or len(typed) < LEAST
        assert typed not in known
        return

    assert name.startswith(typed)
    assert name == typed or begin_so == [name]
    assert (name == typed) or len(typed) >= LEAST


def test_a_whole_id_is_meant_also_where_a_longer_one_begins_so() -> None:
    assert meant("lamp-1", ["lamp-1", "lamp-10"]) == "lamp-1"


def test_a_beginning_of_few_characters_is_nobodys_name() -> None:
    assert meant("lam", []) == "lam"
    with pytest.raises(AmbiguousError, match="lam is too little of an id"):
        meant("lam", ["lamp-1"])


@pytest.mark.parametrize(
    ("number", "end"),
    [
        pytest.param(2, "lamp-000, lamp-001", id="few are all told"),
        pytest.param(5, "lamp-004", id="five too"),
        pytest.param(7, "lamp-004 and 2 more", id="of many some"),
        pytest.param(MOST + 1, f"and at least {MOST - 4} more", id="no more are counted than are looked at"),
    ],
)
def test_of_several_some_are_told(number: int, end: str) -> None:
    with pytest.raises(AmbiguousError, match="lamp is the beginning of several: ") as told:
        meant("lamp", [f"lamp-{place:03}" for place in range(number)])

    assert str(told.value).endswith(end)


@given(st.sets(ids), ids)
def test_all_ids_that_begin_so_lie_below_its_upper_end(known: set[str], typed: str) -> None:
    assert {name for name in known if typed <= name < upper_end(typed)} == {
        name for name in known if name.startswith(typed)
    }


@given(st.sets(ids))
def test_what_is_printed_short_names_one_of_the_list(known: set[str]) -> None:
    for name, short in shortened(known).items():
        assert meant(short, sorted(each for each in known if each.startswith(short))) == name


def test_ids_are_no_shorter_than_needed_to_be_no_other_one_of_the_hub() -> None:
    one, other = "local-3fa2c19b0011", "local-3fa2c19b7722"

    assert shortened([one, other]) == {one: "local-3fa2c19b0", other: "local-3fa2c19b7"}
    assert shortened([one]) == {one: "local-3fa2c1"}
    assert shortened(["tv-1"]) == {"tv-1": "tv-1"}
