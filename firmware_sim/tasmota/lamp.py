"""A lamp (xdrv_04_light.ino), with colours and whites linked as delivered: it shines in one or the other.

*   Every command that sets something is answered with the whole state of the lamp, not with what was sent.
*   Setting brightness or colour switches a lamp that is off on, and then *no* ``stat/…/POWER`` is said: only
    the answer tells. ``SetOption20`` keeps it off. Brightness 0 switches it off.
*   A value out of range is taken for a query: ``Dimmer 101`` answers ``{"Dimmer":40}``, and nothing happens.
*   A command that this lamp is too simple for is answered ``{"Command":"Error"}``.
*   ``Color`` has two digits for each channel: ten for five channels, so ``FF000000`` and more after red.
*   ``CT`` is in mireds, 153 cold to 500 warm.
*   Brightness is kept in 255 steps, told in 100.
"""

import re
from collections.abc import Mapping, Sequence
from colorsys import hsv_to_rgb, rgb_to_hsv
from dataclasses import dataclass, replace
from typing import Final

from firmware_sim.fields import Json
from firmware_sim.firmware import Board
from firmware_sim.part import Part
from firmware_sim.tasmota.command import Command, number
from firmware_sim.tasmota.settings import LightKind

COLDEST: Final = 153
WARMEST: Final = 500
_FULL: Final = 255
_STEP: Final = 10
# What a lamp that was dimmed to nothing shines with when it is switched on (assumed).
_FAINT: Final = 50
_HEX: Final = re.compile(r"#?([0-9A-Fa-f]{6})(?:[0-9A-Fa-f]{2}){0,2}", re.ASCII)


