"""Waiting for what devices answer.

A waiter is there before its message leaves, and is told of every message of its device, in receive
order, after the commit that stores it (DESIGN decision 4). What a message proves is decided in
``core/confirmation``. A command whose outcome stayed unknown is listened for a while longer: an answer
that comes late corrects what is known, never the final state.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Final, Protocol

from edgeagent.clock import Clock
from edgeagent.contracts.mqtt import Inbound
from edgeagent.contracts.policy import Level
from edgeagent.contracts.sources import Value
from edgeagent.core.confirmation import (
    Confirmed,
    Contradicted,
    Expectation,
    Heard,
    Progress,
    Wish,
    hear,
    read_back,
)
from edgeagent.core.profile.decode import Decoded
from edgeagent.ids import DeviceId, ReadingName
from edgeagent.values import dataclass

_MOST_LATE: Final = 64
_LATE_FOR: Final = timedelta(minutes=15)
_MICROSECOND: Final = timedelta(microseconds=1)


class Waiter:
    """One message to a device, and what has been heard of its effect.

    Attributes:
        progress: how far a confirmation has come.
        seen: what reading back has shown; None while nothing.
    """

    def __init__(self, device: DeviceId, expectation: Expectation, wish: Wish | None) -> None:
        self.device = device
        self.expectation = expectation
        self.progress = Progress()
        self.seen: Confirmed | Contradicted | None = None
        self._wish = wish
        self._sent_at: int | None = None
        # When the best was heard that can be, where that shortens the wait.
        self._settling_since: int | None = None
        self._stirred = asyncio.Event()

    @property
    def sent_at(self) -> int | None:
        """Nanoseconds of boot time at which the message left; None while it has not."""
        return self._sent_at

    @property
    def looks_for(self) -> Wish | None:
        """What the device was asked whether it shows."""
        return self._wish

    @property
    def is_answered(self) -> bool:
        """Whether anything was heard that answers the message."""
        return self.progress.confirmed is not None

    @property
    def is_settling(self) -> bool:
        """Whether nothing better can be heard, so that it is waited for the effect and no answer."""
        return self._settling_since is not None

    def narrow(self) -> None:
        """Take only what carries our number for an answer from here on."""
        numbered = tuple(answer for answer in self.expectation.answers if answer.correlate is not None)
        self.expectation = replace(self.expectation, answers=numbered, echoes=(), cycle=None, refusals=())

    def know(self, before: Mapping[ReadingName, Value]) -> None:
        """Take note of what the device showed before."""
        self.progress = Progress(before=dict(before))

    def sending(self, now: timedelta) -> None:
        """Note that the message leaves now: only what is heard from here on can answer it."""
        self._sent_at = now // _MICROSECOND * 1000

    def left(self, now: timedelta) -> timedelta:
        """How much of the step's time is left."""
        sent = now if self._sent_at is None else timedelta(microseconds=self._sent_at // 1000)
        until = sent + self.expectation.within
        if self._settling_since is not None and self.expectation.settles is not None:
            since = timedelta(microseconds=self._settling_since // 1000)
            until = min(until, since + self.expectation.settles)
        return max(timedelta(0), until - now)

    def hear(self, message: Inbound, decoded: Decoded) -> None:
        """Take a message of the device into account."""
        after = self._sent_at is not None and message.heard > self._sent_at
        heard = Heard(topic=message.topic, decoded=decoded, retained=message.retain, after=after)
        self.progress = hear(self.expectation, self.progress, heard)
        best = self.progress.confirmed
        if self.expectation.settles is not None and not self.is_settling and best is not None:
            self._settling_since = message.heard if best.level.reaches(self.expectation.best) else None
        if self._wish is not None and self.seen is None:
            self.seen = read_back(self._wish, self.expectation, heard)
        self._stirred.set()

    async def until(self, enough: Callable[[], bool], within: timedelta) -> bool:
        """Wait until ``enough`` holds, at most so long.

        Returns:
            Whether it holds.
        """
        try:
            async with asyncio.timeout(max(0.0, within.total_seconds())):
                while not enough():
                    self._stirred.clear()
                    await self._stirred.wait()
        except TimeoutError:
            pass
        return enough()


class Listener(Protocol):
    """Somebody who hears all that a device says."""

    device: DeviceId

    def hear(self, message: Inbound, decoded: Decoded) -> None:
        """Take a message into account."""
        ...


@dataclass(frozen=True, slots=True)
class _Late:
    """A command whose outcome is unknown, still listened for."""

    waiter: Waiter
    needed: Level
    until: timedelta
    tell: Callable[[Confirmed], None]

    @property
    def proof(self) -> Confirmed | None:
        """What was waited for, if it has been heard."""
        found = self.waiter.progress.confirmed
        return found if found is not None and found.level.reaches(self.needed) else None


class Confirmations:
    """All who wait for devices."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiters: dict[DeviceId, list[Waiter]] = {}
        self._listeners: dict[DeviceId, list[Listener]] = {}
        self._late: OrderedDict[int, _Late] = OrderedDict()
        self._online: list[Callable[[DeviceId], None]] = []
        self._back: list[Callable[[], None]] = []

    def open(self, device: DeviceId, expectation: Expectation, wish: Wish | None = None) -> Waiter:
        """Begin to wait; before the message is sent."""
        waiter = Waiter(device, expectation, wish)
        self._waiters.setdefault(device, []).append(waiter)
        return waiter

    def listen(self, listener: Listener) -> None:
        """Tell somebody of every message of a device from now on."""
        self._listeners.setdefault(listener.device, []).append(listener)

    def ignore(self, listener: Listener) -> None:
        """Tell somebody no more."""
        left = [each for each in self._listeners.pop(listener.device, ()) if each is not listener]
        if left:
            self._listeners[listener.device] = left

    def close(self, waiter: Waiter) -> None:
        """Stop waiting."""
        left = [each for each in self._waiters.get(waiter.device, ()) if each is not waiter]
        if left:
            self._waiters[waiter.device] = left
        else:
            self._waiters.pop(waiter.device, None)

    def keep_late(self, run: int, waiter: Waiter, needed: Level, tell: Callable[[Confirmed], None]) -> None:
        """Listen on for an answer that may come late, for a quarter of an hour."""
        late = _Late(waiter, needed, self._clock.boot() + _LATE_FOR, tell)
        if late.proof is not None:
            # It came while the end was being written.
            tell(late.proof)
            return
        self._late[run] = late
        while len(self._late) > _MOST_LATE:
            self._late.popitem(last=False)

    def narrow_late(self, device: DeviceId) -> None:
        """Note that another command is about to be sent to a device.

        What it shows from here on may be the effect of that one: of an earlier command's answers only
        those that carry its number can still be told from it.
        """
        for late in self._late.values():
            if late.waiter.device == device:
                late.waiter.narrow()

    def expects(self, device: DeviceId) -> bool:
        """Whether somebody waits for this device."""
        is_waited_for = device in self._waiters or device in self._listeners
        return is_waited_for or any(late.waiter.device == device for late in self._late.values())

    def offer(self, device: DeviceId, message: Inbound, decoded: Decoded) -> None:
        """Hand a stored message over to whoever waits for its device."""
        for waiter in self._waiters.get(device, ()):
            waiter.hear(message, decoded)
        for listener in self._listeners.get(device, ()):
            listener.hear(message, decoded)
        now = self._clock.boot()
        for run, late in list(self._late.items()):
            if late.until <= now:
                del self._late[run]
            elif late.waiter.device == device:
                late.waiter.hear(message, decoded)
                if late.proof is not None:
                    del self._late[run]
                    late.tell(late.proof)

    def came_online(self, device: DeviceId) -> None:
        """Tell whoever keeps commands for devices that are away."""
        for tell in self._online:
            tell(device)

    def link_is_up(self) -> None:
        """Tell whoever wants to know what was said while we were away."""
        for tell in self._back:
            tell()

    def when_back(self, tell: Callable[[], None]) -> None:
        """Have ``tell`` called whenever the control connection stands again."""
        self._back.append(tell)

    def when_online(self, tell: Callable[[DeviceId], None]) -> None:
        """Have ``tell`` called whenever a device is there again."""
        self._online.append(tell)
