"""Which of two versions of firmware is the later, for the shapes that real devices have.

    dotted      14.1.0(release-tasmota)   v1.14.0-gcb84623   1.4.0-beta2     numbers, stage, build
    dated       20240213-140411/1.2.2-gabc1234                               numbers, stage, date, build
    whole       192                                                          of Zigbee images: one number

Numbers come first; a version before its release (alpha, beta, rc) comes before it; then the date of the
build. A build (``tasmota``, ``minimal``, a commit) has no order: two of one number are not comparable, and
one that names none is the same as any of its number; ``release-tasmota`` is ``tasmota``. Shapes are not
compared with each other, but for a dated version with a plain one of the same family. What has another
shape equals itself; nothing is guessed.

This is the only order of versions: the catalogue, the gate, and whoever asks what a device runs go by it.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from edgeagent.contracts.firmware import VersionScheme
from edgeagent.values import dataclass

VERSION_SIGNS: Final = 64
"""The longest version that is looked at."""

_WHOLE: Final = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_DOTTED: Final = re.compile(
    r"(?:(?P<date>[0-9]{8}-[0-9]{6})/)?"
    r"v?(?P<numbers>[0-9]{1,9}(?:\.[0-9]{1,9}){1,3})"
    r"(?:-(?P<stage>alpha|beta|rc)\.?(?P<nth>[0-9]{0,4}))?"
    r"(?:-g(?P<commit>[0-9a-f]{4,40}))?"
    r"(?:\((?P<build>[A-Za-z0-9_-]{1,32})\))?",
    re.ASCII,
)
_NUMBERS: Final = 4
_STAGES: Final = {"alpha": 0, "beta": 1, "rc": 2}
_RELEASED: Final = 3
_RELEASE: Final = "release-"
_PARTS: Final[Mapping[VersionScheme, frozenset[str]]] = MappingProxyType(
    {
        VersionScheme.TASMOTA: frozenset({"build"}),
        VersionScheme.SHELLY: frozenset({"date", "stage", "commit"}),
        VersionScheme.DOTTED: frozenset({"stage"}),
    }
)
"""What a family's versions may have beside their numbers."""


class Order(StrEnum):
    """How one version stands to another."""

    OLDER = "older"
    """It is the earlier one."""
    SAME = "same"
    """It is that one, as far as both say."""
    NEWER = "newer"
    """It is the later one."""
    UNKNOWN = "unknown"
    """They cannot be compared."""


@dataclass(frozen=True, slots=True)
class _Read:
    """A version of a known shape.

    Attributes:
        rank: the shape, the numbers and the stage, of which the greater is the later.
        date: of the build; empty where it says none.
        build: which of several of this number; empty where it says none.
        parts: what it has beside its numbers, of date, stage, commit and build.
    """

    rank: tuple[bool, tuple[int, ...], tuple[int, int]]
    date: str = ""
    build: str = ""
    parts: frozenset[str] = frozenset()

    @property
    def is_whole(self) -> bool:
        """Whether it is one number."""
        return not self.rank[0]


def compare(one: str, other: str) -> Order:
    """How a version stands to another."""
    if one == other:
        return Order.SAME
    a, b = _read(one), _read(other)
    if a is None or b is None or a.is_whole is not b.is_whole:
        return Order.UNKNOWN
    if a.rank != b.rank:
        return Order.NEWER if a.rank > b.rank else Order.OLDER
    if a.date and b.date and a.date != b.date:
        return Order.NEWER if a.date > b.date else Order.OLDER
    return Order.UNKNOWN if a.build and b.build and a.build != b.build else Order.SAME


def reaches(version: str, floor: str) -> bool:
    """Whether a version is certainly not below a floor."""
    return compare(version, floor) in {Order.SAME, Order.NEWER}


def has_number_of(one: str, other: str) -> bool:
    """Whether two versions have one number, whichever their builds are."""
    a, b = _read(one), _read(other)
    return a is not None and b is not None and a.rank == b.rank


def is_of(scheme: VersionScheme, version: str) -> bool:
    """Whether a version has the shape of a family's."""
    read = _read(version)
    if read is None or read.is_whole is not (scheme is VersionScheme.INTEGER):
        return False
    return read.parts <= _PARTS.get(scheme, frozenset())


def _read(text: str) -> _Read | None:
    if len(text) > VERSION_SIGNS:
        return None
    if _WHOLE.fullmatch(text) is not None:
        return _Read((False, (int(text),), (_RELEASED, 0)))
    found = _DOTTED.fullmatch(text)
    if found is None:
        return None
    numbers = [int(number) for number in found["numbers"].split(".")]
    numbers += [0] * (_NUMBERS - len(numbers))  # 1.4 is 1.4.0
    stage = _RELEASED if found["stage"] is None else _STAGES[found["stage"]]
    named = (found["build"] or "").removeprefix(_RELEASE)
    return _Read(
        (True, tuple(numbers), (stage, int(found["nth"] or 0))),
        found["date"] or "",
        "/".join(part for part in (found["commit"], named) if part),
        frozenset(part for part in ("date", "stage", "commit", "build") if found[part] is not None),
    )
