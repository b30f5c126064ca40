"""``switch``: a relay with a power meter (shelly-api-docs, Components: Switch).

``Switch.Set`` answers with what was before (``was_on``), not with what is: only the notification after it
tells that. Setting what is already set is answered just the same and notified only if something else, such
as ``source``, is new.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from firmware_sim.fields import Json
from firmware_sim.firmware import Board
from firmware_sim.part import Part
from firmware_sim.shelly.component import FlipBack, energy, metered, unheard
from firmware_sim.shelly.rpc import Request, invalid_argument, no_handler, not_found
from firmware_sim.walk import Meter

_LONGEST_TIMER = 86400


@dataclass(frozen=True, slots=True)
class SwitchState:
    """A relay: closed is on."""

    power: bool

    def values(self) -> Mapping[str, Json]:
        """In the journal's words."""
        return {"power": self.power}

    def wrong(self, _before: "SwitchState") -> "SwitchState":
        """The other one."""
        return SwitchState(not self.power)


class Switch:
    """One relay.

    Args:
        board: the hardware.
        number: its ``id``.
        seed: names its meter.
    """

    namespace: ClassVar[str] = "switch"
    can: ClassVar[Sequence[str]] = ("power", "toggle")

    def __init__(self, board: Board, number: int, seed: str) -> None:
        self.number = number
        self.piece = Part(board, f"switch:{number}", SwitchState(power=False))
        self.announce: Callable[[], None] = unheard
        self._board = board
        self._meter = Meter(f"{seed}/switch:{number}")
        self._timer = FlipBack(board)
        self._source = "init"

    def status(self) -> dict[str, Json]:
        """As ``Switch.GetStatus`` gives it."""
        return {
            "id": self.number,
            "source": self._source,
            "output": self.piece.told.power,
            **self._timer.status(),
            **metered(self._meter.shown, self._board),
            "temperature": {"tC": 41.5, "tF": 106.7},
        }

    def denied(self) -> Sequence[str]:
        """``output``, while it lies."""
        return ("output",) if self.piece.lying else ()

    def call(self, verb: str, request: Request) -> Json:
        """``Set``, ``Toggle``, ``GetStatus``."""
        if verb not in {"set", "toggle", "getstatus"}:
            raise no_handler(request.method)
        params = request.params
        if (number := params.component()) != self.number:
            raise not_found(number)
        if verb == "getstatus":
            return self.status()
        was_on = self.piece.true.power
        if verb == "toggle":
            self._set("toggle", power=not was_on, source="MQTT")
            return {"was_on": was_on}
        power = params.flag("on")
        flip_after = params.number("toggle_after", least=0.1, most=_LONGEST_TIMER)
        if power is None:
            raise invalid_argument("Missing required 'on'")
        self._set("power", power=power, source="MQTT")
        if flip_after is not None:
            self._timer.start(flip_after, lambda: self._flip_back(power=not power))
        return {"was_on": was_on}

    def control(self, words: Sequence[str]) -> None:
        """``on``, ``off``, ``toggle``."""
        match words:
            case ["on"]:
                self._set("power", power=True, source="MQTT")
            case ["off"]:
                self._set("power", power=False, source="MQTT")
            case ["toggle"]:
                self._set("toggle", power=not self.piece.true.power, source="MQTT")
            case _:
                pass

    def press(self) -> None:
        """Toggles."""
        self._set("toggle", power=not self.piece.true.power, source="button")

    def boot(self) -> None:
        """The relay is where it was; the timer is gone."""
        self._timer.stop()
        self._source = "init"

    def measure(self, hours: float) -> None:
        """Let the meter run."""
        self._meter.advance(hours=hours, share=float(self.piece.true.power))

    def counted(self, number: int) -> dict[str, Json]:
        """The news of a meter that shows ``number`` kWh."""
        return {"id": self.number, "aenergy": energy(number, int(self._board.wall().timestamp()))}

    def _flip_back(self, *, power: bool) -> None:
        self._set("power", power=power, source="timer")
        self.announce()

    def _set(self, action: str, *, power: bool, source: str) -> None:
        self._timer.stop()
        self._source = source
        self._meter.switched(float(power))
        self.piece.carry_out(action, SwitchState(power))
