"""Decides when a fault strikes; the same seed and the same messages, the same decisions.

Each fault of each appliance has a generator of its own, seeded by the run's seed, the appliance and the
fault's place in the list, and draws once for each message that matches. So one more fault, appliance or
message elsewhere changes nothing here. Only ``begins``, ``ends`` and ``lasting`` look at the clock.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from fnmatch import fnmatchcase
from random import Random
from typing import Final

from paho.mqtt.client import topic_matches_sub

from firmware_sim.faults import UPDATES, Fault, Kind, Way

# How long a message waits to be overtaken when the fault does not say.
_OVERTAKING: Final = timedelta(seconds=1)


@dataclass(slots=True)
class Outcome:
    """What becomes of one message.

    Attributes:
        struck: which faults struck, in the order of the list.
        lost: it does not get through.
        copies: how often it gets through.
        late: by how much.
        overtaken: it waits for the next one of its way, at most this long; None when it does not.
        spliced: where, as a share of its length, the next packet is spliced in; None when it is not.
        honest: whether the firmware tells what it took.
        fall: the reboot or disconnect that strikes with it.
    """

    struck: list[Kind] = field(default_factory=list)
    lost: bool = False
    copies: int = 1
    late: timedelta = timedelta(0)
    overtaken: timedelta | None = None
    spliced: float | None = None
    honest: bool = True
    fall: Fault | None = None


class FaultInjector:
    """The faults of one appliance.

    Args:
        appliance: its id.
        seed: the run's.
        elapsed: the time since the run began.
    """

    def __init__(self, appliance: str, seed: str, elapsed: Callable[[], timedelta]) -> None:
        self._appliance = appliance
        self._seed = seed
        self._elapsed = elapsed
        self._set: list[_SetFault] = []
        self._made = 0

    def add(self, faults: Iterable[Fault]) -> list[Fault]:
        """Set the faults that are meant for this appliance; their time counts from now.

        Returns:
            Which those are.
        """
        meant = [fault for fault in faults if fnmatchcase(self._appliance, fault.appliance)]
        for fault in meant:
            chance = Random(f"{self._seed}/{self._appliance}/{self._made}")
            self._set.append(_SetFault(fault, chance, self._elapsed()))
            self._made += 1
        return meant

    def clear(self) -> None:
        """Heal the appliance of everything."""
        self._set.clear()

    def heard(self, topic: str) -> Outcome:
        """Decide about a message from the broker."""
        outcome, now = Outcome(), self._elapsed()
        for entry in self._set:
            if entry.fault.kind is Kind.SILENT and entry.fault.by_command and entry.strikes(topic, now):
                entry.quiet(now)
        return self._decided(outcome, topic, Way.HEARD, now)

    def said(self, topic: str) -> Outcome:
        """Decide about a message to the broker."""
        return self._decided(Outcome(), topic, Way.SAID, self._elapsed())

    def befalls(self, kind: Kind, part: str, percent: float, update: int | None) -> Fault | None:
        """Decide about an update.

        Args:
            kind: what might go wrong now.
            part: what has the flash.
            percent: how much of the image has come.
            update: which update of this part it is; a fault looks at each once. None looks at each call.
        """
        now, found = self._elapsed(), None
        for entry in self._set:
            fault = entry.fault
            if fault.kind is not kind or fault.at is not None or not fnmatchcase(part, fault.part):
                continue
            if percent >= fault.percent and entry.strikes_update(part, update, now):
                found = found or fault
        return found

    def _decided(self, outcome: Outcome, topic: str, way: Way, now: timedelta) -> Outcome:
        for entry in self._set:
            fault = entry.fault
            if fault.way is not way or fault.at is not None or fault.kind in UPDATES:
                continue
            struck = entry.silent(topic, now) if fault.kind is Kind.SILENT else entry.strikes(topic, now)
            if struck:
                entry.apply(outcome)
        return outcome


class _SetFault:
    """A fault with what it has seen so far."""

    def __init__(self, fault: Fault, chance: Random, since: timedelta) -> None:
        self.fault = fault
        self._chance = chance
        self._since = since
        self._seen = 0
        self._struck = 0
        self._quiet_until: timedelta | None = None
        self._updates: set[tuple[str, int]] = set()

    def strikes(self, topic: str, now: timedelta) -> bool:
        """Look at one message, and draw."""
        return self._due(topic, now) and self._drawn()

    def strikes_update(self, part: str, update: int | None, now: timedelta) -> bool:
        """Look at one moment of an update, and draw."""
        if not self._timely(now) or (update is not None and (part, update) in self._updates):
            return False
        if update is not None:
            self._updates.add((part, update))
        return self._drawn()

    def _drawn(self) -> bool:
        fault = self.fault
        self._seen += 1
        drawn = self._chance.random() < fault.probability
        struck = (
            drawn
            and (fault.nth is None or self._seen == fault.nth)
            and (fault.times is None or self._struck < fault.times)
        )
        self._struck += struck
        return struck

    def quiet(self, now: timedelta) -> None:
        """A command has set off a silence."""
        self._quiet_until = timedelta.max if self.fault.lasting is None else now + self.fault.lasting

    def silent(self, topic: str, now: timedelta) -> bool:
        """Whether a silence covers this message."""
        if self.fault.by_command:
            return self._quiet_until is not None and now < self._quiet_until
        return self._due(topic, now)

    def apply(self, outcome: Outcome) -> None:
        """Let the fault have its effect."""
        fault = self.fault
        outcome.struck.append(fault.kind)
        match fault.kind:
            case Kind.DROP | Kind.SILENT:
                outcome.lost = True
            case Kind.DELAY:
                outcome.late += self._drawn_delay()
            case Kind.DUPLICATE:
                outcome.copies += 1
            case Kind.REORDER:
                outcome.overtaken = fault.delay or _OVERTAKING
            case Kind.GARBLE:
                outcome.spliced = self._chance.random()
            case Kind.WRONG_ECHO:
                outcome.honest = False
            case Kind.REBOOT | Kind.DISCONNECT:
                outcome.fall = fault
            case _:
                raise AssertionError(fault.kind)  # those of an update strike at no message

    def _due(self, topic: str, now: timedelta) -> bool:
        return self._timely(now) and topic_matches_sub(self.fault.topic, topic)

    def _timely(self, now: timedelta) -> bool:
        age = now - self._since
        return age >= self.fault.begins and (self.fault.ends is None or age < self.fault.ends)

    def _drawn_delay(self) -> timedelta:
        most = self.fault.delay_most or self.fault.delay
        return self.fault.delay + (most - self.fault.delay) * self._chance.random()


def spliced(message: bytes, share: float) -> bytes:
    """A payload whose end was overwritten by the head of the next PUBLISH packet.

    Args:
        message: what should have been sent.
        share: where it is cut, from 0 to 1.

    Returns:
        As many bytes as it should be, no longer UTF-8.
    """
    # Fixed header, remaining length, topic length: what the captures show between two messages.
    head = b"\xf4\x02\x00\x1btele/DVES_000000/STATE{"
    place = int(len(message) * share * 0.9)
    return (message[:place] + head + message)[: max(len(message), place + 4)]
