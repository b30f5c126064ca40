"""What a profile's texts mean, checked before any device is compiled.

Paths and predicates parse, names are known where they stand and of a type that may stand there, words
and units fit the readings, what the commands promise is in the catalogue.
"""

from collections.abc import Iterable

from edgeagent import ids
from edgeagent.contracts.profile import DeviceProfile, Parameter, ParameterType
from edgeagent.contracts.sources import (
    Place,
    Reading,
    ReadingKind,
    SiblingUnit,
    Source,
    Texts,
    Value,
)
from edgeagent.core.profile import check_commands, check_firmware, check_match, check_steps
from edgeagent.core.profile.decode import AVAILABILITY
from edgeagent.core.profile.mistakes import Mistakes
from edgeagent.core.profile.names import check_names, check_path
from edgeagent.core.profile.parameters import OF_A_CHANNEL, RESERVED, TEMPLATED, check, kinds_of
from edgeagent.core.profile.paths import PLACEHOLDER, Path, path
from edgeagent.core.profile.predicates import predicate
from edgeagent.core.profile.rules import Target, value_of
from edgeagent.core.profile.templates import Kinds, check_filter, check_topic, template, whole
from edgeagent.core.profile.units import converter
from edgeagent.errors import MalformedError

_NUMERIC = frozenset({ReadingKind.INTEGER, ReadingKind.NUMBER})
_WORDLIKE = frozenset({ParameterType.TEXT, ParameterType.SEGMENT, ParameterType.CHOICE})


def mistakes(profile: DeviceProfile) -> list[str]:
    """Everything that is wrong with a profile, each with its place; empty when nothing is."""
    found = Mistakes()
    _check_parameters(profile, found)
    if found.found:
        # What stands on them would only repeat it.
        return found.found
    checker = _Checker(profile, found)
    checker.check_channels()
    checker.check_messages()
    for name, reading in profile.readings.items():
        checker.check_reading(f"reading.{name}", name, reading)
    checker.check_availability()
    for place, text in enumerate(profile.command_topics):
        with found.at(f"command_topics[{place}]"):
            check_filter(text, checker.kinds)
    _check_access(profile, found, checker.kinds)
    _check_shared(profile, found)
    check_commands.check(profile, found)
    check_steps.check(profile, found)
    check_firmware.check(profile, found)
    check_match.check(profile, found)
    return found.found


def _check_parameters(profile: DeviceProfile, found: Mistakes) -> None:
    above: dict[str, ParameterType] = {"device": ParameterType.SEGMENT}
    for name, parameter in profile.parameters.items():
        place = f"parameter.{name}"
        found.unless(name not in RESERVED, place, "the name has a meaning of its own")
        found.unless(parameter.minimum <= parameter.maximum, place, "its minimum is above its maximum")
        with found.at(place):
            _check_choices(parameter)
        with found.at(f"{place}.default"):
            _check_default(parameter, above)
        above[name] = parameter.type


def _check_choices(parameter: Parameter) -> None:
    if (parameter.type is ParameterType.CHOICE) != bool(parameter.choices):
        raise MalformedError("choices belong to a choice, and to nothing else")
    for choice in parameter.choices:
        ids.topic_segment(choice)


def _check_default(parameter: Parameter, above: Kinds) -> None:
    default = parameter.default
    if default is None:
        return
    if isinstance(default, str) and parameter.type in TEMPLATED and PLACEHOLDER.search(default):
        template(default).check(above)
        return
    check(parameter, default)


def _check_access(profile: DeviceProfile, found: Mistakes, kinds: Kinds) -> None:
    if profile.access is None:
        return
    with found.at("access.login"):
        template(profile.access.login).check(kinds)
    for part, texts in (("write", profile.access.write), ("read", profile.access.read)):
        for place, text in enumerate(texts):
            with found.at(f"access.{part}[{place}]"):
                check_filter(text, kinds)
                found.unless(template(text).placeholders, f"access.{part}[{place}]", "not one device's own")


