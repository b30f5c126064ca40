"""A board on a bench: no network and no time; the power fails at the write that a test names."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from firmware_sim.faults import Fault, Kind
from firmware_sim.fields import Json
from firmware_sim.firmware import Effect, PowerLostError, Said, Subscription, Taker, Timer, Wanted
from firmware_sim.journal import What


class _Nothing:
    def cancel(self) -> None:
        """There is nothing to forget."""


@dataclass
class Bench:
    """``firmware.Board``.

    Attributes:
        fails_at: the writes of flash that the power fails at, counted from 1.
        faults: what befalls, and how often still.
        writes: how many there were.
        notes: what was written down.
    """

    fails_at: frozenset[int] = frozenset()
    faults: dict[Kind, int] = field(default_factory=dict)
    writes: int = 0
    notes: list[tuple[What, Mapping[str, Json]]] = field(default_factory=list)
    honest: bool = True
    maker: bytes = b""
    address: str = "127.0.0.1"

    def writes_flash(self, part: str) -> None:  # noqa: ARG002 - there is one
        """Fail where it should."""
        self.writes += 1
        if self.writes in self.fails_at:
            raise PowerLostError

    def befalls(
        self,
        kind: Kind,
        part: str,  # noqa: ARG002 - there is one
        *,
        percent: float = 100,  # noqa: ARG002 - as soon as it is asked for
        update: int | None = None,  # noqa: ARG002 - of every update
    ) -> Fault | None:
        """Befall as often as was set."""
        left = self.faults.get(kind, 0)
        self.faults[kind] = left - 1
        return Fault(kind=kind, lasting=timedelta(seconds=7)) if left > 0 else None

    def note(self, what: What, details: Mapping[str, Json]) -> None:
        """Write it down."""
        self.notes.append((what, details))

    def say(self, message: Said) -> None:
        """Nobody hears it."""

    def subscribe(self, wanted: Sequence[Subscription]) -> None:
        """Nobody speaks."""

    def carried_out(self, effect: Effect) -> None:
        """Nobody looks."""

    def restart(self, after: timedelta) -> None:
        """Whoever tests boots."""

    def start_timer(self, after: timedelta, ring: Callable[[], None]) -> Timer:  # noqa: ARG002 - no time passes
        """It never rings."""
        return _Nothing()

    def fetch(self, wanted: Wanted, taker: Taker) -> Timer:  # noqa: ARG002 - there is no network
        """Nothing comes."""
        return _Nothing()

    def beside(self, work: Coroutine[None, None, None]) -> None:
        """It never runs."""
        work.close()

    def uptime(self) -> timedelta:
        """No time passes."""
        return timedelta(0)

    def wall(self) -> datetime:
        """The moment of the bench."""
        return datetime(2026, 11, 29, 20, tzinfo=UTC)
