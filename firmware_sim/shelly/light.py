"""``light``: a dimmer (shelly-api-docs, Components: Light).

``Light.Set`` answers ``null``. Brightness and output are two things: a brightness alone does not switch the
light on (*assumed*), and a light that is off keeps its brightness.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from firmware_sim.fields import Json
from firmware_sim.firmware import Board
from firmware_sim.part import Part
from firmware_sim.shelly.component import FlipBack, energy, metered, unheard
from firmware_sim.shelly.rpc import Request, invalid_argument, no_handler, not_found
from firmware_sim.walk import Meter

_LONGEST_TIMER = 86400


@dataclass(frozen=True, slots=True)
class LightState:
    """A dimmable light; ``brightness`` in per cent."""

    power: bool
    brightness: int

    def values(self) -> Mapping[str, Json]:
        """In the journal's words."""
        return {"power": self.power, "brightness": self.brightness}

    def wrong(self, before: "LightState") -> "LightState":
        """As if nothing had happened, or the other of on and off."""
        return before if before != self else replace(self, power=not self.power)


class Light:
    """One dimmer.

    Args:
        board: the hardware.
        number: its ``id``.
        seed: names its meter.
    """

    namespace: ClassVar[str] = "light"
    can: ClassVar[Sequence[str]] = ("power", "toggle", "brightness")

    def __init__(self, board: Board, number: int, seed: str) -> None:
        self.number = number
        self.piece = Part(board, f"light:{number}", LightState(power=False, brightness=50))
        self.announce: Callable[[], None] = unheard
        self._board = board
        self._meter = Meter(f"{seed}/light:{number}")
        self._timer = FlipBack(board)
        self._source = "init"

    def status(self) -> dict[str, Json]:
        """As ``Light.GetStatus`` gives it."""
        told = self.piece.told
        return {
            "id": self.number,
            "source": self._source,
            "output": told.power,
            "brightness": told.brightness,
            **self._timer.status(),
            **metered(self._meter.shown, self._board),
            "temperature": {"tC": 52.0, "tF": 125.6},
        }

    def denied(self) -> Sequence[str]:
        """Both, while it lies."""
        return ("output", "brightness") if self.piece.lying else ()

    def call(self, verb: str, request: Request) -> Json:
        """``Set``, ``Toggle``, ``GetStatus``."""
        if verb not in {"set", "toggle", "getstatus"}:
            raise no_handler(request.method)
        params = request.params
        if (number := params.component()) != self.number:
            raise not_found(number)
        if verb == "getstatus":
            return self.status()
        if verb == "toggle":
            self._toggle("MQTT")
            return None
        power = params.flag("on")
        brightness = params.number("brightness", least=0, most=100)
        flip_after = params.number("toggle_after", least=0.1, most=_LONGEST_TIMER)
        if power is None and brightness is None:
            raise invalid_argument("At least one of 'on' and 'brightness' is required!")
        before = self.piece.true
        state = LightState(
            power=before.power if power is None else power,
            brightness=before.brightness if brightness is None else int(brightness),
        )
        self._set("power" if brightness is None else "brightness", state, "MQTT")
        if flip_after is not None:
            self._timer.start(flip_after, lambda: self._flip_back(replace(state, power=not state.power)))
        return None

    def control(self, words: Sequence[str]) -> None:
        """``on``, ``off``, ``toggle``."""
        match words:
            case ["on"]:
                self._set("power", replace(self.piece.true, power=True), "MQTT")
            case ["off"]:
                self._set("power", replace(self.piece.true, power=False), "MQTT")
            case ["toggle"]:
                self._toggle("MQTT")
            case _:
                pass

    def press(self) -> None:
        """Toggles."""
        self._toggle("button")

    def boot(self) -> None:
        """The light is as it was; the timer is gone."""
        self._timer.stop()
        self._source = "init"

    def measure(self, hours: float) -> None:
        """Let the meter run."""
        self._meter.advance(hours=hours, share=self._share())

    def counted(self, number: int) -> dict[str, Json]:
        """The news of a meter that shows ``number`` kWh."""
        return {"id": self.number, "aenergy": energy(number, int(self._board.wall().timestamp()))}

    def _toggle(self, source: str) -> None:
        self._set("toggle", replace(self.piece.true, power=not self.piece.true.power), source)

    def _flip_back(self, state: LightState) -> None:
        self._set("power", state, "timer")
        self.announce()

    def _set(self, action: str, state: LightState, source: str) -> None:
        self._timer.stop()
        self._source = source
        self.piece.carry_out(action, state)
        self._meter.switched(self._share())

    def _share(self) -> float:
        state = self.piece.true
        return state.brightness / 100 if state.power else 0.0
