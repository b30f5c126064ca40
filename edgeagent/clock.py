"""Time that knows whether it knows.

Two times, never mixed:

*   **Boot time** (CLOCK_BOOTTIME with the boot id): leases, backoff, deadlines, ages. It counts
    through suspend, no one can set it, and it means nothing in another boot (SPEC L5).
*   **Wall time** is an interval ``[earliest, latest]`` with a source (SPEC T5). A *proof* says what
    the time was at some instant of boot time, give or take an error; from there the interval runs
    with boot time and widens by 500 ppm. Without a proof in this boot ``latest`` is unknown, and
    ``earliest`` is the *floor*: a moment that is certainly past (SPEC T6). The kernel's wall clock
    is believed only as far as the kernel itself says that it is synchronised.

A proof is taken when it narrows the interval, or when the interval it meets contradicts it and it
comes from a better source; what a person said gives way to every better source. The floor only rises,
but for a person who resets it. Who raises it, and by how much at most, is decided in
``flows/timefloor``, never here.
"""

import ctypes
import time
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final, NewType, Protocol

from edgeagent.values import dataclass

BootId = NewType("BootId", str)
"""The kernel's name for this boot, ``/proc/sys/kernel/random/boot_id``."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# The largest frequency error that the kernel itself allows for (MAXFREQ, adjtimex(2)): 43 s a day.
DRIFT: Final = 500e-6

# No edgeagent existed before; a clock below this is wrong. Raised with each release.
BUILT_AT: Final = datetime(2026, 11, 1, tzinfo=UTC)


class ClockSource(StrEnum):
    """Where our idea of wall time comes from, worst first."""

    NONE = "none"
    """No proof in this boot: the kernel's clock is shown to people and trusted for nothing."""
    OPERATOR = "operator"
    """A person at the hub confirmed the time; recorded."""
    KERNEL = "kernel"
    """adjtimex(2) says that the kernel's clock is synchronised, with its own error."""
    STATEMENT = "statement"
    """A statement signed by a key of role ``time`` answered our nonce; its error is the round trip."""


