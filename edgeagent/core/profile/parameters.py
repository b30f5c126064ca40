"""The values of a profile's parameters: checked by their types, completed by defaults.

What comes out of here may be placed wherever its type may stand, whoever has chosen it: a person, a
discovery message, a row of the database.
"""

from collections.abc import Callable, Mapping
from typing import Final

from edgeagent import ids
from edgeagent.contracts.profile import DeviceProfile, Parameter, ParameterType
from edgeagent.core.profile.paths import same
from edgeagent.core.profile.templates import Kinds, template
from edgeagent.errors import MalformedError
from edgeagent.ids import DeviceId, HubId
from edgeagent.values import dataclass

ParameterValue = bool | int | str | tuple[int, ...]
"""What a parameter can be; the ids of an ``integers`` in the order given."""

TEMPLATED: Final = frozenset({ParameterType.SEGMENT, ParameterType.TOPIC, ParameterType.PREFIX})
"""Types whose default may mention the parameters above it."""
_OF_ONE_DEVICE: Final = TEMPLATED | {ParameterType.MAC}
MOST_CHANNELS: Final = 32
_MAC_DIGITS: Final = 12
_MOST_TEXT: Final = 128

BUILT_IN: Final[Kinds] = {
    "device": ParameterType.SEGMENT,
    "reply": ParameterType.PREFIX,
}
"""What every device has: its own id, and the prefix under which it answers us."""
OF_A_CHANNEL: Final[Kinds] = {
    "id": ParameterType.INTEGER,
    "channel": ParameterType.INTEGER,
    "suffix": ParameterType.CHOICE,
    "component": ParameterType.SEGMENT,
}
"""What every channel has: the device's id of it, our number of it, the device's id where the device has
several of its kind and nothing where it has one, and what the device calls it."""
NUMBER: Final = "number"
"""The correlation number of a message that we send."""
COLOR: Final = "color"
"""The colour that red, green and blue make, as ``#RRGGBB``."""
URL: Final = "url"
"""Where the image of an update is."""
VERSION: Final = "version"
"""Which version it is."""
RESERVED: Final = frozenset({*BUILT_IN, *OF_A_CHANNEL, NUMBER, COLOR, URL, VERSION})
"""Names that no parameter may have; nor those of the arguments of an action that the profile has."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """This hub as devices address it.

    Attributes:
        hub: its id.
    """

    hub: HubId

    def reply(self, device: DeviceId) -> str:
        """The prefix under which a device answers us: its own, so that an access list can bind it."""
        return f"edgeagent/{self.hub}/{device}"


@dataclass(frozen=True, slots=True)
class Scope:
    """What placeholders stand for.

    Attributes:
        values: the value of each name that has one.
    """

    values: Mapping[str, ParameterValue]

    def has(self, names: frozenset[str]) -> bool:
        """Whether all of these have a value."""
        return names <= self.values.keys()


def kinds_of(profile: DeviceProfile) -> dict[str, ParameterType]:
    """The types of all names that a topic outside any channel may use."""
    return {name: parameter.type for name, parameter in profile.parameters.items()} | dict(BUILT_IN)


def applies(only_if: Mapping[str, tuple[bool | int | str, ...]], scope: Scope) -> bool:
    """Whether every parameter has one of the values that it must have."""
    return all(
        any(same(scope.values.get(name), allowed) for allowed in values) for name, values in only_if.items()
    )


def identifying(profile: DeviceProfile) -> frozenset[str]:
    """The names whose value is one device's alone, so that a topic with one in it is its own.

    A text of a topic that has no default, or one made of such; a family's common prefix is none.
    """
    found = {"device", "reply"}
    for name, parameter in profile.parameters.items():
        default = parameter.default
        if parameter.type in TEMPLATED and isinstance(default, str):
            if template(default).placeholders & found:
                found.add(name)
        elif parameter.type in _OF_ONE_DEVICE and default is None:
            found.add(name)
    return frozenset(found)


def settle(
    profile: DeviceProfile,
    device: DeviceId,
    given: Mapping[str, object],
    gateway: Gateway,
    *,
    partly: bool = False,
) -> Scope:
    """Check the given values and complete them.

    Args:
        profile: of its family.
        device: its native identity.
        given: values of parameters.
        gateway: this hub as devices address it.
        partly: whether what is missing is left out, as for a bridge before it has any device.

    Raises:
        MalformedError: names the parameter: unknown, missing, or not of its type.
    """
    for name in given:
        if name not in profile.parameters:
            raise MalformedError(f"{profile.id} has no parameter {name!r}")
    values: dict[str, ParameterValue] = {"device": device, "reply": gateway.reply(device)}
    for name, parameter in profile.parameters.items():
        value = given.get(name)
        if value is None:
            value = _default(parameter, values)
        if value is not None:
            values[name] = _checked(name, parameter, value)
        elif not parameter.optional and not partly:
            raise MalformedError(f"the parameter {name!r} is missing")
    return Scope(values)


def check(parameter: Parameter, value: object) -> ParameterValue:
    """See that a value is of the parameter's type, and bring it into its form.

    Raises:
        MalformedError: it is not.
    """
    return _CHECKS[parameter.type](parameter, value)


def _checked(name: str, parameter: Parameter, value: object) -> ParameterValue:
    try:
        return check(parameter, value)
    except MalformedError as why:
        raise MalformedError(f"the parameter {name!r}: {why}") from why


def _default(parameter: Parameter, values: Mapping[str, ParameterValue]) -> object:
    default = parameter.default
    if isinstance(default, str) and parameter.type in TEMPLATED:
        return template(default).render(values)
    return default


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise MalformedError("not text")
    return value


def _segment(_: Parameter, value: object) -> str:
    return ids.topic_segment(_text(value))


def _levels(parameter: Parameter, value: object) -> str:
    text = _text(value)
    if text.endswith("/"):
        raise MalformedError("levels of a topic, without a slash at the end")
    return _without(parameter, ids.topic(text))


def _without(parameter: Parameter, topic: str) -> str:
    for level in topic.split("/")[1:]:
        if level in parameter.without:
            raise MalformedError(f"a level {level!r}, by which its family tells a command to another device")
    return topic


def _integer(parameter: Parameter, value: object) -> int:
    if type(value) is not int or not parameter.minimum <= value <= parameter.maximum:
        raise MalformedError(f"not a whole number from {parameter.minimum} to {parameter.maximum}")
    return value


def _integers(parameter: Parameter, value: object) -> tuple[int, ...]:
    if not isinstance(value, list | tuple) or len(value) > MOST_CHANNELS:
        raise MalformedError(f"not a list of at most {MOST_CHANNELS} whole numbers")
    numbers = tuple(_integer(parameter, each) for each in value)
    if len(set(numbers)) != len(numbers):
        raise MalformedError("a number stands twice")
    return numbers


def _boolean(_: Parameter, value: object) -> bool:
    if not isinstance(value, bool):
        raise MalformedError("neither true nor false")
    return value


def _choice(parameter: Parameter, value: object) -> str:
    if value not in parameter.choices:
        raise MalformedError(f"not one of {', '.join(parameter.choices)}")
    return _text(value)


def _mac(_: Parameter, value: object) -> str:
    digits = _text(value).replace(":", "").replace("-", "").upper()
    if len(digits) != _MAC_DIGITS or not set(digits) <= set("0123456789ABCDEF"):
        raise MalformedError("not a MAC address")
    return digits


def _printable(_: Parameter, value: object) -> str:
    text = _text(value)
    if not 0 < len(text) <= _MOST_TEXT or not text.isprintable():
        raise MalformedError(f"not a printable text of at most {_MOST_TEXT} characters")
    return text


_CHECKS: Final[Mapping[ParameterType, Callable[[Parameter, object], ParameterValue]]] = {
    ParameterType.SEGMENT: _segment,
    ParameterType.TOPIC: _levels,
    ParameterType.PREFIX: _levels,
    ParameterType.INTEGER: _integer,
    ParameterType.INTEGERS: _integers,
    ParameterType.BOOLEAN: _boolean,
    ParameterType.CHOICE: _choice,
    ParameterType.MAC: _mac,
    ParameterType.TEXT: _printable,
}