def _check_shared(profile: DeviceProfile, found: Mistakes) -> None:
    for name, shared in profile.shared.items():
        parameter = profile.parameters.get(shared.by)
        fits = parameter is not None and parameter.type is not ParameterType.INTEGERS
        found.unless(fits, f"shared.{name}.by", "not a parameter with one value")
    for action, recipes in profile.commands.items():
        for place, recipe in enumerate(recipes):
            known = recipe.occupies is None or recipe.occupies in profile.shared
            found.unless(known, f"command.{action}[{place}].occupies", "not declared in shared")


class _Checker:
    """The checks that need to know the whole profile."""

    def __init__(self, profile: DeviceProfile, found: Mistakes) -> None:
        self._profile = profile
        self._found = found
        self._channels = {channel.kind for channel in profile.channels}
        self._by_id = {channel.kind for channel in profile.channels if channel.suffix == "id"}
        self.kinds: Kinds = kinds_of(profile)

    def kinds_for(self, each: str | None) -> Kinds:
        """The names that may stand in what there is of each channel."""
        return self.kinds if each is None else {**self.kinds, **OF_A_CHANNEL}

    def check_channels(self) -> None:
        """Their kinds are distinct, their ids come from a parameter."""
        kinds = [channel.kind for channel in self._profile.channels]
        self._found.unless(len(set(kinds)) == len(kinds), "channel", "a kind stands twice")
        for place, channel in enumerate(self._profile.channels):
            parameter = self._profile.parameters.get(channel.ids)
            with self._found.at(f"channel[{place}].component"):
                ids.topic_segment(channel.component.replace("{id}", "0"))
            is_list = parameter is not None and parameter.type is ParameterType.INTEGERS
            self._found.unless(is_list, f"channel[{place}].ids", "not a parameter of type integers")

    def check_messages(self) -> None:
        """Their places are topics with paths, for each kind of channel that sources use them for."""
        used: dict[str, set[str | None]] = {name: set() for name in self._profile.messages}
        readings = self._profile.readings.values()
        sources = [source for reading in readings for source in reading.sources]
        for source in (*sources, *self._profile.availability.sources):
            used.get(source.message or "", set()).add(source.each)
        for name, message in self._profile.messages.items():
            # Without any channel its names are known only if no source needs one.
            kinds = self.kinds_for(None if None in used[name] or not used[name] else "any")
            for number, place in enumerate(message.places):
                self._check_place(f"message.{name}.from[{number}]", place, kinds)

    def check_reading(self, place: str, name: str, reading: Reading) -> None:
        """Its name, its range, and each of its sources."""
        found = self._found
        with found.at(place):
            ids.reading_name(name)
        found.unless(name != AVAILABILITY, place, "is told under [availability]")
        if reading.range is not None:
            low, high = reading.range
            fits = low <= high and reading.kind in _NUMERIC
            found.unless(fits, f"{place}.range", "from the least to the greatest number of a numeric reading")
        found.unless(
            reading.min_interval <= reading.max_interval, place, "its intervals contradict each other"
        )
        found.unless(not (reading.event and reading.state), place, "a happening is no state")
        target = Target(base=name, kind=reading.kind, unit=reading.unit, words=reading.words)
        self._check_words(f"{place}.words", target.kind, reading.words)
        for number, source in enumerate(reading.sources):
            self._check_source(f"{place}.from[{number}]", target, source)
            is_wild = source.pick is not None and "*" in source.pick
            found.unless(not (reading.event and is_wild), place, "a happening has one name")
        self._check_suffixes(place, reading)

    def check_availability(self) -> None:
        """Its sources are boolean and of the whole device."""
        availability = self._profile.availability
        target = Target(base=AVAILABILITY, kind=ReadingKind.BOOLEAN, words=availability.words)
        self._check_words("availability.words", target.kind, availability.words)
        for number, source in enumerate(availability.sources):
            place = f"availability.from[{number}]"
            self._check_source(place, target, source)
            alone = source.each is None and "*" not in (source.pick or "")
            self._found.unless(alone, place, "a device is there as a whole")

    def _check_each(self, place: str, each: str | None) -> None:
        self._found.unless(each is None or each in self._channels, place, "no such kind of channel")

    def _check_suffixes(self, place: str, reading: Reading) -> None:
        kinds = {source.each for source in reading.sources if source.each is not None}
        mixed = kinds & self._by_id and kinds - self._by_id
        self._found.unless(not mixed, place, "its channels are told apart in two ways")
        alone = not kinds or all(source.each is not None for source in reading.sources)
        self._found.unless(alone, place, "is of channels in one source and of the device in another")

    def _check_source(self, place: str, target: Target, source: Source) -> None:
        found = self._found
        message = self._profile.messages.get(source.message or "")
        found.unless(source.message is None or message, f"{place}.message", "no such message")
        self._check_each(f"{place}.each", source.each)
        kinds = self.kinds_for(source.each)
        if source.topic is not None:
            with found.at(f"{place}.topic"):
                check_topic(source.topic, kinds)
        self._check_only_if(f"{place}.only_if", source.only_if)
        if source.pick is not None:
            with found.at(f"{place}.pick"):
                _check_pick(path(source.pick), kinds, has_channel=source.each is not None)
        self._check_predicates(f"{place}.when", source.when, kinds)
        self._check_words(f"{place}.words", target.kind, source.words)
        with found.at(place):
            _check_value(target, source)

    def _check_place(self, place: str, where: Place, kinds: Kinds) -> None:
        with self._found.at(f"{place}.topic"):
            check_topic(where.topic, kinds)
        for key, text in (("root", where.root), ("items", where.items)):
            if text is not None:
                with self._found.at(f"{place}.{key}"):
                    check_path(path(text), kinds)
        once = where.root == "$" or where.items is None
        self._found.unless(once, place, "root and items at once")
        self._check_predicates(f"{place}.when", where.when, kinds)
        self._check_only_if(f"{place}.only_if", where.only_if)

    def _check_predicates(self, place: str, texts: Iterable[str], kinds: Kinds) -> None:
        for number, text in enumerate(texts):
            with self._found.at(f"{place}[{number}]"):
                check_names(predicate(text).placeholders, kinds)

    def _check_only_if(self, place: str, only_if: dict[str, tuple[bool | int | str, ...]]) -> None:
        for name in only_if:
            self._found.unless(name in self._profile.parameters, place, f"no parameter {name!r}")

    def _check_words(self, place: str, kind: ReadingKind, words: dict[str, Texts] | None) -> None:
        for ours, theirs in (words or {}).items():
            with self._found.at(place):
                value_of(kind, ours)
            for word in theirs:
                named = whole(word)
                fits = named is None or self.kinds.get(named.name) in _WORDLIKE
                self._found.unless(fits, place, f"{word} is no parameter that holds a word")


