"""Devices that announce themselves: which family, which parameters.

A match only *proposes* (SPEC M4); an operator or the policy admits. Whatever a device says of itself
goes through the types of the profile's parameters: what does not fit makes no proposal. Never raises,
whatever the topic and the bytes.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from pydantic import JsonValue

from edgeagent import ids
from edgeagent.contracts.door import ReadingValue, parse_readings
from edgeagent.contracts.mqtt import RetainHandling, Session, Subscription
from edgeagent.contracts.profile import Derived, DeviceProfile, Match, ParameterType
from edgeagent.core.profile.derive import derive, size_of
from edgeagent.core.profile.parameters import check
from edgeagent.core.profile.paths import getter, path
from edgeagent.core.profile.predicates import Test, predicate
from edgeagent.core.profile.readers import clean
from edgeagent.core.profile.templates import whole
from edgeagent.errors import MalformedError
from edgeagent.ids import LABEL_CHARACTERS, DeviceId, Label, TopicFilter
from edgeagent.values import dataclass

MOST_LISTED: Final = 1024
"""Devices in one message; further ones are not looked at."""
MOST_OBJECTS_LISTED: Final = 16 * 1024
"""Objects and lists within the devices of one message; a real list of 1 MB has fewer. All else waits."""
_TEXT_CHARACTERS: Final = 64


@dataclass(frozen=True, slots=True)
class Proposal:
    """A device that could be admitted.

    Attributes:
        device: its native identity.
        profile: the id of its family.
        parameters: the values that it told, each of its type; others take their defaults.
        label: a name for people.
        model: what it calls its model; empty when it does not say.
        firmware: its version; empty when it does not say.
        follow: which of the parameters are taken over when it is admitted already.
        anchors: which of them must then be as they were: what the topic tells of who announces.
    """

    device: DeviceId
    profile: str
    parameters: Mapping[str, JsonValue]
    label: Label
    model: str
    firmware: str
    follow: tuple[str, ...] = ()
    anchors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Inventory:
    """All devices that something, such as a bridge, has at present.

    Attributes:
        topic: where it was told.
        proposals: those that could be admitted.
    """

    topic: str
    proposals: tuple[Proposal, ...]


@dataclass(frozen=True, slots=True)
class Removal:
    """A device that takes its announcement back.

    Attributes:
        device: its native identity.
    """

    device: DeviceId


Announced = Proposal | Removal | Inventory
"""What a message announces."""


class _Pattern:
    """One way in which a family announces itself."""

    def __init__(self, profile: DeviceProfile, match: Match) -> None:
        self._profile = profile
        self._match = match
        self._levels = match.topic.split("/")
        self._most_bytes = match.most_bytes or profile.most_bytes
        self._members = None if match.each is None else getter(path(match.each))
        self._anchors = tuple(
            name for name, rule in match.bind.items() if isinstance(rule, str) and whole(rule) is not None
        )
        # What asks nothing of the topic is bound once, and asked first: most messages end there.
        parsed = [predicate(text) for text in match.when]
        self._tests: list[Test] = [each.bind({}) for each in parsed if not each.placeholders]
        self._bound_tests = [each for each in parsed if each.placeholders]

    @property
    def filter(self) -> TopicFilter:
        return ids.topic_filter("/".join("+" if whole(level) else level for level in self._levels))

    def captures(self, topic: str) -> dict[str, str] | None:
        """The values of the topic's names; None when it is another topic."""
        levels = topic.split("/")
        if len(levels) != len(self._levels):
            return None
        found: dict[str, str] = {}
        for wanted, level in zip(self._levels, levels, strict=True):
            named = whole(wanted)
            if named is not None:
                found[named.name] = ids.topic_segment(level)
            elif wanted != level:
                return None
        return found

    def propose(self, topic: str, payload: bytes, captures: Mapping[str, str]) -> Announced | None:
        """What an announcement comes to.

        Raises:
            MalformedError: it is not what its family sends.
        """
        if not payload:
            gone = self._match.removed_by == "empty"
            return Removal(self._device(None, captures)) if gone else None
        document = parse_readings(payload, limit=self._most_bytes)
        tests = (*self._tests, *(each.bind(captures) for each in self._bound_tests))
        if self._members is None:
            return self._proposal(document, captures) if all(test(document) for test in tests) else None
        members = self._members(document)
        if not isinstance(members, list):
            raise MalformedError("no list of devices")
        return Inventory(topic, tuple(self._listed(members[:MOST_LISTED], tests, captures)))

    def _listed(
        self, members: Sequence[ReadingValue], tests: Sequence[Test], captures: Mapping[str, str]
    ) -> Iterator[Proposal]:
        """Those of a list that fit; one that is not what its family sends hinders no other."""
        left = MOST_OBJECTS_LISTED
        for member in members:
            left -= size_of(member)
            if left < 0:
                return
            if all(test(member) for test in tests):
                with suppress(MalformedError):
                    yield self._proposal(member, captures)

    def _proposal(self, document: ReadingValue, captures: Mapping[str, str]) -> Proposal:
        device = self._device(document, captures)
        label = _words(self._match.label, document, captures, LABEL_CHARACTERS)
        return Proposal(
            device=device,
            profile=self._profile.id,
            parameters=self._parameters(document, captures),
            label=ids.label(label or device),
            model=_words(self._match.model, document, captures, _TEXT_CHARACTERS),
            firmware=_words(self._match.firmware, document, captures, _TEXT_CHARACTERS),
            follow=self._match.follow,
            anchors=self._anchors if self._match.follow else (),
        )

    def _device(self, document: ReadingValue, captures: Mapping[str, str]) -> DeviceId:
        return ids.device_id(str(derive(self._match.device, document, captures)))

    def _parameters(self, document: ReadingValue, captures: Mapping[str, str]) -> dict[str, JsonValue]:
        values: dict[str, JsonValue] = {}
        for name, rule in self._match.bind.items():
            parameter = self._profile.parameters[name]
            raw = derive(rule, document, captures)
            if isinstance(raw, list) and parameter.type is ParameterType.INTEGER:
                raw = raw[0] if raw else None
            # An empty text tells nothing: what may be without a value is.
            if raw is None or (raw == "" and parameter.optional):
                continue
            try:
                value = check(parameter, raw)
            except MalformedError:
                # A device that calls itself by no name that could be told is listed, its name unknown.
                if parameter.optional and parameter.type is ParameterType.TEXT:
                    continue
                raise
            values[name] = list(value) if isinstance(value, tuple) else value
        return values


