"""The shadow: what the hub knows of a device, and what of it is told.

*State* readings (what a command can set, availability, firmware version) carry versions: the device's
version grows at each change of any of them, and each reading's version is the device's version at its
own last change (SPEC C1). *Telemetry* readings carry none.

Report by exception (SPEC U7): a value is told when it differs from the held one by more than the
deadband; not sooner than ``min_interval`` after the last telling, and at the latest ``max_interval``
after it. A state that changes faster is changed here at once and told later, once, as it then is.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from datetime import timedelta
from enum import Enum
from hashlib import sha256
from typing import Final, Protocol

from edgeagent.ids import ReadingName
from edgeagent.values import dataclass

Value = bool | int | float | str
"""What a reading can be."""

# Kinds of values that are the same or not; made once, since every value of every message is looked at.
_EXACT: Final = (str, bool)


class Reporting(Protocol):
    """How a reading is told. Part of its specification in the device's profile."""

    @property
    def deadband(self) -> float:
        """Numbers that differ by at most this are the same."""
        ...

    @property
    def min_interval(self) -> timedelta:
        """The least time between two tellings."""
        ...

    @property
    def max_interval(self) -> timedelta | None:
        """The most time between two tellings of a value that is heard; None for no bound."""
        ...


class Telling(Enum):
    """What is to be done with a value that was heard."""

    NOTHING = "nothing"
    """It is what was told last."""
    NOW = "now"
    """It is told."""
    LATER = "later"
    """It is told when the minimum interval is over."""


# Looking a member up costs as much as comparing two values; these are for every value of every message.
_NOTHING: Final = Telling.NOTHING
_NOW: Final = Telling.NOW
_LATER: Final = Telling.LATER


@dataclass(slots=True)
class StateReading:
    """One state reading of a device.

    Attributes:
        value: what it is.
        version: the device's version at its last change.
        at: microseconds since 1970 of its last change.
        retained: whether it is known from a retained message only.
        told: whether ``value`` has been told.
        told_at: nanoseconds of boot time of the last telling; None in no telling since start.
        coalesced: how many changes were overwritten before they were told.
        live_at: nanoseconds of boot time at which it was last heard live since the device came
            online; None when it was not (SPEC M2: only a live reading can answer "already so").
    """

    value: Value
    version: int
    at: int
    retained: bool = False
    told: bool = False
    told_at: int | None = None
    coalesced: int = 0
    live_at: int | None = None


@dataclass(slots=True)
class TelemetryReading:
    """One telemetry reading of a device; kept in memory only.

    Attributes:
        told: the value told last.
        told_at: nanoseconds of boot time of that.
        held: a newer value that waits for the minimum interval; None when none does.
    """

    told: Value
    told_at: int
    held: Value | None = None


