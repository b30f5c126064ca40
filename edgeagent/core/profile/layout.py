"""From the sources of readings to the content of topics, for one device.

Every source is looked at once for each channel that it has, under that channel's names; one that
mentions an optional parameter without a value, or whose ``only_if`` does not hold, is left out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field

from edgeagent.contracts.profile import DeviceProfile
from edgeagent.contracts.sources import Place, Reading, ReadingKind, SiblingUnit, Source
from edgeagent.core.profile.channels import Channel, channels_with, name_for
from edgeagent.core.profile.decode import AVAILABILITY, Bare
from edgeagent.core.profile.drafts import Carries, Conditions, TopicDraft
from edgeagent.core.profile.extraction import Entry
from edgeagent.core.profile.parameters import OF_A_CHANNEL, Scope, applies
from edgeagent.core.profile.paths import Step, path
from edgeagent.core.profile.predicates import predicate
from edgeagent.core.profile.readers import reader
from edgeagent.core.profile.rules import Target, rule_for, sibling
from edgeagent.core.profile.spec import ReadingSpec
from edgeagent.core.profile.templates import template
from edgeagent.ids import ReadingName, Topic, topic
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True)
class Use:
    """A source in one place, for one channel.

    Attributes:
        source: of the profile.
        place: where its messages are found.
        scope: what its names stand for.
        channel: of which channel; None for the device's own.
    """

    source: Source
    place: Place
    scope: Scope
    channel: Channel | None

    @property
    def mentions(self) -> frozenset[str]:
        """The names in its paths and predicates."""
        paths = [path(text) for text in (self.source.pick, self.place.root, self.place.items) if text]
        return frozenset(name for each in paths for name in each.placeholders) | self._asked

    @property
    def _asked(self) -> frozenset[str]:
        texts = (*self.source.when, *self.place.when)
        return frozenset(name for text in texts for name in predicate(text).placeholders)

    def conditions(self) -> tuple[Conditions, tuple[Step, ...]]:
        """Under what it is read, and the path from there."""
        source, place, values = self.source, self.place, self.scope.values
        root = path(place.root).bind(values)
        pick = path(source.pick or "$").bind(values)
        # Channels of which nothing is asked share a group: its predicates are asked once for all.
        asked = self.channel is not None and self._asked & OF_A_CHANNEL.keys()
        channel = f"{self.channel.kind}:{self.channel.id}" if self.channel is not None and asked else ""
        if not source.when and not isinstance(source.unit, SiblingUnit) and place.items is None:
            return Conditions(when=place.when, channel=channel), pick.under(root).steps
        items = path(place.items).bind(values).steps if place.items is not None else None
        unit = repr(source.unit) if isinstance(source.unit, SiblingUnit) else ""
        conditions = Conditions(place.when, root.steps, items, source.when, unit, channel)
        return conditions, pick.steps


@dataclass(frozen=True, slots=True)
class Outline:
    """What is known of a device before any message.

    Attributes:
        profile: of its family.
        scope: its values.
        channels: its channels by kind.
        names: the readings that it can have, but for those with ``*``: by the part before the dot, and
            the kind and id of the channel (none: the device itself).
        own_topics: the topics that only this device may write, by the reading that they show.
    """

    profile: DeviceProfile
    scope: Scope
    channels: Mapping[str, tuple[Channel, ...]]
    names: dict[tuple[str, str, int], ReadingName] = field(default_factory=dict)
    own_topics: dict[ReadingName, set[str]] = field(default_factory=dict)

    def names_for(self, channel: Channel | None) -> dict[str, ReadingName]:
        """The readings by the part of their name before the dot, as one channel sees them."""
        own = ("", 0) if channel is None else (channel.kind, channel.id)
        return {base: name for (base, *of), name in self.names.items() if tuple(of) in {("", 0), own}}


@dataclass(slots=True)
class Layout:
    """The topics of a device while they grow.

    Attributes:
        outline: of the device; its names grow along.
        own: the names that make a topic this device's alone.
        topics: what each carries.
    """

    outline: Outline
    own: frozenset[str]
    topics: dict[Topic, TopicDraft] = field(default_factory=dict)

    def add_reading(self, base: str, reading: Reading, spec: ReadingSpec) -> None:
        """Lay out the sources of a reading.

        Raises:
            MalformedError: a parameter's value does not fit in.
        """
        target = Target(
            base=base,
            kind=reading.kind,
            unit=reading.unit,
            words=reading.words,
            longest=reading.longest,
            low=spec.low,
            high=spec.high,
            event=spec.event,
        )
        carries = Carries.STATE if spec.state else Carries.EVENT if spec.event else Carries.TELEMETRY
        self._add(target, reading.sources, carries)

    def add_availability(self) -> None:
        """Lay out the sources of the device's presence.

        Raises:
            MalformedError: a parameter's value does not fit in.
        """
        availability = self.outline.profile.availability
        target = Target(base=AVAILABILITY, kind=ReadingKind.BOOLEAN, words=availability.words)
        self._add(target, availability.sources, Carries.AVAILABILITY)

    def add_answer(self, text: str, scope: Scope) -> None:
        """Note a topic on which answers come."""
        rendered = template(text).render(scope.values)
        if rendered is not None:
            draft = self.topics.setdefault(topic(rendered), TopicDraft())
            draft.carries.add(Carries.ANSWER)
            draft.own |= bool(template(text).placeholders & self.own)

    def _add(self, target: Target, sources: tuple[Source, ...], carries: Carries) -> None:
        siblings = channels_with((source.each for source in sources), self.outline.channels)
        for source in sources:
            for use in self._uses(source):
                self._add_use(target, use, carries, name_for(target.base, use.channel, siblings))

    def _uses(self, source: Source) -> Iterator[Use]:
        outline = self.outline
        for channel in (None,) if source.each is None else outline.channels[source.each]:
            scope = outline.scope if channel is None else channel.scope
            if applies(source.only_if, scope):
                for place in self._places(source):
                    use = Use(source, place, scope, channel)
                    if applies(place.only_if, scope) and scope.has(use.mentions):
                        yield use

    def _places(self, source: Source) -> tuple[Place, ...]:
        if source.message is not None:
            return self.outline.profile.messages[source.message].places
        return () if source.topic is None else (Place(topic=source.topic),)

    def _add_use(self, target: Target, use: Use, carries: Carries, name: ReadingName) -> None:
        rendered = template(use.place.topic).render(use.scope.values)
        if rendered is None:
            return
        draft = self.topics.setdefault(topic(rendered), TopicDraft())
        draft.carries.add(carries)
        draft.own |= bool(template(use.place.topic).placeholders & self.own)
        if target.event:
            draft.events.add(name)
        pick = use.source.pick
        if pick is None or not path(pick).is_wild:
            self._note(name, target.base, use, rendered)
        if pick is None:
            draft.add_bare(_bare(target, use, name))
        else:
            conditions, steps = use.conditions()
            entry = Entry(steps, name, rule_for(target, use.source, use.scope))
            draft.group(conditions, use.scope, sibling(use.source)).add(entry)

    def _note(self, name: ReadingName, base: str, use: Use, rendered: str) -> None:
        of = ("", 0) if use.channel is None else (use.channel.kind, use.channel.id)
        self.outline.names[base, *of] = name
        if template(use.place.topic).placeholders & self.own:
            self.outline.own_topics.setdefault(name, set()).add(rendered)


def _bare(target: Target, use: Use, name: ReadingName) -> Bare:
    tests = tuple(predicate(text).bind(use.scope.values) for text in use.source.when)
    read = reader(rule_for(target, use.source, use.scope)) if use.source.const is None else None
    return Bare(name, read, use.source.const, tests)
