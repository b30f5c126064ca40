"""The catalogue of actions: everything that a command can ask of a device.

An action is closed: typed arguments with ranges, one *effect*, one *slot*. A raw topic, payload,
path, script or URL cannot be expressed (SPEC V1). A device's own profile narrows the ranges and
lists the names of inputs and modes; it never widens them.

*Effect* says what a resend does (SPEC I3). *Slot* says which earlier command a later one replaces
(SPEC T4): a command supersedes those of the same issuer, device and slot that have not begun.

Some actions are made of *parts*, each an action by itself: they are done one after the other under one
lock, and undone in reverse when one of them fails (SPEC S1, S2).
"""

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from edgeagent.contracts.scalars import Words
from edgeagent.errors import MalformedError
from edgeagent.ids import ReadingName, artifact_id, digest
from edgeagent.values import dataclass

ArgumentValue = bool | int | float | Words
"""What an argument may be."""
Arguments = Mapping[str, ArgumentValue]
"""An action's arguments by name."""

_TEXT_LENGTH: Final = 64


class Effect(StrEnum):
    """What happens when the same action is sent again."""

    ABSOLUTE = "absolute"
    """The same end state: it may be resent."""
    ONE_SHOT = "one-shot"
    """It happens again: once its outcome is unknown it is never resent blindly."""


