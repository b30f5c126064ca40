"""Reading devices afresh after a command that was decided on an older state (SPEC C3).

    refused as stale ──> on the list ──> online, and nobody works it ──> asked ──> read: reported
         one commit                          │          └─ silence: again, a little later; or given up
                                             └─ else: whenever that comes

The report (``device.revalidated``) tells the whole state with its version, so that the issuer can decide
again. A device stands on the list once; the list outlives restarts. A question changes nothing and takes no
lock, but what was read while a command was begun is not reported: it is read again.
"""

import asyncio
import logging
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from itertools import count
from secrets import randbits
from typing import Final

from pydantic import JsonValue

from edgeagent.contracts.event import EventType, Stream, data_text
from edgeagent.contracts.mqtt import Outgoing, PublishResult, Session
from edgeagent.contracts.reasons import Reason
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.profile.plan import Step
from edgeagent.core.retry import delay
from edgeagent.errors import RejectedError, TransientError
from edgeagent.flows.bells import Bell
from edgeagent.flows.confirmations import Confirmations
from edgeagent.flows.desk import Desk
from edgeagent.flows.devices import Device
from edgeagent.flows.settling import Settling
from edgeagent.ids import DeviceId
from edgeagent.ports.broker import DeviceBus
from edgeagent.ports.links import LinkError
from edgeagent.store import audit, locks, outbox, revalidations
from edgeagent.store.audit import Act
from edgeagent.store.database import Database, Snapshot, Transaction
from edgeagent.store.outbox import NewEvent
from edgeagent.store.revalidations import Wanted

log = logging.getLogger(__name__)

AT_ONCE: Final = 4
"""How many devices are read at the same time."""

MOST_ATTEMPTS: Final = 5
"""How often a device is asked before it is given up."""

_FIRST_DELAY: Final = timedelta(seconds=2)
_LONGEST_DELAY: Final = timedelta(minutes=1)
_AFTER_FAULT: Final = 1.0
_MILLISECOND: Final = timedelta(milliseconds=1)
_NUMBER_BITS: Final = 31


