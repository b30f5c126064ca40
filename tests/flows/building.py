"""A hub's upward half with boring defaults: a real store, real flows, a broker and time moved by hand.

    async with new_hub(tmp_path) as hub:
        await hub.admits("dev-1")
        hub.bus.delivers("dev-1/state", b'{"power": true}')
        await hub.settles()
        assert await hub.values("power") == [True]

``hub.passes`` moves the hub's clock and the loop's timers together, so that nothing here waits for a
minute to be over. ``hub.dies`` and ``hub.starts`` are a process's end and another's beginning on the same
database and the same broker.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from prometheus_client import CollectorRegistry
from pydantic import JsonValue

from edgeagent.clock import Clock
from edgeagent.contracts.event import EventType, StoredEvent, Stream, data_text
from edgeagent.contracts.profile import DeviceProfile
from edgeagent.core.profile.load import load
from edgeagent.errors import StorageError
from edgeagent.flows.bells import OutboxBell
from edgeagent.flows.confirmations import Confirmations
from edgeagent.flows.devices import Device, Devices
from edgeagent.flows.ingest import Ingest, IngestSettings
from edgeagent.flows.surroundings import Origin, Surroundings
from edgeagent.ids import Epoch, HubId, device_id, hub_id, label, new_epoch
from edgeagent.metrics import Metrics
from edgeagent.ports.crash import CrashPoint
from edgeagent.profiles.shipped import shipped_profiles
from edgeagent.store import outbox
from edgeagent.store.database import Database, Transaction
from edgeagent.store.outbox import NewEvent
from tests.support.clocks import LoopTime, ManualClock
from tests.support.fake_bus import FakeBus
from tests.support.stores import HUB_MIGRATIONS, query
from tests.support.waiting import eventually

HUB: Final[HubId] = hub_id("venue-7")
EPOCH: Final[Epoch] = new_epoch(1_800_000_000_000, 7)
MINUTE: Final = timedelta(minutes=1)
WELL_AFTER: Final = timedelta(seconds=10)
"""Longer than any device's coming and going is kept back."""
QUICK: Final = IngestSettings(commit_linger=timedelta(milliseconds=1))
"""A commit as soon as nothing more has come."""

THING: Final = Path(__file__).with_name("thing.toml")


class MovableClock(Clock, Protocol):
    """A clock that a test moves by hand."""

    def passes(self, length: timedelta) -> None:
        """Let time go on."""
        ...


class KilledError(BaseException):
    """The process ends here: nothing after it is done. No handler of ours catches it."""


class Killer:
    """Ends whoever passes the point that a test has named.

    Attributes:
        at: that point; None for a long life.
    """

    def __init__(self) -> None:
        self.at: CrashPoint | None = None

    def reached(self, point: CrashPoint) -> None:
        """Die here, if it is here."""
        if point is self.at:
            self.at = None
            raise KilledError(point)


@dataclass(frozen=True, slots=True)
class Told:
    """An event as the far side will see it.

    Attributes:
        number: in its stream.
        type: what happened.
        device: to whom; None for the hub.
        data: what there is to say.
    """

    number: int
    type: EventType
    device: str | None
    data: dict[str, JsonValue]


def surroundings(
    clock: Clock,
    *,
    incarnation: int = 1,
    chance: Callable[[], float] = lambda: 0.5,
    crash: Killer | None = None,
) -> Surroundings:
    """What a flow takes from outside without asking a port."""
    return Surroundings(
        origin=Origin(HUB, EPOCH, incarnation),
        clock=clock,
        chance=chance,
        metrics=Metrics(CollectorRegistry()),
        crash=crash or Killer(),
        outbox=OutboxBell(),
    )


async def breathe(store: Database) -> None:
    """Let every flow do what is due, whatever the disk says to it."""
    for _ in range(5):
        await asyncio.sleep(0)
        with suppress(StorageError):
            await store.read(lambda _: None)
        with suppress(StorageError):
            await store.write(lambda _: None)


