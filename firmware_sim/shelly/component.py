"""What every component of a Shelly is to its device, and what several have in common.

A status is an object per component, such as ``switch:0``. Notifications carry only what has changed, to
be laid over what was known; a key that exists only for a time (``target_pos``, ``timer_duration``) is told as
``null`` when it goes (shelly-api-docs, General: Notifications).
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from firmware_sim.fields import Json
from firmware_sim.firmware import Board, Piece, Timer
from firmware_sim.shelly.rpc import Request
from firmware_sim.walk import Measured


class Component(Protocol):
    """One component; ``namespace`` and ``number`` make its key, such as ``switch:0``."""

    announce: Callable[[], None]
    """Set by the device: tells what has changed. Called when something changes by itself."""

    @property
    def namespace(self) -> str:
        """As in the key, in lower case."""
        ...

    @property
    def number(self) -> int:
        """Its ``id``."""
        ...

    @property
    def piece(self) -> Piece:
        """What can be set in it."""
        ...

    @property
    def can(self) -> Sequence[str]:
        """What it offers, in the journal's words."""
        ...

    def status(self) -> dict[str, Json]:
        """The whole status, as ``GetStatus`` gives it."""
        ...

    def denied(self) -> Sequence[str]:
        """The keys about which it lies at the moment: they are told even if they seem unchanged."""
        ...

    def call(self, verb: str, request: Request) -> Json:
        """Carry out a method; ``verb`` is its name in lower case, without the namespace.

        Raises:
            RpcError: it is not carried out.
        """
        ...

    def control(self, words: Sequence[str]) -> None:
        """Carry out a message of the plain control interface; what it does not know it ignores."""
        ...

    def press(self) -> None:
        """Its button was pressed."""
        ...

    def boot(self) -> None:
        """Begin anew with what is in flash: outputs are restored (``initial_state: restore_last``)."""
        ...

    def measure(self, hours: float) -> None:
        """Let the meter run."""
        ...

    def counted(self, number: int) -> dict[str, Json]:
        """The news of a meter that shows ``number`` kWh."""
        ...


def unheard() -> None:
    """Where ``announce`` goes before a component is in a device: nowhere."""


class FlipBack:
    """The timer of ``toggle_after``: it undoes a setting after some seconds.

    While it runs the status has two keys more.

    Args:
        board: the hardware.
    """

    def __init__(self, board: Board) -> None:
        self._board = board
        self._timer: Timer | None = None
        self._keys: dict[str, Json] = {}

    def start(self, seconds: float, undo: Callable[[], None]) -> None:
        """Run anew."""
        self.stop()

        def ring() -> None:
            self._timer, self._keys = None, {}
            undo()

        self._timer = self._board.start_timer(timedelta(seconds=seconds), ring)
        started = round(self._board.wall().timestamp(), 2)
        self._keys = {"timer_started_at": started, "timer_duration": seconds}

    def stop(self) -> None:
        """Forget it: whatever sets the output ends it."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._keys = None, {}

    def status(self) -> Mapping[str, Json]:
        """What it adds to the status."""
        return self._keys


def metered(measured: Measured, board: Board) -> dict[str, Json]:
    """What a power meter adds to a status; ``aenergy.total`` is in watt-hours."""
    minute = int(board.wall().timestamp()) // 60 * 60
    return {
        "apower": measured.watts,
        "voltage": measured.volts,
        "freq": 50.0,
        "current": measured.amperes,
        "pf": measured.factor,
        "aenergy": energy(measured.kilowatt_hours, minute),
    }


def energy(kilowatt_hours: float, minute: int) -> dict[str, Json]:
    """The object ``aenergy``."""
    return {"total": round(kilowatt_hours * 1000, 3), "minute_ts": minute}