class Revalidation:
    """Reads the devices on the list; run it ``AT_ONCE`` times."""

    def __init__(
        self, store: Database, bus: DeviceBus, settling: Settling, confirmations: Confirmations, desk: Desk
    ) -> None:
        self._store = store
        self._bus = bus
        self._devices = settling.devices
        self._around = settling.around
        self._confirmations = confirmations
        self._writes = desk.writes
        self._bell = Bell()
        self._being_read: set[DeviceId] = set()
        # Devices on the list that could not be asked when it was last looked at.
        self._put_back: set[DeviceId] = set()
        self._looking = 0
        self._ended = 0
        desk.when_stale(self._bell.ring)
        desk.when_let_go(self._may_ask)
        confirmations.when_online(self._may_ask)
        confirmations.when_back(self._bell.ring)

    async def run(self) -> None:
        """Read whatever is on the list; ends only by cancellation."""
        while True:
            try:
                wanted = await self._next()
                try:
                    await self._read(wanted)
                finally:
                    self._being_read.discard(wanted.device)
                    self._ended += 1
            except TransientError as why:
                log.warning("revalidation fails", extra={"why": str(why)})
                await asyncio.sleep(_AFTER_FAULT)

    def _may_ask(self, device: DeviceId) -> None:
        """What kept a device from being asked may be over."""
        # While the list is being read nobody knows yet who is put back.
        if self._looking or device in self._put_back:
            self._bell.ring()

    async def _next(self) -> Wanted:
        """Wait for a device that can be asked now, and reserve it."""
        while True:
            self._looking += 1
            ended = self._ended
            try:
                listed, worked = await self._store.read(self._list)
            finally:
                self._looking -= 1
            if self._ended != ended:
                # The list may be older than that: it would have the same device read again.
                continue
            wait: list[timedelta] = []
            self._put_back.clear()
            for wanted in listed:
                if wanted.device in self._being_read:
                    continue
                left = self._until_askable(wanted, worked)
                if left is not None and left <= timedelta(0):
                    self._being_read.add(wanted.device)
                    # There may be more for whoever else waits.
                    self._bell.ring()
                    return wanted
                self._put_back.add(wanted.device)
                if left is not None:
                    wait.append(left)
            await self._bell.wait(min(wait, default=None))

    def _list(self, db: Snapshot) -> tuple[list[Wanted], Mapping[DeviceId, int]]:
        """The list, and until when which devices are worked."""
        listed = revalidations.load(db)
        worked = (
            {held.device: held.until for held in locks.held(db, self._around.present())} if listed else {}
        )
        return listed, worked

    def _until_askable(self, wanted: Wanted, worked: Mapping[DeviceId, int]) -> timedelta | None:
        """How long until a device can be asked; None: somebody will ring."""
        device = self._devices.get(wanted.device)
        if device is None or device.online is False or not self._bus.state(Session.CONTROL).connected:
            return None
        now = self._around.present()
        due = 0
        if wanted.due is not None and wanted.due[1] == now.boot:
            due = wanted.due[0]
        # Its holder may be gone without a word: then the lease lapses.
        return (max(due, worked.get(wanted.device, 0)) - now.milliseconds) * _MILLISECOND

    async def _read(self, wanted: Wanted) -> None:
        """Ask a device all that it answers, and report it or put it off."""
        device = self._devices.get(wanted.device)
        if device is None:
            return
        steps = device.compiled.questions(randbits(_NUMBER_BITS) for _ in count())
        if not steps:
            await self._report(wanted, device, Reason.UNSUPPORTED_ACTION, None)
            return
        fence = await self._store.read(partial(locks.fence, device=device.id))
        try:
            for step in steps:
                if not await self._is_answered(device, step):
                    await self._put_off(wanted, device, Reason.NO_CONFIRMATION)
                    return
        except LinkError as why:
            # It was not asked: it is when the connection stands, or takes more, without counting.
            log.info("device not asked", extra={"device": device.id, "why": str(why)})
            await asyncio.sleep(_AFTER_FAULT)
            return
        if not await self._report(wanted, device, None, fence):
            await self._put_off(wanted, device, Reason.DEVICE_BUSY)

    async def _is_answered(self, device: Device, step: Step) -> bool:
        """Ask one question.

        Raises:
            LinkError: it could not be asked.
        """
        within = step.expectation.within
        waiter = self._confirmations.open(device.id, step.expectation)
        try:
            waiter.sending(self._around.clock.boot())
            expires = max(1, int(within.total_seconds()))
            message = Outgoing(topic=step.topic, payload=step.payload, expires_in=expires)
            if await self._bus.publish(message) is not PublishResult.TAKEN:
                return False
            left = waiter.left(self._around.clock.boot())
            if not await waiter.until(lambda: waiter.is_answered, left):
                return False
            self._writes.read_back(device.id, device.shadow.state, since=waiter.sent_at or 0)
        except RejectedError:
            return False
        finally:
            self._confirmations.close(waiter)
        return True

    async def _put_off(self, wanted: Wanted, device: Device, why: Reason) -> None:
        """Ask again a little later, or give up and say so."""
        if wanted.attempts + 1 >= MOST_ATTEMPTS:
            await self._report(wanted, device, why, None)
            return
        wait = delay(
            wanted.attempts + 1, first=_FIRST_DELAY, longest=_LONGEST_DELAY, chance=self._around.chance()
        )
        now = self._around.present()
        due = (now.milliseconds + wait // _MILLISECOND, now.boot)
        await self._store.write(partial(revalidations.postpone, wanted=wanted, due=due))
        log.info(
            "device not read", extra={"device": device.id, "reason": why, "attempts": wanted.attempts + 1}
        )

    async def _report(self, wanted: Wanted, device: Device, why: Reason | None, fence: int | None) -> bool:
        """Take a device off the list, and tell what is known of it.

        Args:
            wanted: its place on the list.
            device: as it is now.
            why: it could not be read; None when it was.
            fence: of its lock when it was asked; None where that does not matter.

        Returns:
            False if a command was begun meanwhile: nothing is told.
        """
        around = self._around
        told = data_text(_told(wanted, device, why))
        event = NewEvent(Stream.RECORD, EventType.REVALIDATED, device.id, around.event_time(), told)
        detail: dict[str, JsonValue] = {
            "command": wanted.command,
            "version": device.shadow.version,
            "live": why is None,
            "reason": why,
        }
        act = Act(kind=AuditKind.REVALIDATED, subject=device.id, actor="agent", detail=detail)

        def report(tx: Transaction) -> bool | None:
            if fence is not None and locks.fence(tx, device.id) != fence:
                return None
            if not revalidations.end(tx, wanted):
                return False
            outbox.append(tx, [event], incarnation=around.origin.incarnation)
            audit.append(tx, [act], around.stamp())
            return True

        done = await self._store.write(report)
        if done:
            around.outbox.stored({Stream.RECORD}, 1)
            around.metrics.revalidations.labels("read" if why is None else "given_up").inc()
            log.info("device revalidated", extra={"device": device.id, "reason": why})
        return done is not None


def _told(wanted: Wanted, device: Device, why: Reason | None) -> dict[str, JsonValue]:
    """The data of the report; a reading is live that was heard since the device came online."""
    shadow = device.shadow
    readings: dict[str, JsonValue] = {
        name: {"value": held.value, "version": held.version, "live": held.live_at is not None}
        for name, held in sorted(shadow.state.items())
    }
    told: dict[str, JsonValue] = {
        "command": wanted.command,
        "version": shadow.version,
        "etag": shadow.etag,
        "live": why is None,
        "readings": readings,
    }
    return told if why is None else told | {"reason": why}
