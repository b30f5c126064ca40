"""One device behind a bridge: what is so, what can be set, its flash, and whether it can be reached."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final

from firmware_sim.fields import Json
from firmware_sim.firmware import Board, Effect, PowerLostError
from firmware_sim.flash import Flash, Layout
from firmware_sim.image import Family, Label, Order
from firmware_sim.part import Part
from firmware_sim.walk import Walk
from firmware_sim.zigbee2mqtt.image import made, whole
from firmware_sim.zigbee2mqtt.models import BORN, Amount, Born, Word
from firmware_sim.zigbee2mqtt.settings import Paired

_WAY: Final = 100
# In one boot; a plan can let the power fail at every write.
_POWER_CUTS: Final = 20


class NotSetError(Exception):
    """Something was not set; the message says why, as the log has it."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """What can be set, as it is."""

    told: Mapping[str, Json]

    def values(self) -> Mapping[str, Json]:
        """In the bridge's words."""
        return self.told

    def wrong(self, before: "Attributes") -> "Attributes":
        """As it was before, or with the first word turned round."""
        if before != self:
            return before
        turned = {"ON": "OFF", "OFF": "ON", "OPEN": "CLOSE", "CLOSE": "OPEN"}
        return Attributes({name: turned.get(str(value), value) for name, value in self.told.items()})


class EndDevice:
    """See the module's docstring.

    Args:
        board: of its bridge.
        paired: what it is.
        seed: names its walks.
    """

    def __init__(self, board: Board, paired: Paired, seed: str) -> None:
        self.paired = paired
        self.born = BORN[paired.model]
        self.name = paired.friendly
        self.reachable = True
        self.gone = False
        self._board = board
        self.piece = Part(board, paired.ieee, Attributes(dict(self.born.first)))
        self._walks = {
            name: Walk(f"{seed}/{paired.ieee}/{name}", start, step=step, low=low, high=high)
            for name, (start, step, low, high) in _measures(self.born, paired).items()
        }
        label = Label(
            family=Family.ZIGBEE,
            model=paired.model.value,
            hardware=str(paired.hardware),
            version=str(paired.version),
        )
        check = partial(whole, kind=self.born.kind, hardware=paired.hardware)
        factory = made(Order(label=label), self.born.kind)
        self.flash = Flash(board, paired.ieee, Layout(), check, factory)

    @property
    def ieee(self) -> str:
        """Its address."""
        return self.paired.ieee

    @property
    def version(self) -> int:
        """What it says that it runs."""
        return int(self.flash.told.version)

    def measure(self) -> None:
        """Measure anew."""
        for walk in self._walks.values():
            walk.advance()

    def told(self) -> dict[str, Json]:
        """All attributes, as the bridge caches them."""
        measured = {name: round(walk.value, 1) for name, walk in self._walks.items()}
        return {**self.piece.told.told, **measured, "linkquality": 120}

    def set(self, name: str, value: Json) -> None:
        """Set one attribute.

        Raises:
            NotSetError: it is not set.
        """
        kind = self.born.settable.get(name)
        if kind is None:
            raise NotSetError(f"No converter available for '{name:.100}'")
        if not self.reachable:
            raise NotSetError("Data request failed with error: 'No network route' (205)")
        now: dict[str, Json] = dict(self.piece.true.told)
        match kind:
            case Word():
                now |= _word(name, value if isinstance(value, str) else "", kind, now)
            case Amount():
                now |= _amount(name, value, kind)
        self.piece.carry_out(_action(name), Attributes(now))

    def press(self) -> None:
        """Somebody uses it by hand; what cannot be set has no button."""
        for name, kind in self.born.settable.items():
            if isinstance(kind, Word) and self.reachable:
                others = [word for word in kind.words if word != self.piece.true.told[name]]
                self.piece.carry_out(_action(name), Attributes({**self.piece.true.told, name: others[0]}))
                return

    def restart(self, usual: timedelta, then: Callable[[], None]) -> None:
        """Boot, as often as its power fails, and be there again.

        Args:
            usual: how long one boot takes.
            then: called each time when it is there again, or is known to be gone.
        """
        self.reachable = False
        self._board.carried_out(Effect("reboot", self.ieee, {}, {}, changed=True))
        for _ in range(_POWER_CUTS):
            with suppress(PowerLostError):
                lasted = self.flash.boot(usual)
                break
        else:
            lasted = None
        if lasted is None:
            self.leave()
            then()
            return
        self._board.start_timer(lasted, lambda: self._back(usual, then))

    def leave(self) -> None:
        """Be gone for good."""
        self.reachable, self.gone = False, True

    def while_away(self, usual: timedelta) -> None:
        """The bridge was away: whatever the device was doing, it has ended."""
        self.reachable = not self.gone
        with suppress(PowerLostError):
            self.flash.came_up(usual)

    def _back(self, usual: timedelta, then: Callable[[], None]) -> None:
        self.reachable = True
        try:
            again = self.flash.came_up(usual)
        except PowerLostError:
            again = timedelta(0)
        if again is not None:
            self._board.start_timer(again, lambda: self.restart(usual, then))
        then()


def _word(name: str, value: str, kind: Word, now: Mapping[str, Json]) -> dict[str, Json]:
    """What a word makes of it, in any case of letters."""
    words = {word.lower(): word for word in (*kind.words, *kind.moves)}
    word = words.get(value.lower())
    match word:
        case None:
            raise NotSetError(
                f"'{name}' has no value {value:.100}, supported are {', '.join(words.values())}"
            )
        case "TOGGLE":
            return {name: "OFF" if now[name] == "ON" else "ON"}
        case "STOP":
            return {}
        case "OPEN" | "CLOSE":
            return {name: word, "position": _WAY if word == "OPEN" else 0}
        case _:
            return {name: word}


def _amount(name: str, value: Json, kind: Amount) -> dict[str, Json]:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise NotSetError(f"Invalid value for '{name}'")
    if not kind.least <= value <= kind.most:
        raise NotSetError(f"'{name}' value {value} is outside of {kind.least:g} to {kind.most:g}")
    amount: dict[str, Json] = {name: round(value) if kind.whole else float(value)}
    return amount | {"state": "OPEN" if value else "CLOSE"} if name == "position" else amount


def _action(name: str) -> str:
    return {"state": "power", "current_heating_setpoint": "setpoint"}.get(name, name)


def _measures(born: Born, paired: Paired) -> dict[str, tuple[float, float, float, float]]:
    """What it measures: start, step, least and greatest; its battery as its owner has left it."""
    return {
        name: (float(paired.battery) if name == "battery" else start, step, low, high)
        for name, (start, step, low, high) in born.measures.items()
    }