def _check_pick(pick: Path, kinds: Kinds, *, has_channel: bool) -> None:
    check_names(pick.placeholders, kinds)
    if not pick.is_wild:
        return
    rest = pick.steps[[isinstance(step, str | int) for step in pick.steps].index(False) + 1 :]
    if len(rest) > 1 or any(not isinstance(step, str) for step in rest):
        raise MalformedError("after a * stands one key at most")
    if has_channel:
        raise MalformedError("a * names the readings: a channel cannot")


def _check_value(target: Target, source: Source) -> None:
    """See that what the source says of its values fits the reading.

    Raises:
        MalformedError: it does not.
    """
    is_numeric = target.kind in _NUMERIC
    scaled = source.scale != 1 or source.offset != 0
    if (scaled or source.unit is not None or source.numeric_text) and not is_numeric:
        raise MalformedError("scale, unit and numeric_text are of numeric readings")
    if isinstance(source.unit, SiblingUnit):
        if source.pick is None:
            raise MalformedError("a bare payload names no unit")
        check_path(path(source.unit.pick), {})
        for unit in (*source.unit.words.values(), source.unit.otherwise):
            converter(unit, target.unit)
    elif is_numeric:
        converter(source.unit or target.unit, target.unit)
    if source.const is not None:
        if source.pick is not None:
            raise MalformedError("a constant picks nothing")
        _check_const(target.kind, source.const)


def _check_const(kind: ReadingKind, const: Value) -> None:
    fits = {
        ReadingKind.BOOLEAN: isinstance(const, bool),
        ReadingKind.INTEGER: type(const) is int,
        ReadingKind.NUMBER: type(const) in {int, float},
    }.get(kind, isinstance(const, str))
    if not fits:
        raise MalformedError(f"the constant is no {kind} value")
