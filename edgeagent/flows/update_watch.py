"""What is seen of a device while its firmware is updated: what it says, what it runs, whether it stays.

It is kept by run and not by claim: whoever works the update may be gone, and what was seen is not. A start of
the agent looks anew.
"""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Final

from edgeagent.clock import Clock
from edgeagent.contracts.mqtt import Inbound
from edgeagent.contracts.sources import Value
from edgeagent.contracts.update import Runs
from edgeagent.core.confirmation import Heard
from edgeagent.core.firmware import Sight, Terms, Update, version_told
from edgeagent.core.profile.decode import Decoded
from edgeagent.core.profile.firmware import FirmwarePlan
from edgeagent.core.updating import Course, Running, UpdateStep, Verification, follow, overdue
from edgeagent.ids import DeviceId

_MICROSECOND: Final = timedelta(microseconds=1)


class UpdateWatch:
    """What is seen of one device.

    Attributes:
        device: which.
        update: what is recorded.
        terms: of the update.
        plan: what is sent; of the way back where it is on it.
        told: what was told last to whoever works it.
        ready: which message may be sent next.
    """

    def __init__(
        self, device: DeviceId, update: Update, plan: FirmwarePlan, terms: Terms, clock: Clock
    ) -> None:
        self.device = device
        self.update = update
        self.terms = terms
        self.plan = plan
        self.told = Sight()
        self.ready = 0
        self._clock = clock
        # What was set off by an earlier start of the agent is followed as if it had left now.
        self._part = len(plan.steps) - 1
        self._step: UpdateStep = plan.steps[-1]
        self._since = self._sign_at = clock.boot()
        self._course = Course()
        self._runs, self._version = Runs.UNKNOWN, ""
        self._first_told = self._last_told = self._since
        self._is_there = True
        self._is_awaited = True
        self._stirred = asyncio.Event()

    def sending(self, part: int) -> None:
        """Note that a message leaves now: only what is heard from here on is about it."""
        self._is_awaited = True
        self._part, self._step = part, self.plan.steps[part]
        self._since = self._sign_at = self._clock.boot()
        self._course = Course()
        self._forget()

    def begins_anew(self) -> None:
        """Note that nothing of what was seen is about what comes next: nothing has left, and none is late."""
        self.ready, self.told, self._is_awaited = 0, Sight(), False
        self._part, self._step = len(self.plan.steps) - 1, self.plan.steps[-1]
        self._since = self._sign_at = self._clock.boot()
        self._course = Course()
        self._forget()

    def hear(self, message: Inbound, decoded: Decoded) -> None:
        """Take a message of the device into account."""
        after = message.heard > self._since // _MICROSECOND * 1000
        heard = Heard(topic=message.topic, decoded=decoded, retained=message.retain, after=after)
        before = self._course
        if self._is_awaited:
            self._course = follow(self._step, before, heard)
        if self._course.signs != before.signs:
            self._sign_at = self._clock.boot()
            self._first_told = self._last_told
        if (self._course.denied, self._course.back) != (before.denied, before.back):
            # What it runs now is another question.
            self._forget()
        if after and not message.retain:
            self._takes(decoded)
        if self._course.is_over(self._step) and self._course.denied is None:
            self.ready = max(self.ready, self._part + 1)
        self._stirred.set()

    def sight(self) -> Sight:
        """What is seen now."""
        now = self._clock.boot()
        late = overdue(self._step, self._course, since_sent=now - self._since, since_sign=now - self._sign_at)
        return Sight(
            course=self._course,
            overdue=late if self._is_awaited else None,
            is_over=self._course.is_over(self._step),
            runs=self._runs,
            version=self._version,
            steady=self._last_told - self._first_told,
            waited=now - self._since,
            is_there=self._is_there,
        )

    async def until_more(self, within: timedelta) -> None:
        """Wait until something is heard; at most so long."""
        try:
            async with asyncio.timeout(max(0.0, within.total_seconds())):
                await self._stirred.wait()
        except TimeoutError:
            return
        finally:
            self._stirred.clear()

    def _takes(self, decoded: Decoded) -> None:
        if decoded.availability is not None:
            if not decoded.availability:
                self._forget()
            self._is_there = decoded.availability
        if not self._is_there:
            # Whoever tells now what runs on it is somebody else.
            return
        for name, value in decoded.readings:
            if name == self.plan.verification.reading:
                self._runs_now(value)

    def _runs_now(self, value: Value) -> None:
        runs, version, now = self._meaning(value), version_told(value), self._clock.boot()
        if runs is not self._runs or version != self._version:
            self._first_told = now
        self._runs, self._version, self._last_told = runs, version, now

    def _meaning(self, value: Value) -> Runs:
        """What a version means, whichever way the update goes."""
        if version_told(value) == self.update.earlier:
            return Runs.EARLIER
        found = _of(self.plan.verification, self.update.wanted, value)
        if found is not Running.OTHER:
            return Runs(found)
        is_earlier = _of(self.plan.verification, self.update.earlier, value) is Running.WANTED
        return Runs.EARLIER if is_earlier else Runs.OTHER

    def _forget(self) -> None:
        self._runs, self._version = Runs.UNKNOWN, ""
        self._first_told = self._last_told = self._clock.boot()


def _of(verification: Verification, version: str, value: Value) -> Running:
    return replace(verification, version=version).of(value)
