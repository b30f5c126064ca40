"""From a document to readings, in one walk.

The paths of a topic's sources are laid together as a tree, so that a document's objects are entered
once however many readings they hold. Sources that share their predicates, their root and their unit
make one *group*; a group whose predicates do not hold is not walked.

A path with ``*`` gives one reading for each member, named after the member: ``temperature.si7021``. A
device can make up members without end, so that a reading takes only the first 16 names that it meets.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import islice
from typing import Final

from edgeagent.contracts.door import ReadingValue
from edgeagent.contracts.sources import Value
from edgeagent.core.profile.paths import Get, Missing, Step, Wild
from edgeagent.core.profile.predicates import Test
from edgeagent.core.profile.readers import NOTHING, UNUSABLE, Outcome, Read, Rule, reader
from edgeagent.ids import ReadingName
from edgeagent.values import dataclass

Found = list[tuple[ReadingName, Value]]
"""Readings in the order in which they were met."""

MOST_INSTANCES: Final = 16
MOST_MEMBERS: Final = 64
_SLUG: Final = 32


class Names:
    """The names that the readings with ``*`` of one device have given out."""

    __slots__ = ("_given", "_slugs")

    def __init__(self) -> None:
        self._given: dict[tuple[str, str | int], ReadingName] = {}
        self._slugs: dict[str, set[str]] = {}

    def name(self, base: str, member: str | int) -> ReadingName | None:
        """The name of a member's reading; None when there are too many, or another has that name."""
        known = self._given.get((base, member))
        if known is not None:
            return known
        slug, taken = slug_of(str(member)), self._slugs.setdefault(base, set())
        if slug in taken or not slug or len(taken) >= MOST_INSTANCES:
            return None
        taken.add(slug)
        name = ReadingName(f"{base}.{slug}")
        self._given[base, member] = name
        return name


