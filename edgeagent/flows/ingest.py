"""From the broker into the outbox: commit, then acknowledge.

    DeviceBus ──> decode ──> shadow: what of it is told? ──> one commit ──> PUBACKs, in receive order
                                                             events, shadows, delivery marks

The events that a message yields are on the disk before its PUBACK leaves (SPEC Q1). Messages share a
commit (DESIGN decision 3): it comes when the linger is over, at half of the in-flight window or at all of a
smaller one that the broker keeps to (``core/inflight``), when the batch is large, or at once when somebody
waits for it. Messages that change nothing are acknowledged without a commit. A redelivery is recognised by
the delivery marks of earlier commits (SPEC Q2).

When the store cannot commit, both connections are closed: nothing is acknowledged, the broker keeps
what it has, and devices that ask for QoS 1 are not told a lie.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Final, Protocol

from edgeagent.contracts.event import EventTime, Stream
from edgeagent.contracts.mqtt import Inbound, LinkDown, LinkUp, Session
from edgeagent.core.inflight import Inflight
from edgeagent.core.profile.decode import Decoded
from edgeagent.core.redelivery import REACH, Redeliveries, digest
from edgeagent.errors import StorageError
from edgeagent.flows.devices import Device, Devices
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.turn import Turn
from edgeagent.ids import DeviceId
from edgeagent.ports.broker import DeviceBus
from edgeagent.ports.crash import CrashPoint
from edgeagent.store import marks, outbox
from edgeagent.store import shadow as shadows
from edgeagent.store.database import Database, Transaction
from edgeagent.values import dataclass

log = logging.getLogger(__name__)

_RETRY_STORE: Final = timedelta(seconds=1)
# A broker that waited for its PUBACKs goes on within it.
_PROMPT: Final = timedelta(milliseconds=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSettings:
    """How readings are stored.

    Attributes:
        commit_linger: how long a message waits for others to share its commit.
        telemetry_window: messages that the broker sends before it waits for a PUBACK.
        control_window: the same for the control session.
        most_bytes: of payload in one commit.
        reach: how many messages of a session back a redelivery is recognised.
    """

    commit_linger: timedelta = timedelta(milliseconds=100)
    telemetry_window: int = 500
    control_window: int = 100
    most_bytes: int = 1024 * 1024
    reach: int = REACH

    def window(self, session: Session) -> int:
        """The in-flight window of a session."""
        return self.control_window if session is Session.CONTROL else self.telemetry_window


class Waiting(Protocol):
    """Whoever waits for what devices say: told after the commit, in receive order."""

    def expects(self, device: DeviceId) -> bool:
        """Whether somebody waits for this device."""
        ...

    def offer(self, device: DeviceId, message: Inbound, decoded: Decoded) -> None:
        """Hand a stored message over."""
        ...

    def link_is_up(self) -> None:
        """Tell that the control connection stands again: what was said meanwhile may be lost."""
        ...

    def came_online(self, device: DeviceId) -> None:
        """Tell that a device is there again."""
        ...


class Ingest:
    """Takes in what devices report."""

    def __init__(
        self,
        store: Database,
        bus: DeviceBus,
        devices: Devices,
        waiting: Waiting,
        around: Surroundings,
        settings: IngestSettings,
    ) -> None:
        self._store = store
        self._bus = bus
        self._devices = devices
        self._waiting = waiting
        self._around = around
        self._settings = settings
        self._redeliveries: dict[Session, Redeliveries] = {}
        self._turn = Turn()
        self._inflight = {session: Inflight(settings.window(session)) for session in Session}
        # Boot time of the last acknowledgements.
        self._acknowledged = timedelta(0)
        # Sessions that the broker had not kept and whose marks the store still has.
        self._new_sessions: set[Session] = set()
        # Devices of which a value waits for its minimum interval.
        self._withholding: set[DeviceId] = set()
        self._standing: set[Session] = set()
        # Nanoseconds of boot time since when both connections stand; None while one does not.
        self._listening_since: int | None = None
        self.store_trouble = ""

    @property
    def _writes(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self._turn.events or self._turn.changed or self._new_sessions)

    def adopt(self, settings: IngestSettings) -> None:
        """Go on with other settings; the windows stay as they are."""
        self._settings = settings

    async def run(self) -> None:
        """Take in what comes; ends only by cancellation."""
        await self._load_marks()
        self._recall_withheld()
        while True:
            self._turn = Turn()
            await self._gather()
            try:
                with self._around.at_work("ingest"):
                    await self._finish()
            except StorageError as why:
                await self._wait_for_store(why)

    async def _gather(self) -> None:
        """Receive until it is time to commit."""
        self._absorb(await self._bus.receive(within=self._until_due()))
        began = last = self._around.clock.boot()
        deadline = began + self._settings.commit_linger
        while self._writes and not self._is_time() and (left := deadline - last) > timedelta(0):
            items = await self._bus.receive(within=left)
            if not items:
                break
            self._absorb(items)
            last = self._around.clock.boot()
        self._note_end(began, last)

    def _note_end(self, began: timedelta, last: timedelta) -> None:
        """Note what the turn tells of the broker's limits; ``began`` and ``last`` are when messages came."""
        prompt = began - self._acknowledged <= _PROMPT
        silent = self._around.clock.boot() - last >= self._settings.commit_linger / 2
        for session, inflight in self._inflight.items():
            inflight.ended(len(self._turn.marks[session]), prompt=prompt, silent=silent)

    def _is_time(self) -> bool:
        turn = self._turn
        return (
            turn.urgent
            or turn.size >= self._settings.most_bytes
            or any(len(turn.marks[session]) >= each.enough for session, each in self._inflight.items())
        )

    def _absorb(self, items: Sequence[Inbound | LinkUp | LinkDown]) -> None:
        """Decode what came and note what follows from it."""
        now = time = self._around.event_time()
        now_ns = _nanoseconds(self._around.clock.boot())
        heard: int | None = None
        for item in items:
            if isinstance(item, Inbound):
                if item.heard != heard:  # those that were read at once share their time
                    heard = item.heard
                    time = now.earlier(max(0, now_ns - heard) // 1000)
                self._hear(item, time)
            else:
                self._link_changed(item)

    def _link_changed(self, change: LinkUp | LinkDown) -> None:
        self._standing.discard(change.session)
        if isinstance(change, LinkUp):
            self._standing.add(change.session)
            self._inflight[change.session] = Inflight(self._settings.window(change.session))
            if not change.session_present:
                self._redeliveries[change.session].forget_all()
                self._turn.marks[change.session].clear()
                self._new_sessions.add(change.session)
                self._turn.urgent = True
        stand = len(self._standing) == len(Session)
        self._listening_since = _nanoseconds(self._around.clock.boot()) if stand else None
        if change.session is Session.CONTROL:
            # What was sent with QoS 0 meanwhile is lost: nothing known is live any more.
            for device in self._devices.all():
                device.shadow.lose_touch()
            if isinstance(change, LinkUp):
                self._waiting.link_is_up()

    def _hear(self, message: Inbound, time: EventTime) -> None:
        turn = self._turn
        turn.size += len(message.payload)
        if message.qos:
            turn.messages.append(message)
            mark = (message.packet_id, digest(message.topic, message.payload))
            repeat = self._redeliveries[message.session].is_repeat(mark, dup=message.dup)
            turn.marks[message.session].append(mark)
            if repeat:
                self._around.metrics.redeliveries.inc()
                return
        devices = self._devices.on(message.session, message.topic)
        if not devices:
            self._devices.discover(message)
            return
        for device in devices:
            expected = self._waiting.expects(device.id)
            # What a bridge answers is of one of many devices: of that which waits.
            if expected or message.topic not in device.compiled.answers_only:
                self._hear_of(device, message, time, expected=expected)

    def _hear_of(self, device: Device, message: Inbound, time: EventTime, *, expected: bool) -> None:
        decoded = device.compiled.decode(message.topic, message.payload, retained=message.retain)
        if decoded.problem is not None:
            self._around.metrics.messages_unusable.labels(decoded.problem).inc()
        self._turn.take(device, message, decoded, time)
        if expected:
            self._turn.urgent = True
            self._turn.offers.append((device.id, message, decoded))

    def _withheld(self) -> list[tuple[Device, int]]:
        """The devices of which a value is withheld, each with the boot time at which its next is due."""
        found = []
        for name in list(self._withholding):
            device = self._devices.get(name)
            readings = device.shadow.withheld(device.compiled.spec) if device is not None else {}
            if device is None or not readings:
                self._withholding.discard(name)
            else:
                found.append((device, min(readings.values())))
        return found

    def _until_due(self) -> timedelta | None:
        """How long until a withheld value has to be told; None when none is withheld."""
        due = [moment for _, moment in self._withheld()] + [moment for _, moment in self._silent()]
        if not due:
            return None
        left = min(due) - _nanoseconds(self._around.clock.boot())
        return timedelta(microseconds=max(0, left) // 1000)

    def _silent(self) -> list[tuple[Device, int]]:
        """The devices that are taken for gone if they stay silent, each with the boot time of that.

        Silence counts from when we could have heard something. One that was online before our start
        counts as well; one of which nothing was ever heard does not.
        """
        since = self._listening_since
        if since is None:
            return []
        return [
            (device, max(device.heard or 0, since) + _nanoseconds(longest))
            for device in self._devices.may_fall_silent()
            if (longest := device.compiled.silent_after) is not None
            and (device.online or (device.online is None and device.heard is not None))
        ]

    def _release_due(self) -> None:
        """Tell the withheld values whose minimum interval is over."""
        self._withholding |= self._turn.withholding
        now = _nanoseconds(self._around.clock.boot())
        for device, moment in self._withheld():
            if moment <= now:
                self._turn.release(device, self._around.event_time(), now)
        for device, moment in self._silent():
            if moment <= now:
                self._turn.miss(device, self._around.event_time(), now)

    async def _finish(self) -> None:
        """Commit the turn, acknowledge it, and tell whoever waits."""
        self._release_due()
        turn = self._turn
        if self._writes:
            marked = {session for session in Session if turn.marks[session]} | self._new_sessions
            with self._around.metrics.commit_seconds.time():
                await self._store.write(partial(self._store_turn, marked))
            self._around.crash.reached(CrashPoint.EVENTS_COMMITTED)
            self._new_sessions.clear()
            for session in marked:
                self._redeliveries[session].committed(turn.marks[session])
        else:
            for session, redeliveries in self._redeliveries.items():
                redeliveries.unchanged(turn.marks[session])
        self._bus.acknowledge(turn.messages)
        self._acknowledged = self._around.clock.boot()
        if turn.events:
            counts = Counter(event.stream for event in turn.events)
            for stream, count in counts.items():
                self._around.metrics.events.labels(stream).inc(count)
            self._around.outbox.stored(counts, len(turn.events))
        for offer in turn.offers:
            self._waiting.offer(*offer)
        for device in turn.came_online:
            self._waiting.came_online(device)

    def _store_turn(self, marked: set[Session], tx: Transaction) -> None:
        turn = self._turn
        laid: dict[Stream, marks.Laid] = {}
        for session in marked:
            redeliveries = self._redeliveries[session]
            batch, told = redeliveries.next_batch, redeliveries.to_store(turn.marks[session])
            if session in self._new_sessions:
                marks.begin_session(tx, session, batch=batch)
            else:
                marks.forget(tx, session, before=redeliveries.oldest_needed)
            if turn.tells(stream := marks.STREAM_OF[session]):
                laid[stream] = batch, told
            else:
                marks.add(tx, session, batch, told)
        known = [(name, self._devices.get(name)) for name in turn.changed]
        shadows.save(
            tx,
            [
                # One that was forgotten and admitted anew meanwhile has another, empty shadow.
                shadows.Change(
                    name, device.shadow, frozenset(turn.changed[name] & device.shadow.state.keys())
                )
                for name, device in known
                if device is not None
            ],
        )
        outbox.append(tx, turn.events, incarnation=self._around.origin.incarnation, marks=laid)

    async def _load_marks(self) -> None:
        reach = self._settings.reach
        stored = await self._store.read(
            lambda db: {session: marks.load(db, session, reach=reach) for session in Session}
        )
        self._redeliveries = {session: Redeliveries(reach, stored[session]) for session in Session}
        for session in self._new_sessions:
            # What is stored is of the session before, until the next commit takes it away.
            self._redeliveries[session].forget_all()

    def _recall_withheld(self) -> None:
        """Look at every device for values that an earlier start, or a commit that failed, did not tell."""
        self._withholding = {device.id for device in self._devices.all()}

    async def _wait_for_store(self, why: StorageError) -> None:
        """Nothing of the turn is saved: close the connections until the store takes writes again."""
        log.error("store does not take readings", extra={"why": str(why)})
        self.store_trouble = str(why)
        self._bus.hold(held=True)
        while True:
            await asyncio.sleep(_RETRY_STORE.total_seconds())
            try:
                await self._take_up()
            except StorageError as again:
                self.store_trouble = str(again)
            else:
                break
        self.store_trouble = ""
        log.info("store takes readings again")
        self._bus.hold(held=False)

    async def _take_up(self) -> None:
        """See that the disk takes writes, and know what it knows: memory is ahead of it.

        Raises:
            StorageError: it does not yet.
        """
        await self._load_marks()
        redeliveries = self._redeliveries[Session.CONTROL]
        batch = redeliveries.next_batch
        # An empty transaction would succeed on a full disk; the marks of no message have to reach it.
        await self._store.write(lambda tx: marks.add(tx, Session.CONTROL, batch, b""))
        redeliveries.committed(())
        await self._devices.load()
        self._recall_withheld()


def _nanoseconds(length: timedelta) -> int:
    return length // timedelta(microseconds=1) * 1000