@dataclass(slots=True)
class Shadow:
    """What the hub knows of one device.

    Attributes:
        version: grows at each change of a state reading.
        etag: of the state readings as a whole.
        state: state readings by name.
        telemetry: telemetry readings by name.
    """

    version: int
    etag: str
    state: dict[ReadingName, StateReading] = field(default_factory=dict)
    telemetry: dict[ReadingName, TelemetryReading] = field(default_factory=dict)

    def hear_state(self, name: ReadingName, value: Value, reporting: Reporting, heard: "Heard") -> Telling:
        """Take a value of a state reading in.

        Returns:
            What is to be told. Unless NOTHING, the reading has to be stored.
        """
        held = self.state.get(name)
        if held is None:
            self.version += 1
            held = self.state[name] = StateReading(value, self.version, heard.at, heard.retained)
        elif differs(held.value, value, reporting.deadband):
            self.version += 1
            held.coalesced += not held.told
            held.value, held.version, held.at, held.told = value, self.version, heard.at, False
            held.retained = heard.retained
        elif not heard.retained:
            held.retained = False
        if not heard.retained:
            held.live_at = heard.boot
        return self._telling(held, reporting, heard.boot)

    def _telling(self, held: StateReading, reporting: Reporting, now: int) -> Telling:
        if held.told_at is None:
            if not held.told:
                return Telling.NOW
            # Told in an earlier start: the maximum interval counts from here.
            held.told_at = now
        since = now - held.told_at
        if held.told:
            longest = reporting.max_interval
            return Telling.NOW if longest is not None and since >= _ns(longest) else Telling.NOTHING
        return Telling.NOW if since >= _ns(reporting.min_interval) else Telling.LATER

    def hear_telemetry(self, name: ReadingName, value: Value, reporting: Reporting, now: int) -> Telling:
        """Take a value of a telemetry reading in.

        Args:
            name: of the reading.
            value: what was heard.
            reporting: how it is told.
            now: nanoseconds of boot time.

        Returns:
            What is to be told.
        """
        held = self.telemetry.get(name)
        if held is None:
            self.telemetry[name] = TelemetryReading(value, now)
            return _NOW
        since = now - held.told_at
        if differs(held.told, value, reporting.deadband):
            if _is_within(reporting.min_interval, since):
                held.held = value
                return _LATER
        elif reporting.max_interval is None or since < _ns(reporting.max_interval):
            held.held = None
            return _NOTHING
        held.told, held.told_at, held.held = value, now, None
        return _NOW

    def told(self, names: Iterable[ReadingName], now: int) -> int:
        """Note that these state readings are told as they are.

        Returns:
            How many changes before these were never told.
        """
        coalesced = 0
        for name in names:
            held = self.state[name]
            coalesced += held.coalesced
            held.told, held.told_at, held.coalesced = True, now, 0
        return coalesced

    def value(self, name: ReadingName) -> Value | None:
        """What was heard last of a reading of either kind; None for nothing."""
        state, telemetry = self.state.get(name), self.telemetry.get(name)
        if state is not None:
            return state.value
        return None if telemetry is None else telemetry.told if telemetry.held is None else telemetry.held

    def copied(self) -> "Shadow":
        """The same, which what is heard from now on does not change."""
        # By hand: every command is judged on copies, and ``replace`` takes three times as long.
        state = {
            name: StateReading(
                held.value,
                held.version,
                held.at,
                held.retained,
                held.told,
                held.told_at,
                held.coalesced,
                held.live_at,
            )
            for name, held in self.state.items()
        }
        telemetry = {
            name: TelemetryReading(held.told, held.told_at, held.held)
            for name, held in self.telemetry.items()
        }
        return Shadow(self.version, self.etag, state, telemetry)

    def seal(self) -> None:
        """Bring the etag up to date with the state readings."""
        self.etag = etag({name: reading.value for name, reading in self.state.items()})

    def lose_touch(self) -> None:
        """Forget which readings are live: the device or our connection to it was away."""
        for reading in self.state.values():
            reading.live_at = None

    def withheld(self, reporting: Callable[[ReadingName], Reporting]) -> dict[ReadingName, int]:
        """The readings whose newest value waits, and the boot time in nanoseconds at which it is due."""
        state = {
            name: (held.told_at or 0) + _ns(reporting(name).min_interval)
            for name, held in self.state.items()
            if not held.told
        }
        telemetry = {
            name: held.told_at + _ns(reporting(name).min_interval)
            for name, held in self.telemetry.items()
            if held.held is not None
        }
        return state | telemetry

    def release_telemetry(self, name: ReadingName, now: int) -> Value:
        """Take the withheld value of a telemetry reading for telling."""
        held = self.telemetry[name]
        if held.held is not None:
            held.told, held.told_at, held.held = held.held, now, None
        return held.told


@dataclass(frozen=True, slots=True)
class Heard:
    """The circumstances of a message.

    Attributes:
        at: microseconds since 1970, the best guess.
        boot: nanoseconds of boot time.
        retained: whether it is the broker's stored copy.
    """

    at: int
    boot: int
    retained: bool


def differs(held: Value, value: Value, deadband: float) -> bool:
    """Whether ``value`` is another than ``held``. Truth and number are never the same."""
    if isinstance(value, _EXACT) or isinstance(held, _EXACT):
        return type(held) is not type(value) or held != value
    return abs(value - held) > deadband


def etag(values: Mapping[ReadingName, Value]) -> str:
    """16 hexadecimal digits that stand for a set of state readings."""
    text = json.dumps(values, ensure_ascii=True, allow_nan=False, separators=(",", ":"), sort_keys=True)
    return sha256(text.encode()).hexdigest()[:16]


def _is_within(length: timedelta, since: int) -> bool:
    """Whether ``since`` nanoseconds are less than ``length``, which mostly is no time at all."""
    return since < (_ns(length) if length else 0)


def _ns(length: timedelta) -> int:
    return (length.days * 86_400_000_000 + length.seconds * 1_000_000 + length.microseconds) * 1000
