"""The content of each topic, while a device is being compiled.

A source is told for a reading; a message arrives on a topic. Here sources are turned round: for each
topic what is read of it, sources under equal conditions in one group.
"""

from dataclasses import dataclass, field
from enum import Enum

from edgeagent.contracts.door import ReadingValue
from edgeagent.contracts.mqtt import RetainHandling, Session
from edgeagent.contracts.sources import SiblingUnit, Value
from edgeagent.core.profile.decode import Bare, Content
from edgeagent.core.profile.extraction import Group, Instances, Tree, UnitChoice
from edgeagent.core.profile.parameters import Scope
from edgeagent.core.profile.paths import Path, Step, getter, path
from edgeagent.core.profile.predicates import predicate
from edgeagent.core.profile.readers import NOTHING, UNUSABLE, Outcome, Read
from edgeagent.ids import ReadingName


class Carries(Enum):
    """What makes a topic belong to one session or the other."""

    STATE = "state"
    TELEMETRY = "telemetry"
    EVENT = "event"
    AVAILABILITY = "availability"
    ANSWER = "answer"
    """An answer to a command or question."""


_CONTROL = frozenset({Carries.STATE, Carries.AVAILABILITY, Carries.ANSWER})
_OF_THE_MOMENT = frozenset({Carries.EVENT, Carries.ANSWER})


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under which a group is read.

    Attributes:
        when: predicates on the whole document.
        root: where the content is; merged into the paths where nothing is asked of the content.
        items: the list whose members are the contents.
        tests: predicates on the content.
        unit: the unit that the content names.
        channel: of which channel, where a predicate mentions it.
    """

    when: tuple[str, ...] = ()
    root: tuple[Step, ...] = ()
    items: tuple[Step, ...] | None = None
    tests: tuple[str, ...] = ()
    unit: str = ""
    channel: str = ""


@dataclass(slots=True)
class GroupDraft:
    """A group while it grows.

    Attributes:
        scope: what the predicates' names stand for.
        unit: the unit that the content names.
        entries: paths, names, and how they are read, by unit; under "" where there is one way only.
    """

    scope: Scope
    unit: SiblingUnit | None = None
    entries: list[tuple[tuple[Step, ...], ReadingName | Instances, dict[str, Read]]] = field(
        default_factory=list
    )

    def add(self, steps: tuple[Step, ...], name: ReadingName | Instances, reads: dict[str, Read]) -> None:
        """Read one more thing, unless it is read already."""
        if not any(steps == known and name == named for known, named, _ in self.entries):
            self.entries.append((steps, name, reads))

    def build(self, conditions: Conditions) -> Group:
        """Make the group."""
        values = self.scope.values
        return Group(
            when=tuple(predicate(text).bind(values) for text in conditions.when),
            root=getter(Path(conditions.root)) if conditions.root else None,
            items=None if conditions.items is None else getter(Path(conditions.items)),
            tests=tuple(predicate(text).bind(values) for text in conditions.tests),
            tree=self._tree("") if self.unit is None else self._unit_choice(self.unit),
        )

    def _tree(self, unit: str) -> Tree:
        tree = Tree()
        for steps, name, reads in self.entries:
            tree.add(steps, name, reads[unit])
        return tree

    def _unit_choice(self, unit: SiblingUnit) -> UnitChoice:
        unknown = Tree()
        for steps, name, _ in self.entries:
            unknown.add(steps, name, _of_a_strange_unit)
        return UnitChoice(
            getter(path(unit.pick).bind(self.scope.values)),
            {word: self._tree(known) for word, known in unit.words.items()},
            self._tree(unit.otherwise),
            unknown,
        )


@dataclass(slots=True)
class TopicDraft:
    """A topic while its content grows.

    Attributes:
        carries: what kinds of content it has.
        groups: of documents, by their conditions.
        bare: sources of bare payloads.
        constants: sources whose value does not depend on the payload.
        events: readings that are happenings.
    """

    carries: set[Carries] = field(default_factory=set)
    groups: dict[Conditions, GroupDraft] = field(default_factory=dict)
    bare: list[Bare] = field(default_factory=list)
    constants: list[Bare] = field(default_factory=list)
    events: set[ReadingName] = field(default_factory=set)

    @property
    def session(self) -> Session:
        """The session that the topic belongs to."""
        return Session.CONTROL if self.carries & _CONTROL else Session.TELEMETRY

    @property
    def retain_handling(self) -> RetainHandling:
        """Whether its retained message is wanted."""
        if Carries.AVAILABILITY in self.carries:
            return RetainHandling.ALWAYS
        return RetainHandling.NEVER if self.carries <= _OF_THE_MOMENT else RetainHandling.WHEN_NEW

    def group(self, conditions: Conditions, scope: Scope, unit: SiblingUnit | None) -> GroupDraft:
        """The group under these conditions."""
        return self.groups.setdefault(conditions, GroupDraft(scope, unit))

    def add_bare(self, source: Bare) -> None:
        """Read the payload as a whole, unless it is read for that reading already."""
        where = self.bare if source.const is None else self.constants
        if source.tests or not any(known.name == source.name and not known.tests for known in where):
            where.append(source)

    def build(self) -> Content:
        """Make the content."""
        return Content(
            groups=tuple(draft.build(conditions) for conditions, draft in self.groups.items()),
            bare=tuple(self.bare),
            constants=tuple(self.constants),
            events=frozenset(self.events),
            tells_availability=Carries.AVAILABILITY in self.carries,
        )


def _of_a_strange_unit(raw: ReadingValue) -> Value | Outcome:
    return NOTHING if raw is None or isinstance(raw, dict | list) else UNUSABLE