def slug_of(text: str) -> str:
    """What a name of the device's becomes in the name of a reading."""
    lower = text[:_SLUG].lower()
    return "".join(char if char.isascii() and (char.isalnum() or char == "-") else "_" for char in lower)


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing to be read of a document.

    Attributes:
        steps: where.
        name: of the reading; of one with ``*`` the part before the dot.
        rule: how.
    """

    steps: tuple[Step, ...]
    name: ReadingName
    rule: Rule


class Fan:
    """All members of an object or list, and what is read of each."""

    __slots__ = ("_leaves", "_whole")

    def __init__(self) -> None:
        # By key of the member; and of the member itself.
        self._leaves: list[tuple[str, str, Read]] = []
        self._whole: list[tuple[str, Read]] = []

    def add(self, rest: tuple[Step, ...], base: str, read: Read) -> None:
        """Read one more thing of each member."""
        if rest and isinstance(rest[0], str):
            self._leaves.append((rest[0], base, read))
        else:
            self._whole.append((base, read))

    def walk(self, value: ReadingValue, found: Found, names: Names) -> int:
        """Read every member; the result counts what was unusable."""
        missed = 0
        for member, child in _members(value):
            if type(child) is dict:
                for key, base, read in self._leaves:
                    raw = child.get(key)
                    if raw is not None:
                        result = read(raw)
                        if result is not NOTHING:
                            missed += _keep((base, member), result, found, names)
            for base, read in self._whole:
                result = read(child)
                if result is not NOTHING:
                    missed += _keep((base, member), result, found, names)
        return missed


def _members(value: ReadingValue) -> Iterable[tuple[str | int, ReadingValue]]:
    if type(value) is dict:
        return value.items() if len(value) <= MOST_MEMBERS else islice(value.items(), MOST_MEMBERS)
    return enumerate(value[:MOST_MEMBERS], start=1) if type(value) is list else ()


def _keep(whose: tuple[str, str | int], result: Value | Outcome, found: Found, names: Names) -> int:
    """Add what was read of a member, under its name; the result counts what was unusable."""
    if isinstance(result, Outcome) or (name := names.name(*whose)) is None:
        return 1
    found.append((name, result))
    return 0


class Tree:
    """The paths of a group, laid together."""

    __slots__ = ("_branches", "_fan", "_leaves", "_own", "_places")

    def __init__(self) -> None:
        self._leaves: list[tuple[str, ReadingName, Read]] = []
        self._branches: list[tuple[str, Tree]] = []
        self._places: dict[int, Tree] = {}
        self._own: list[tuple[ReadingName, Read]] = []
        self._fan: Fan | None = None

    def add(self, steps: tuple[Step, ...], name: ReadingName, read: Read, *, is_wild: bool) -> None:
        """Read one more thing; ``is_wild`` when a ``*`` is among the steps of its path."""
        if not steps:
            self._own.append((name, read))
            return
        step, rest = steps[0], steps[1:]
        if isinstance(step, Wild):
            self._fan = self._fan or Fan()
            self._fan.add(rest, name, read)
        elif isinstance(step, int):
            self._places.setdefault(step, Tree()).add(rest, name, read, is_wild=is_wild)
        elif rest or is_wild:
            self._branch(step).add(rest, name, read, is_wild=is_wild)
        else:
            self._leaves.append((step, name, read))

    def _branch(self, key: str) -> "Tree":
        for known, branch in self._branches:
            if known == key:
                return branch
        branch = Tree()
        self._branches.append((key, branch))
        return branch

    def walk(self, value: ReadingValue, found: Found, names: Names) -> int:
        """Read everything of a document; the result counts what was unusable."""
        missed = 0
        if type(value) is dict:
            for key, name, read in self._leaves:
                raw = value.get(key)
                if raw is not None:
                    result = read(raw)
                    if result is UNUSABLE:
                        missed += 1
                    elif result is not NOTHING:
                        found.append((name, result))
            for key, branch in self._branches:
                child = value.get(key)
                # Below a key there is something to read only in an object or a list.
                if type(child) is dict or type(child) is list:
                    missed += branch.walk(child, found, names)
        else:
            missed += self._walk_other(value, found, names)
        return missed if self._fan is None else missed + self._fan.walk(value, found, names)

    def _walk_other(self, value: ReadingValue, found: Found, names: Names) -> int:
        """Read a list, or a value that stands for itself."""
        missed = 0
        if type(value) is list:
            for place, branch in self._places.items():
                if place < len(value):
                    missed += branch.walk(value[place], found, names)
        for name, read in self._own:
            result = read(value)
            if result is UNUSABLE:
                missed += 1
            elif result is not NOTHING:
                found.append((name, result))
        return missed


@lru_cache(maxsize=1024)
def tree_of(entries: tuple[Entry, ...]) -> Tree:
    """Lay the paths of a group together. Devices that are alike share what comes of it."""
    tree = Tree()
    for entry in entries:
        tree.add(entry.steps, entry.name, reader(entry.rule), is_wild=Wild.WILD in entry.steps)
    return tree


class UnitChoice:
    """A unit that the message names: which tree reads its numbers."""

    __slots__ = ("_otherwise", "_pick", "_trees", "_unknown")

    def __init__(self, pick: Get, trees: Mapping[str, Tree], otherwise: Tree, unknown: Tree) -> None:
        self._pick = pick
        self._trees = trees
        self._otherwise = otherwise
        self._unknown = unknown

    def tree(self, document: ReadingValue) -> Tree:
        """The tree for this document; one that finds all unusable when the unit is a strange one."""
        word = self._pick(document)
        if word is None or isinstance(word, Missing):
            return self._otherwise
        return self._trees.get(word, self._unknown) if isinstance(word, str) else self._unknown


class Group:
    """Sources of one topic that are read under the same conditions."""

    __slots__ = ("_items", "_root", "_tests", "_tree", "_units", "_when")

    def __init__(
        self,
        *,
        when: tuple[Test, ...] = (),
        root: Get | None = None,
        items: Get | None = None,
        tests: tuple[Test, ...] = (),
        tree: Tree | UnitChoice,
    ) -> None:
        self._when = when
        self._root = root
        self._items = items
        self._tests = tests
        self._tree = tree if isinstance(tree, Tree) else None
        self._units = tree if isinstance(tree, UnitChoice) else None

    def gather(self, document: ReadingValue, found: Found, names: Names) -> int:
        """Add the readings of a document to ``found``; the result counts what was unusable."""
        for test in self._when:
            if not test(document):
                return 0
        if self._items is not None:
            members = self._items(document)
            if not isinstance(members, list):
                return 0
            return sum(self._read(member, found, names) for member in members[:MOST_MEMBERS])
        if self._root is None:
            return self._read(document, found, names)
        content = self._root(document)
        return 0 if isinstance(content, Missing) else self._read(content, found, names)

    def _read(self, content: ReadingValue, found: Found, names: Names) -> int:
        for test in self._tests:
            if not test(content):
                return 0
        tree = self._tree
        if tree is None and self._units is not None:
            tree = self._units.tree(content)
        return 0 if tree is None else tree.walk(content, found, names)