class ArgumentKind(StrEnum):
    """The type of an argument."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"
    ARTIFACT = "artifact id"
    DIGEST = "sha256 in hexadecimal"


class ActionName(StrEnum):
    """Every action there is."""

    POWER = "power"
    """Switch on or off."""
    TOGGLE = "toggle"
    """Switch to the other of on and off."""
    MUTE = "mute"
    """Silence the sound, or stop silencing it."""
    VOLUME = "volume"
    """Set the volume."""
    INPUT = "input"
    """Select an input by its name in the device's list."""
    BRIGHTNESS = "brightness"
    """Set the brightness of a light or screen."""
    COLOR_TEMPERATURE = "color_temperature"
    """Set the temperature of white light."""
    COLOR = "color"
    """Set the colour of a light."""
    SETPOINT = "setpoint"
    """Set the temperature to hold."""
    MODE = "mode"
    """Select a mode by its name in the device's list."""
    POSITION = "position"
    """Move a cover: 0 closed, 100 open."""
    LOCK = "lock"
    """Lock or unlock."""
    IDENTIFY = "identify"
    """Let the device show which one it is."""
    REBOOT = "reboot"
    """Restart the device."""
    INSTALL = "install"
    """Install firmware: an artifact, named by its id and its sha256, never by an address."""
    REFRESH = "refresh"
    """Read the device's state afresh; changes nothing."""
    PRESENT = "present"
    """Wake a screen, select its input, and set its volume."""
    SCENE = "scene"
    """Switch a light on, and set its brightness and the temperature of its white."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument of an action.

    Attributes:
        kind: its type.
        minimum: the least number, inclusive.
        maximum: the greatest number, inclusive.
        unit: of a number.
        optional: whether it may be left out.
    """

    kind: ArgumentKind
    minimum: float | None = None
    maximum: float | None = None
    unit: str = ""
    optional: bool = False

    def accepts(self, value: ArgumentValue) -> bool:
        """Whether ``value`` is of this type and in this range. True is no number, 1 no truth."""
        match self.kind:
            case ArgumentKind.BOOLEAN:
                return isinstance(value, bool)
            case ArgumentKind.TEXT:
                return isinstance(value, str) and 0 < len(value) <= _TEXT_LENGTH
            case ArgumentKind.ARTIFACT:
                return isinstance(value, str) and _is(artifact_id, value)
            case ArgumentKind.DIGEST:
                return isinstance(value, str) and _is(digest, value)
            case ArgumentKind.INTEGER:
                return type(value) is int and self._within(value)
            case ArgumentKind.NUMBER:
                return (type(value) is int or type(value) is float) and self._within(value)

    def _within(self, number: float) -> bool:
        low = self.minimum is None or number >= self.minimum
        return low and (self.maximum is None or number <= self.maximum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One of the actions that an action is made of.

    Attributes:
        action: which; absolute, and shown by a reading, so that it can be checked and undone.
        given: arguments that are always the same.
        takes: the whole's arguments by the part's own. A part whose argument is left out is left out.
    """

    action: ActionName
    given: Mapping[str, ArgumentValue] = field(default_factory=dict)
    takes: Mapping[str, str] = field(default_factory=dict)

    def arguments(self, whole: Arguments) -> dict[str, ArgumentValue] | None:
        """The part's own arguments; None where the whole leaves one of them out."""
        if all(name in whole for name in self.takes.values()):
            return {**self.given, **{own: whole[name] for own, name in self.takes.items()}}
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What the catalogue says of one action.

    Attributes:
        effect: what a resend does.
        slot: what a later command of it replaces; None when it replaces nothing.
        arguments: by name.
        reading: the state reading that shows the effect; None when none does.
        shows: the argument whose value that reading then has.
        parts: what it is made of; empty for an action that is one by itself.
    """

    effect: Effect
    slot: str | None
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    reading: ReadingName | None = None
    shows: str | None = None
    parts: tuple[Part, ...] = ()

    def needs(self, part: Part) -> bool:
        """Whether the action is none without one of its parts."""
        return not part.takes or any(not self.arguments[name].optional for name in part.takes.values())

    def check(self, arguments: Arguments) -> None:
        """Refuse arguments that the action does not have, or whose values are out of range.

        Raises:
            MalformedError: names the argument.
        """
        for name in arguments:
            if name not in self.arguments:
                raise MalformedError(f"there is no argument {name!r}")
        for name, argument in self.arguments.items():
            if name not in arguments:
                if not argument.optional:
                    raise MalformedError(f"the argument {name!r} is missing")
            elif not argument.accepts(arguments[name]):
                raise MalformedError(f"the argument {name!r} is {_expected(argument)}")


def slot_of(action: ActionName, arguments: Arguments) -> str | None:
    """The slot that a command occupies: that of its action, one for each channel.

    Returns:
        Such as ``power`` or ``power.2``; None for an action that replaces nothing.
    """
    slot = CATALOGUE[action].slot
    channel = arguments.get("channel")
    return slot if slot is None or channel is None else f"{slot}.{channel}"


def made_of(action: ActionName) -> frozenset[ActionName]:
    """An action, with all that it is made of: who may not have one of these done may not have it done."""
    return frozenset({action, *(part.action for part in CATALOGUE[action].parts)})


def _is(make: Callable[[str], str], text: str) -> bool:
    try:
        make(text)
    except MalformedError:
        return False
    return True


def _expected(argument: Argument) -> str:
    if argument.minimum is None or argument.maximum is None:
        return argument.kind.value
    unit = f" {argument.unit}" if argument.unit else ""
    return f"{argument.kind} from {argument.minimum:g} to {argument.maximum:g}{unit}"


# Relays, lights and covers come with several channels in one case; absent means the only one.
_CHANNEL: Final = Argument(kind=ArgumentKind.INTEGER, minimum=1, maximum=32, optional=True)
_TRUTH: Final = Argument(kind=ArgumentKind.BOOLEAN)
_PERCENT: Final = Argument(kind=ArgumentKind.INTEGER, minimum=0, maximum=100, unit="%")
_NAME: Final = Argument(kind=ArgumentKind.TEXT)
_BYTE: Final = Argument(kind=ArgumentKind.INTEGER, minimum=0, maximum=255)
_KELVIN: Final = Argument(kind=ArgumentKind.INTEGER, minimum=1000, maximum=20000, unit="K")
_ON: Final = Part(action=ActionName.POWER, given=MappingProxyType({"on": True}))


def _absolute(slot: str, **arguments: Argument) -> Action:
    return Action(
        effect=Effect.ABSOLUTE,
        slot=slot,
        arguments=MappingProxyType(arguments),
        reading=ReadingName(slot),
        shows=next(iter(arguments)),
    )


CATALOGUE: Final[Mapping[ActionName, Action]] = MappingProxyType(
    {
        ActionName.POWER: _absolute("power", on=_TRUTH, channel=_CHANNEL),
        ActionName.TOGGLE: Action(
            effect=Effect.ONE_SHOT, slot="power", arguments=MappingProxyType({"channel": _CHANNEL})
        ),
        ActionName.MUTE: _absolute("mute", on=_TRUTH),
        ActionName.VOLUME: _absolute("volume", level=_PERCENT),
        ActionName.INPUT: _absolute("input", name=_NAME),
        ActionName.BRIGHTNESS: _absolute("brightness", level=_PERCENT, channel=_CHANNEL),
        ActionName.COLOR_TEMPERATURE: _absolute("color_temperature", kelvin=_KELVIN, channel=_CHANNEL),
        ActionName.COLOR: Action(
            effect=Effect.ABSOLUTE,
            slot="color",
            arguments=MappingProxyType({"red": _BYTE, "green": _BYTE, "blue": _BYTE, "channel": _CHANNEL}),
            reading=ReadingName("color"),
        ),
        ActionName.SETPOINT: _absolute(
            "setpoint",
            celsius=Argument(kind=ArgumentKind.NUMBER, minimum=-30, maximum=100, unit="°C"),
            channel=_CHANNEL,
        ),
        ActionName.MODE: _absolute("mode", name=_NAME),
        ActionName.POSITION: _absolute("position", percent=_PERCENT, channel=_CHANNEL),
        ActionName.LOCK: _absolute("lock", locked=_TRUTH),
        ActionName.IDENTIFY: Action(effect=Effect.ONE_SHOT, slot=None),
        ActionName.REBOOT: Action(effect=Effect.ONE_SHOT, slot="reboot"),
        ActionName.INSTALL: Action(
            effect=Effect.ONE_SHOT,
            slot="firmware",
            arguments=MappingProxyType(
                {
                    "artifact": Argument(kind=ArgumentKind.ARTIFACT),
                    "digest": Argument(kind=ArgumentKind.DIGEST),
                }
            ),
        ),
        ActionName.REFRESH: Action(effect=Effect.ABSOLUTE, slot="refresh"),
        ActionName.PRESENT: Action(
            effect=Effect.ABSOLUTE,
            slot="present",
            arguments=MappingProxyType({"input": _NAME, "volume": replace(_PERCENT, optional=True)}),
            parts=(
                _ON,
                Part(action=ActionName.INPUT, takes=MappingProxyType({"name": "input"})),
                Part(action=ActionName.VOLUME, takes=MappingProxyType({"level": "volume"})),
            ),
        ),
        ActionName.SCENE: Action(
            effect=Effect.ABSOLUTE,
            slot="scene",
            arguments=MappingProxyType({"level": _PERCENT, "kelvin": replace(_KELVIN, optional=True)}),
            parts=(
                _ON,
                Part(action=ActionName.BRIGHTNESS, takes=MappingProxyType({"level": "level"})),
                Part(action=ActionName.COLOR_TEMPERATURE, takes=MappingProxyType({"kelvin": "kelvin"})),
            ),
        ),
    }
)
