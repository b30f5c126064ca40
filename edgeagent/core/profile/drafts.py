"""The content of each topic, while a device is being compiled.

A source is told for a reading; a message arrives on a topic. Here sources are turned round: for each
topic what is read of it, sources under equal conditions in one group.
"""

from dataclasses import field, replace
from enum import Enum

from edgeagent.contracts.mqtt import RetainHandling, Session
from edgeagent.contracts.sources import SiblingUnit
from edgeagent.core.profile.decode import Bare, Content
from edgeagent.core.profile.extraction import Entry, Group, Tree, UnitChoice, tree_of
from edgeagent.core.profile.parameters import Scope
from edgeagent.core.profile.paths import Path, Step, getter, path
from edgeagent.core.profile.predicates import predicate
from edgeagent.ids import ReadingName
from edgeagent.values import dataclass


class Carries(Enum):
    """What makes a topic belong to one session or the other."""

    STATE = "state"
    """A state reading."""
    TELEMETRY = "telemetry"
    """A telemetry reading."""
    EVENT = "event"
    """A reading that is a happening."""
    AVAILABILITY = "availability"
    """Whether the device is there."""
    ANSWER = "answer"
    """An answer to a command or question."""


_CONTROL = frozenset({Carries.STATE, Carries.AVAILABILITY, Carries.ANSWER})
_OF_THE_MOMENT = frozenset({Carries.EVENT, Carries.ANSWER})
_OF_WHAT_IS_SHARED = frozenset({Carries.AVAILABILITY, Carries.ANSWER})


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
        entries: what is read.
    """

    scope: Scope
    unit: SiblingUnit | None = None
    entries: list[Entry] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        """Read one more thing, unless it is read already."""
        if not any(entry.steps == known.steps and entry.name == known.name for known in self.entries):
            self.entries.append(entry)

    def build(self, conditions: Conditions) -> Group:
        """Make the group."""
        values = self.scope.values
        return Group(
            when=tuple(predicate(text).bind(values) for text in conditions.when),
            root=getter(Path(conditions.root)) if conditions.root else None,
            items=None if conditions.items is None else getter(Path(conditions.items)),
            tests=tuple(predicate(text).bind(values) for text in conditions.tests),
            tree=tree_of(tuple(self.entries)) if self.unit is None else self._unit_choice(self.unit),
        )

    def _unit_choice(self, unit: SiblingUnit) -> UnitChoice:
        return UnitChoice(
            getter(path(unit.pick).bind(self.scope.values)),
            {word: self._in_unit(known) for word, known in unit.words.items()},
            self._in_unit(unit.otherwise),
            self._in_unit(None),
        )

    def _in_unit(self, unit: str | None) -> Tree:
        rules = [replace(entry.rule, unit=unit) for entry in self.entries]
        changed = zip(self.entries, rules, strict=True)
        return tree_of(tuple(replace(entry, rule=rule) for entry, rule in changed))


@dataclass(slots=True)
class TopicDraft:
    """A topic while its content grows.

    Attributes:
        carries: what kinds of content it has.
        groups: of documents, by their conditions.
        bare: sources of bare payloads.
        constants: sources whose value does not depend on the payload.
        events: readings that are happenings.
        own: whether a name of this device alone stands in it.
    """

    carries: set[Carries] = field(default_factory=set)
    groups: dict[Conditions, GroupDraft] = field(default_factory=dict)
    bare: list[Bare] = field(default_factory=list)
    constants: list[Bare] = field(default_factory=list)
    events: set[ReadingName] = field(default_factory=set)
    own: bool = False

    @property
    def is_common(self) -> bool:
        """Whether other devices may listen to it too: what it carries is of what they share."""
        return not self.own and self.carries <= _OF_WHAT_IS_SHARED

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