def all_profiles() -> dict[str, DeviceProfile]:
    """The thing of these tests, and the shipped families."""
    profiles = [load(THING.read_bytes()), *map(load, shipped_profiles())]
    return {profile.id: profile for profile in profiles}


def event(
    around: Surroundings, stream: Stream = Stream.STATE, kind: EventType = EventType.STATE, *, size: int = 0
) -> NewEvent:
    """Something to tell, of so many bytes at least."""
    return NewEvent(stream, kind, None, around.event_time(), data_text({"filler": "x" * size}))


@dataclass(slots=True)
class Hub:
    """The upward half of one hub, and what lies around it.

    Attributes:
        path: its database.
        clock: its time.
        bus: its broker.
        loop_time: the time of its timers.
        profiles: the families that it knows.
        settings: how it stores readings.
        incarnation: how often it has started.
    """

    path: Path
    clock: MovableClock
    bus: FakeBus
    loop_time: LoopTime
    profiles: dict[str, DeviceProfile]
    settings: IngestSettings = QUICK
    incarnation: int = 0
    _parts: "_Parts | None" = None
    _killer: Killer = field(default_factory=Killer)

    @property
    def store(self) -> Database:
        """The open database."""
        return self._running.store

    @property
    def around(self) -> Surroundings:
        """What its flows take from outside."""
        return self._running.around

    @property
    def devices(self) -> Devices:
        """Its devices."""
        return self._running.devices

    @property
    def ingest(self) -> Ingest:
        """What takes readings in."""
        return self._running.ingest

    @property
    def confirmations(self) -> Confirmations:
        """Who waits for devices."""
        return self._running.confirmations

    @property
    def _running(self) -> "_Parts":
        assert self._parts is not None, "the hub does not run"
        return self._parts

    @property
    def commits(self) -> float:
        """How many commits of readings there were since the start."""
        return self.counted("edgeagent_ingest_commit_seconds_count")

    async def starts(self, *, session_present: bool = True) -> None:
        """Begin a process: open the database, take up the devices, connect, take readings in."""
        self.incarnation += 1
        store = await Database.open(self.path, HUB_MIGRATIONS)
        around = surroundings(self.clock, incarnation=self.incarnation, crash=self._killer)
        devices = Devices(store, self.bus, self.profiles, around)
        await devices.load()
        confirmations = Confirmations(self.clock)
        ingest = Ingest(store, self.bus, devices, confirmations, around, self.settings)
        task = asyncio.create_task(ingest.run())
        self._parts = _Parts(store, around, devices, confirmations, ingest, task)
        self.bus.comes_up(session_present=session_present)
        await self.settles()

    async def dies(self) -> None:
        """End the process at once: what is not committed or acknowledged is not."""
        parts, self._parts = self._running, None
        parts.task.cancel()
        try:
            with suppress(asyncio.CancelledError, KilledError):
                await parts.task
        finally:
            # Also after a flow that failed: its thread would keep the tests from ending.
            await parts.store.close()
            self.bus.loses_client()

    def dies_at(self, point: CrashPoint) -> None:
        """Have the process end when it next passes ``point``."""
        self._killer.at = point

    async def is_dead(self) -> None:
        """Wait until it has ended where it should."""
        await eventually(self._running.task.done)
        await self.dies()

    async def settles(self) -> None:
        """Wait until all that has come is taken in, committed and acknowledged."""
        await self.until(lambda: not self.bus.arrived and not self.bus.unacknowledged)

    async def reaches(self, stream: Stream, events: int) -> None:
        """Wait until a stream holds so many events."""
        await self.until(lambda: self.rows("SELECT stream FROM outbox").count((str(stream),)) >= events)

    async def takes_in(self) -> None:
        """Wait until all that has come is taken in, committed or not."""
        await self.until(lambda: not self.bus.arrived)

    async def breathes(self) -> None:
        """Let every flow do what is due: some turns of the loop and of the database's threads."""
        await breathe(self.store)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until ``condition`` holds; a flow that fails meanwhile fails the test."""
        task = self._running.task
        await eventually(lambda: condition() or task.done())
        if task.done():
            task.result()

    async def passes(self, length: timedelta) -> None:
        """Let time go on: the hub's clocks, and the timers of whatever waits by now."""
        await self.breathes()
        self.clock.passes(length)
        self.loop_time.passes(length)

    async def admits(self, device: str, profile: str = "thing", **parameters: JsonValue) -> Device:
        """Take a device in; its topic is its id where nothing else is said."""
        known: dict[str, JsonValue] = {"topic": device} if profile == "thing" else {}
        return await self.devices.admit(
            device_id(device), profile, known | parameters, label(f"The {device}"), actor="uid:0 root"
        )

    async def told(self, stream: Stream, kind: EventType | None = None) -> list[Told]:
        """The events of a stream that nobody has acknowledged, oldest first."""
        events = await self.store.read(partial(outbox.batch, stream=stream, most=10_000, most_bytes=2**30))
        return [_told(each) for each in events if kind is None or each.type is kind]

    async def values(self, reading: str, device: str | None = None) -> list[JsonValue]:
        """The values of a reading that are told, oldest first."""
        events = [each for stream in (Stream.STATE, Stream.TELEMETRY) for each in await self.told(stream)]
        found = [_values(each) for each in events if device in {None, each.device}]
        return [values[reading] for values in found if reading in values]

    async def stores(self, *events: NewEvent) -> list[int]:
        """Put events into the outbox, as any flow does."""

        def append(tx: Transaction) -> list[int]:
            return outbox.append(tx, events, incarnation=self.incarnation)

        numbers = await self.store.write(append)
        self.around.outbox.stored({each.stream for each in events}, len(events))
        return numbers

    def counted(self, name: str, labels: Mapping[str, str] | None = None) -> float:
        """What an instrument shows; 0 if it has never been used."""
        return self.around.metrics.registry.get_sample_value(name, dict(labels or {})) or 0.0

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """What the database holds, as another program sees it."""
        return query(self.path, sql)