class FloorSource(StrEnum):
    """What the floor of time rests on: who said last that so much is certainly past."""

    BUILT = "built"
    """The software was made then."""
    FLOOR_FILE = "floor_file"
    """The floor file remembered it; the database did not."""
    RESET = "reset"
    """A person set the floor back; recorded."""
    OPERATOR = "operator"
    """A person at the hub confirmed the time."""
    POLICY = "policy"
    """The policy in force was issued then."""
    KERNEL = "kernel"
    """The kernel said twice, an hour apart, that its clock is synchronised."""
    STATEMENT = "statement"
    """A statement signed by a key of role ``time``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wall:
    """What we know of the time of day.

    Attributes:
        best: the best single guess, for display and for the ``time`` of events.
        earliest: certainly past.
        latest: certainly not yet reached; None when unknown.
        source: what the interval rests on.
    """

    best: datetime
    earliest: datetime
    latest: datetime | None
    source: ClockSource

    @property
    def error(self) -> timedelta | None:
        """How far ``best`` may be off; None when unknown."""
        return None if self.latest is None else max(self.latest - self.best, self.best - self.earliest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """At boot time ``at`` (of this boot) the time was ``wall``, give or take ``error``."""

    source: ClockSource
    wall: datetime
    error: timedelta
    at: timedelta


class Clock(Protocol):
    """What everybody who needs time is given."""

    @property
    def boot_id(self) -> BootId:
        """Which boot ``boot()`` counts in."""
        ...

    def boot(self) -> timedelta:
        """Time since boot, suspend included (CLOCK_BOOTTIME)."""
        ...

    def wall(self) -> Wall:
        """The time of day, as far as it is known."""
        ...


class SystemTime:
    """The kernel's clocks; the one place that reads them."""

    def __init__(self) -> None:
        self._boot_id = BootId(Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip())

    @property
    def boot_id(self) -> BootId:
        """The kernel's name for this boot."""
        return self._boot_id

    def boot(self) -> timedelta:
        """CLOCK_BOOTTIME."""
        return timedelta(microseconds=time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000)

    def wall(self) -> datetime:
        """CLOCK_REALTIME, whatever it may be worth."""
        return EPOCH + timedelta(microseconds=time.time_ns() // 1000)

    def synchronised(self) -> timedelta | None:
        """Ask the kernel how far its wall clock may be off (adjtimex(2) with modes = 0).

        Returns:
            The largest error, or None when the clock is not synchronised or the kernel may not be
            asked (a system call filter answers EPERM).
        """
        return _adjtimex()


class _Timex(ctypes.Structure):
    """``struct timex`` of <sys/timex.h>; only the head matters to a reader."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_long * 32),
    )


_STA_UNSYNC: Final = 0x0040
_TIME_ERROR: Final = 5


def _adjtimex() -> timedelta | None:
    # What is loaded already: looking for the library by name starts ldconfig, and a compiler, each time.
    libc = ctypes.CDLL(None)
    answer = _Timex()
    state = libc.adjtimex(ctypes.byref(answer))
    if state in {-1, _TIME_ERROR} or answer.status & _STA_UNSYNC:
        return None
    return timedelta(microseconds=answer.maxerror)


class TimeReadings(Protocol):
    """What a ``ProvenClock`` stands on: the kernel's clocks, or a test's."""

    @property
    def boot_id(self) -> BootId:
        """Which boot ``boot()`` counts in."""
        ...

    def boot(self) -> timedelta:
        """CLOCK_BOOTTIME."""
        ...

    def wall(self) -> datetime:
        """CLOCK_REALTIME."""
        ...

    def synchronised(self) -> timedelta | None:
        """The kernel's word on the error of ``wall()``; None for no word."""
        ...


class ProvenClock:
    """The agent's clock: boot time, and wall time as far as proofs carry it.

    Not thread-safe: it lives on the event loop.
    """

    def __init__(self, readings: TimeReadings, *, floor: datetime = BUILT_AT) -> None:
        self._readings = readings
        self._floor = max(floor, BUILT_AT)
        self._proof: Proof | None = None

    @property
    def boot_id(self) -> BootId:
        """Which boot ``boot()`` counts in."""
        return self._readings.boot_id

    @property
    def floor(self) -> datetime:
        """A moment that is certainly past."""
        return self._floor

    @property
    def proof(self) -> Proof | None:
        """What the interval rests on; None for nothing."""
        return self._proof

    def boot(self) -> timedelta:
        """Time since boot, suspend included."""
        return self._readings.boot()

    def wall(self) -> Wall:
        """The interval of the last proof, carried on by boot time; see the module's docstring."""
        proof = self._proof
        if proof is None:
            guess = max(self._readings.wall(), self._floor)
            return Wall(best=guess, earliest=self._floor, latest=None, source=ClockSource.NONE)
        best, error = _carried(proof, self._readings.boot())
        earliest = max(best - error, self._floor)
        return Wall(
            best=max(best, earliest),
            earliest=earliest,
            latest=max(best + error, earliest),
            source=proof.source,
        )

    def would_take(self, proof: Proof) -> bool:
        """Whether a proof is worth more than what we have.

        A proof that lies wholly below the floor is wrong, whoever gave it. One that contradicts the
        current interval replaces it only when its source ranks at least as high.
        """
        if proof.wall + proof.error < self._floor:
            return False
        if self._proof is None:
            return True
        now = self._readings.boot()
        held, held_error = _carried(self._proof, now)
        new, new_error = _carried(proof, now)
        if abs(new - held) > held_error + new_error:
            return _rank(proof.source) >= _rank(self._proof.source)
        is_better = self._proof.source is ClockSource.OPERATOR and proof.source is not ClockSource.OPERATOR
        return is_better or new_error < held_error

    def prove(self, proof: Proof) -> bool:
        """Take a proof if ``would_take`` says so.

        Returns:
            Whether the clock now rests on this proof.
        """
        if not self.would_take(proof):
            return False
        self._proof = proof
        return True

    def kernel(self) -> tuple[datetime, timedelta | None]:
        """The kernel's wall clock, whatever it is worth, and its word on its error; None for no word."""
        return self._readings.wall(), self._readings.synchronised()

    def kernels_word(self) -> Proof | None:
        """What the kernel says the time is; None while its clock is not synchronised."""
        wall, error = self.kernel()
        if error is None:
            return None
        return Proof(source=ClockSource.KERNEL, wall=wall, error=error, at=self._readings.boot())

    def raise_floor(self, moment: datetime) -> bool:
        """Note that ``moment`` is certainly past. The floor never falls so.

        A proof whose whole interval lies before ``moment`` was wrong, and is dropped.
        """
        if moment <= self._floor:
            return False
        self._floor = moment
        if self._proof is not None:
            best, error = _carried(self._proof, self._readings.boot())
            if best + error < moment:
                self._proof = None
        return True

    def reset_floor(self, moment: datetime) -> None:
        """Set the floor to ``moment``, as a person wants it, and drop the proof that may rest on the old one.

        It is never set below ``BUILT_AT``.
        """
        self._floor = max(moment, BUILT_AT)
        self._proof = None


def _carried(proof: Proof, now: timedelta) -> tuple[datetime, timedelta]:
    """What ``proof`` says of the present: the best guess and how far it may be off."""
    passed = now - proof.at
    return proof.wall + passed, proof.error + passed * DRIFT


def _rank(source: ClockSource) -> int:
    return list(ClockSource).index(source)
