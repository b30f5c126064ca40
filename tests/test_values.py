"""Classes of values that are quick to make are what the standard library would have made."""

import copy
import dataclasses
import pickle
import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, replace
from pathlib import Path
from typing import Final

import pytest
from typing_extensions import override

from edgeagent import values


def lamp(dataclass: Callable[..., Callable[[type], type]], **said: bool) -> type:
    """A class with a default of each kind, made by one of the two."""

    class Lamp:
        """A lamp."""

        name: str
        watts: float = 4.5
        rooms: list[str] = field(default_factory=list)
        secret: str = field(default="none", repr=False)
        seen: int = field(default=0, compare=False)

    Lamp.__qualname__ = "Lamp"
    return dataclass(**{"slots": True, **said})(Lamp)


KINDS: Final[tuple[dict[str, bool], ...]] = (
    {"frozen": True},
    {"frozen": True, "kw_only": True},
    {},
    {"eq": False},
)
OURS: Final = values._values
THEIRS: Final = dataclasses.dataclass
NAN: Final = float("nan")


@pytest.mark.parametrize("said", KINDS)
@pytest.mark.parametrize(
    "named", [{"name": "hall"}, {"name": "hall", "watts": 9, "rooms": ["a"], "secret": "s", "seen": 3}]
)
def test_a_value_holds_tells_and_compares_what_the_standard_librarys_does(
    said: dict[str, bool], named: dict[str, object]
) -> None:
    ours, theirs = lamp(OURS, **said), lamp(THEIRS, **said)
    mine, other = ours(**named), theirs(**named)

    assert dataclasses.asdict(mine) == dataclasses.asdict(other)
    assert repr(mine) == repr(other)
    assert (mine == ours(**named)) is (other == theirs(**named))
    assert mine != ours(**{**named, "name": "attic"})
    assert (mine == ours(**{**named, "seen": 9})) is (other == theirs(**{**named, "seen": 9}))
    assert mine != other, "of another class"
    assert (ours.__hash__ is None) is (theirs.__hash__ is None)
    assert [each.name for each in fields(ours)] == [each.name for each in fields(theirs)]


def test_what_is_made_anew_is_each_values_own() -> None:
    kind = lamp(OURS, frozen=True)

    first, second = kind("hall"), kind("hall")

    assert first.rooms == second.rooms == []
    assert first.rooms is not second.rooms


@pytest.mark.parametrize("wrong", [((), {}), (("hall",), {"volts": 1}), ((1, 2, 3, 4, 5, 6), {})])
def test_whoever_says_too_little_or_too_much_is_told_as_the_standard_library_tells_it(
    wrong: tuple[tuple[object, ...], dict[str, object]],
) -> None:
    said = []
    for maker in (OURS, THEIRS):
        with pytest.raises(TypeError) as why:
            lamp(maker, frozen=True)(*wrong[0], **wrong[1])
        said.append(str(why.value).replace("lamp.<locals>.", ""))

    assert said[0] == said[1]


@values.dataclass(frozen=True, slots=True)
class Place:
    """Somewhere."""

    x: float
    y: float = 0.0


@values.dataclass(frozen=True, slots=True)
class Named(Place):
    """Somewhere with a name; never the empty one."""

    name: str = "here"

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("no name")


@values.dataclass(frozen=True, slots=True)
class Odd:
    """Whose fields are called as a class may be made of."""

    set: int = 1
    anew: int = 2
    init: list[int] = field(default_factory=list)


@values.dataclass(frozen=True, slots=True)
class Nothing:
    """No fields at all."""


@values.dataclass(frozen=True, slots=True)
class Unseen:
    """Tells nothing of itself."""

    secret: str

    @override
    def __repr__(self) -> str:
        return "Unseen"


@values.dataclass(frozen=True, slots=True, order=True)
class Row:
    """One of those that have an order."""

    number: int


def test_a_frozen_value_stays_as_it_is() -> None:
    place = Named(1.0, 2.0, "there")

    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        place.x = 3.0  # type: ignore[misc] # that is refused is what is tested
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'name'"):
        del place.name
    with pytest.raises(AttributeError):
        place.z = 3.0  # type: ignore[attr-defined] # as above

    assert place == Named(1.0, 2.0, "there")


def test_values_with_fields_of_their_parent_one_field_or_none_compare_by_all_of_them() -> None:
    assert Named(1.0) == Named(1.0, 0.0, "here") != Named(1.0, 0.0, "there")
    assert Place(1.0) != Named(1.0), "of another class"
    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(Nothing())
    assert len({Named(1.0), Named(1.0), Named(2.0), Place(1.0)}) == 3
    assert Unseen("a") != Unseen("b")
    assert Place(NAN) == Place(NAN), "the same one, as in a tuple"
    assert Row(1) < Row(2)
    assert Odd() == Odd(1, 2, [])


def test_what_the_class_says_itself_is_kept() -> None:
    assert repr(Unseen("key")) == "Unseen"
    with pytest.raises(ValueError, match="no name"):
        Named(1.0, name="")


def test_a_value_can_be_replaced_matched_and_copied() -> None:
    place = Named(1.0, 2.0, "there")

    match place:
        case Named(x, y, name):
            assert (x, y, name) == (1.0, 2.0, "there")

    assert replace(place, x=5.0) == Named(5.0, 2.0, "there")
    assert copy.deepcopy(place) == place
    assert pickle.loads(pickle.dumps(place)) == place  # noqa: S301 - our own bytes


def test_the_agent_makes_all_its_classes_of_values_this_way() -> None:
    package = Path(values.__file__).parent
    wrong = re.compile(r"^from dataclasses import .*\bdataclass\b", re.MULTILINE)

    found = [path for path in package.rglob("*.py") if wrong.search(path.read_text("utf-8"))]

    assert found == []