@dataclass(frozen=True, slots=True)
class _Parts:
    """One process."""

    store: Database
    around: Surroundings
    devices: Devices
    confirmations: Confirmations
    ingest: Ingest
    task: asyncio.Task[None]


@asynccontextmanager
async def new_hub(
    folder: Path,
    *devices: str,
    settings: IngestSettings = QUICK,
    profiles: Iterable[str] = (),
    clock: MovableClock | None = None,
) -> AsyncIterator[Hub]:
    """A hub that has just started for the first time, connected to a broker that does not know it.

    Args:
        folder: for its database.
        devices: things that are admitted and have been online for a while.
        settings: how it stores readings.
        profiles: texts of further profiles.
        clock: its time; one that is sure of itself where nothing else is said.
    """
    clock = clock or ManualClock()
    known = all_profiles() | {each.id: each for each in (load(text.encode()) for text in profiles)}
    hub = Hub(folder / "hub.db", clock, FakeBus(clock), LoopTime(), known, settings)
    await hub.starts()
    try:
        for device in devices:
            await hub.admits(device)
            hub.bus.delivers(f"{device}/lwt", b"Online")
        await hub.takes_in()
        await hub.passes(max(settings.commit_linger, WELL_AFTER))
        await hub.settles()
        yield hub
    finally:
        if hub._parts is not None:
            await hub.dies()


def _told(stored: StoredEvent) -> Told:
    return Told(stored.number, stored.type, stored.device, json.loads(stored.data))


def _values(told: Told) -> dict[str, JsonValue]:
    """The bare values of an event of readings."""
    readings = told.data["readings"]
    assert isinstance(readings, dict)
    return {
        name: reading["value"] if isinstance(reading, dict) else reading for name, reading in readings.items()
    }