def scaled(value: int, source: int, target: int) -> int:
    """A value on another scale, rounded as ``changeUIntScale`` rounds."""
    return (value * target + source // 2) // source


@dataclass(frozen=True, slots=True)
class LampState:
    """What a lamp does.

    Attributes:
        power: on or off.
        level: brightness from 0 to 255.
        pure: the colour at full brightness: one channel is 255.
        mireds: of the whites.
        white: whether the whites shine rather than the colours.
    """

    power: bool = False
    level: int = 255
    pure: tuple[int, int, int] = (255, 255, 255)
    mireds: int = 250
    white: bool = False

    @property
    def percent(self) -> int:
        """Brightness as told."""
        return scaled(self.level, _FULL, 100)

    @property
    def rgb(self) -> tuple[int, int, int]:
        """The colour channels as they shine."""
        if self.white:
            return (0, 0, 0)
        red, green, blue = (scaled(channel * self.level, _FULL, 1) for channel in self.pure)
        return (red, green, blue)

    @property
    def whites(self) -> tuple[int, int]:
        """The cold and the warm channel as they shine."""
        if not self.white:
            return (0, 0)
        warm = scaled((self.mireds - COLDEST) * self.level, WARMEST - COLDEST, 1)
        return (self.level - warm, warm)

    def coloured(self, red: int, green: int, blue: int) -> "LampState":
        """The same lamp in a colour; black keeps the colour and goes dark."""
        most = max(red, green, blue)
        if most == 0:
            return replace(self, level=0, white=False)
        pure = (scaled(red, most, _FULL), scaled(green, most, _FULL), scaled(blue, most, _FULL))
        return replace(self, level=most, pure=pure, white=False)

    def values(self) -> Mapping[str, Json]:
        """In the journal's words."""
        shining: Mapping[str, Json] = (
            {"color_temperature_mired": self.mireds}
            if self.white
            else {"color": "#" + "".join(f"{channel:02X}" for channel in self.rgb)}
        )
        return {"power": self.power, "brightness": self.percent, **shining}

    def wrong(self, before: "LampState") -> "LampState":
        """As if nothing had happened, or the other of on and off."""
        return before if before != self else replace(self, power=not self.power)


class Lamp:
    """The lamp of a device.

    Args:
        board: the hardware.
        name: such as ``POWER``.
        kind: what it can do.
    """

    def __init__(self, board: Board, name: str, kind: LightKind) -> None:
        self.kind = kind
        self.piece = Part(board, name, LampState(white=kind is LightKind.CT))
        colour = ("color",) if kind in {LightKind.RGB, LightKind.RGBCCT} else ()
        whites = ("color_temperature",) if kind in {LightKind.CT, LightKind.RGBCCT} else ()
        self.can: Sequence[str] = ("power", "toggle", "identify", "brightness", *colour, *whites)

    @property
    def power(self) -> bool:
        """Whether it is on."""
        return self.piece.true.power

    @property
    def told_power(self) -> bool:
        """Whether it says that it is on."""
        return self.piece.told.power

    def switch(self, action: str, *, power: bool) -> None:
        """Switch it; it comes back as it was."""
        state = self.piece.true
        self.piece.carry_out(action, replace(state, power=power, level=state.level or _FAINT))

    def identify(self) -> None:
        """Blink."""
        self.piece.carry_out("identify", self.piece.true)

    def obey(self, command: Command, *, linked: bool) -> Mapping[str, Json] | None:
        """Carry out one of the lamp's own commands.

        Args:
            command: which.
            linked: whether setting something switches on (not SetOption20).

        Returns:
            What was only asked for; empty when something was set, and the whole state is the answer.
            None when this lamp is too simple for it.
        """
        state = self.piece.true
        match command.name:
            case "DIMMER":
                return self._set(
                    "brightness", _dimmed(state, command), {"Dimmer": state.percent}, linked=linked
                )
            case "CT" if "color_temperature" in self.can:
                fits = COLDEST <= command.number <= WARMEST
                wanted = replace(state, mireds=command.number, white=True) if fits else None
                return self._set("color_temperature", wanted, {"CT": state.mireds}, linked=linked)
            case "WHITE" if "color_temperature" in self.can:
                wanted = _dimmed(replace(state, white=True), command)
                return self._set(
                    "brightness", wanted, {"White": state.percent if state.white else 0}, linked=linked
                )
            case "COLOR" if self.kind is not LightKind.DIMMER:
                asked: Mapping[str, Json] = {"Color": self._hex(state, "")}
                return self._set("color", _colour(state, command.data), asked, linked=linked)
            case "HSBCOLOR" if "color" in self.can:
                return self._set("color", _hsb(state, command), {"HSBColor": _hsb_text(state)}, linked=linked)
            case _:
                return None

    def status(self, key: str, words: Sequence[str], *, decimal: bool) -> dict[str, Json]:
        """The whole state as told.

        Args:
            key: ``POWER`` or ``POWER1``.
            words: for off and on.
            decimal: colours as decimals (SetOption17).
        """
        told = self.piece.told
        status: dict[str, Json] = {key: words[told.power], "Dimmer": told.percent}
        if self.kind is LightKind.DIMMER:
            return status
        status["Color"] = self._hex(told, "," if decimal else "")
        if "color" in self.can:
            status["HSBColor"] = _hsb_text(told)
        if "color_temperature" in self.can:
            status["White"] = told.percent if told.white else 0
            status["CT"] = told.mireds
        status["Channel"] = [scaled(channel, _FULL, 100) for channel in self._channels(told)]
        return status

    def _set(
        self, action: str, wanted: LampState | None, asked: Mapping[str, Json], *, linked: bool
    ) -> Mapping[str, Json]:
        if wanted is None:
            return asked
        power = wanted.level > 0 and (wanted.power or linked)
        self.piece.carry_out(action, replace(wanted, power=power))
        return {}

    def _channels(self, state: LampState) -> tuple[int, ...]:
        match self.kind:
            case LightKind.DIMMER:
                return (state.level,)
            case LightKind.CT:
                return state.whites
            case LightKind.RGB:
                return state.rgb
            case LightKind.RGBCCT:
                return (*state.rgb, *state.whites)

    def _hex(self, state: LampState, comma: str) -> str:
        channels = self._channels(state)
        return (
            comma.join(str(one) for one in channels) if comma else "".join(f"{one:02X}" for one in channels)
        )


def _dimmed(state: LampState, command: Command) -> LampState | None:
    match command.data:
        case "+":
            percent = min(state.percent + _STEP, 100)
        case "-":
            percent = max(state.percent - _STEP, 0)
        case _ if 0 <= command.number <= 100 and command.data:  # noqa: PLR2004 - per cent
            percent = command.number
        case _:
            return None
    return replace(state, level=scaled(percent, 100, _FULL))


def _colour(state: LampState, data: str) -> LampState | None:
    """``RRGGBB`` with or without ``#`` and with or without digits for the whites; or ``r,g,b``."""
    if match := _HEX.fullmatch(data):
        return state.coloured(*bytes.fromhex(match[1]))
    levels = [number(one) for one in data.split(",")]
    if len(levels) == 3 and all(0 <= level <= _FULL for level in levels):  # noqa: PLR2004 - red, green, blue
        return state.coloured(*levels)
    return None


def _hsb(state: LampState, command: Command) -> LampState | None:
    """``hue,saturation,brightness``: degrees, per cent, per cent; or one of them by its index."""
    wanted = list(_hsb_of(state))
    parts = [number(one) for one in command.data.split(",")]
    if len(parts) == len(wanted):
        wanted = parts
    elif len(parts) == 1 and command.data and 1 <= command.index <= len(wanted):
        wanted[command.index - 1] = parts[0]
    else:
        return None
    hue, saturation, brightness = wanted
    if not (0 <= hue <= 360 and 0 <= saturation <= 100 and 0 <= brightness <= 100):  # noqa: PLR2004 - degrees, per cent
        return None
    red, green, blue = (round(one * _FULL) for one in hsv_to_rgb(hue % 360 / 360, saturation / 100, 1.0))
    return replace(state, pure=(red, green, blue), level=scaled(brightness, 100, _FULL), white=False)


def _hsb_of(state: LampState) -> tuple[int, int, int]:
    hue, saturation, _ = rgb_to_hsv(*(channel / _FULL for channel in state.pure))
    return (round(hue * 360) % 360, round(saturation * 100), 0 if state.white else state.percent)


def _hsb_text(state: LampState) -> str:
    return ",".join(str(one) for one in _hsb_of(state))
