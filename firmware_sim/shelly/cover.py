"""``cover``: a motor that opens and closes something (shelly-api-docs, Components: Cover).

A command is answered ``null`` as soon as the motor runs, which says nothing about arriving. While it runs
the status has ``target_pos``, ``move_timeout`` and ``move_started_at``; they are told as ``null`` when it has
stopped. ``current_pos`` counts from 0, closed, to 100, open. Until the cover is calibrated it is ``null``,
``pos_control`` is false and ``GoToPosition`` is refused. ``open`` and ``closed`` are states; every other rest
is ``stopped``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Final

from firmware_sim.fields import Json
from firmware_sim.firmware import Board, Timer
from firmware_sim.part import Part
from firmware_sim.shelly.component import energy, metered, unheard
from firmware_sim.shelly.rpc import (
    Request,
    failed_precondition,
    invalid_argument,
    no_handler,
    not_found,
)
from firmware_sim.walk import Meter

OPEN: Final = 100
CLOSED: Final = 0


@dataclass(frozen=True, slots=True)
class CoverState:
    """Where a cover is, and where it goes; ``target`` is None while it rests."""

    position: int
    target: int | None = None

    def values(self) -> Mapping[str, Json]:
        """In the journal's words."""
        return {"position": self.position, "target": self.target}

    def wrong(self, before: "CoverState") -> "CoverState":
        """It rests somewhere else, or where it was."""
        if self.target is None or before == self:
            return CoverState(self.position - 10 if self.position > OPEN // 2 else self.position + 10)
        return before


class Cover:
    """One motor.

    Args:
        board: the hardware.
        number: its ``id``.
        seed: names its meter.
        travel: how long it takes from closed to open.
        calibrated: whether it knows its positions.
    """

    namespace: ClassVar[str] = "cover"
    number: int

    def __init__(self, board: Board, number: int, seed: str, *, travel: timedelta, calibrated: bool) -> None:
        self.number = number
        self.piece = Part(board, f"cover:{number}", CoverState(CLOSED))
        self.can = ("position", "stop") if calibrated else ("stop",)
        self.announce: Callable[[], None] = unheard
        self._board = board
        self._meter = Meter(f"{seed}/cover:{number}")
        self._travel = travel
        self._calibrated = calibrated
        self._arrival: Timer | None = None
        self._started = timedelta(0)
        self._started_at: float = 0
        self._direction = "close"
        self._source = "init"

    def status(self) -> dict[str, Json]:
        """As ``Cover.GetStatus`` gives it."""
        told = self.piece.told
        moving: dict[str, Json] = {}
        if told.target is not None:
            timeout = round(self._travel.total_seconds() * 1.5, 2)
            moving = {"move_timeout": timeout, "move_started_at": self._started_at}
            if self._calibrated:
                moving["target_pos"] = told.target
        return {
            "id": self.number,
            "source": self._source,
            "state": self._word(told),
            **metered(self._meter.shown, self._board),
            "temperature": {"tC": 38.5, "tF": 101.3},
            "pos_control": self._calibrated,
            "last_direction": self._direction,
            "current_pos": told.position if self._calibrated else None,
            **moving,
        }

    def denied(self) -> Sequence[str]:
        """State and position, while it lies."""
        return ("state", "current_pos") if self.piece.lying else ()

    def call(self, verb: str, request: Request) -> Json:
        """``Open``, ``Close``, ``Stop``, ``GoToPosition``, ``GetStatus``."""
        if verb not in {"open", "close", "stop", "gotoposition", "getstatus"}:
            raise no_handler(request.method)
        if (number := request.params.component()) != self.number:
            raise not_found(number)
        match verb:
            case "open":
                self._go(OPEN, "MQTT")
            case "close":
                self._go(CLOSED, "MQTT")
            case "stop":
                self._stop("MQTT")
            case "gotoposition":
                self._go(self._wanted(request), "MQTT")
            case _:
                return self.status()
        return None

    def control(self, words: Sequence[str]) -> None:
        """``open``, ``close``, ``stop``, ``pos,<0-100>``."""
        match words:
            case ["open"]:
                self._go(OPEN, "MQTT")
            case ["close"]:
                self._go(CLOSED, "MQTT")
            case ["stop"]:
                self._stop("MQTT")
            case ["pos", number] if self._calibrated and number.isdecimal() and int(number) <= OPEN:
                self._go(int(number), "MQTT")
            case _:
                pass

    def press(self) -> None:
        """Stops a moving cover; otherwise the other way round."""
        if self.piece.true.target is not None:
            self._stop("button")
        else:
            self._go(CLOSED if self._direction == "open" else OPEN, "button")

    def boot(self) -> None:
        """The motor stands where the power left it."""
        self._halt()
        if self.piece.true.target is not None:
            self.piece.carry_out("stop", CoverState(self._position()))
        self._source = "init"

    def measure(self, hours: float) -> None:
        """Let the meter run."""
        self._meter.advance(hours=hours, share=float(self.piece.true.target is not None))

    def counted(self, number: int) -> dict[str, Json]:
        """The news of a meter that shows ``number`` kWh."""
        return {"id": self.number, "aenergy": energy(number, int(self._board.wall().timestamp()))}

    def _wanted(self, request: Request) -> int:
        absolute = request.params.number("pos", least=CLOSED, most=OPEN)
        relative = request.params.number("rel", least=-OPEN, most=OPEN)
        if not self._calibrated:
            raise failed_precondition("Cover is not calibrated!")
        if (absolute is None) == (relative is None):
            raise invalid_argument("One of 'pos' and 'rel' is required!")
        if relative is not None:
            absolute = min(max(self._position() + relative, CLOSED), OPEN)
        return int(absolute or 0)

    def _go(self, target: int, source: str) -> None:
        position = self._position()
        self._halt()
        self._source = source
        self._direction = "open" if target > position else "close"
        self._meter.switched(1.0)
        self._started = self._board.uptime()
        self._started_at = round(self._board.wall().timestamp(), 2)
        way = self._travel * abs(target - position) / OPEN
        self.piece.carry_out("position", CoverState(position, target))
        self._arrival = self._board.start_timer(way, lambda: self._arrive(target))

    def _arrive(self, target: int) -> None:
        self._arrival = None
        self._source = "limit_switch" if target in {OPEN, CLOSED} else "timeout"
        self._meter.switched(0.0)
        self.piece.carry_out("arrived", CoverState(target))
        self.announce()

    def _stop(self, source: str) -> None:
        position = self._position()
        self._halt()
        self._source = source
        self._meter.switched(0.0)
        self.piece.carry_out("stop", CoverState(position))

    def _halt(self) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None

    def _position(self) -> int:
        """Where it is at this moment."""
        state = self.piece.true
        if state.target is None:
            return state.position
        gone = int((self._board.uptime() - self._started) / self._travel * OPEN)
        if state.target > state.position:
            return min(state.position + gone, state.target)
        return max(state.position - gone, state.target)

    def _word(self, state: CoverState) -> str:
        if state.target is not None:
            return "opening" if self._direction == "open" else "closing"
        return {OPEN: "open", CLOSED: "closed"}.get(state.position, "stopped")