class Matcher:
    """Recognises announcements of every known family.

    Attributes:
        subscriptions: the topics on which devices announce themselves. They are of the telemetry
            session: an announcement confirms nothing, and may share a topic with an admitted device,
            whose own subscription then is on the other session. Retained ones are asked for each
            time, since proposals live in memory only.
    """

    def __init__(self, profiles: Sequence[DeviceProfile]) -> None:
        self._patterns = [_Pattern(profile, match) for profile in profiles for match in profile.match]
        filters = sorted({pattern.filter for pattern in self._patterns})
        self.subscriptions = tuple(
            Subscription(each, Session.TELEMETRY, RetainHandling.ALWAYS) for each in filters
        )

    def match(self, topic: str, payload: bytes) -> Announced | None:
        """What a message on one of the subscribed topics announces; None when nothing."""
        for pattern in self._patterns:
            try:
                captures = pattern.captures(topic)
                found = None if captures is None else pattern.propose(topic, payload, captures)
            except MalformedError:
                continue
            if found is not None:
                return found
        return None


def covers(topic_filter: str, topic: str) -> bool:
    """Whether a topic is under a filter; ``a/#`` covers ``a`` too."""
    levels = topic.split("/")
    wanted = topic_filter.split("/")
    if topic.startswith("$") and not topic_filter.startswith("$"):
        return False
    for place, level in enumerate(wanted):
        if level == "#":
            return True
        if place >= len(levels) or level not in {"+", levels[place]}:
            return False
    return len(levels) == len(wanted)


def _words(
    rule: str | Derived | None, document: ReadingValue, captures: Mapping[str, str], longest: int
) -> str:
    """A text for people, cleaned; empty when there is none."""
    if rule is None:
        return ""
    value = derive(rule, document, captures)
    return "" if value is None else clean(str(value), longest).strip()
