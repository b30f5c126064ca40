"""A hub's engine for measuring: real store, gate, lanes and dispatch, and appliances that answer at once.

The parts are put together as the agent does and work in this process. The broker is in memory: neither the
network nor an appliance is measured. Nothing is uploaded. Time is the system's.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry
from typing_extensions import override

from edgeagent.clock import ClockSource, Proof, ProvenClock, SystemTime
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.door import encode
from edgeagent.contracts.policy import POLICY_TYPE, Tier, TierRule
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.envelope import sign
from edgeagent.core.profile.load import load
from edgeagent.flows.admission import Arrival
from edgeagent.flows.bells import OutboxBell
from edgeagent.flows.devices import Devices
from edgeagent.flows.surroundings import Origin, Surroundings
from edgeagent.flows.trust import Trust, TrustSettings
from edgeagent.ids import DeviceId, device_id, label
from edgeagent.issuer.commands import Intent, Issuer
from edgeagent.metrics import Metrics
from edgeagent.ports.crash import CrashPoint
from edgeagent.store.database import Database
from tests.flows import scripted
from tests.flows.running import Running, joined
from tests.flows.scripted import Television
from tests.flows.signing import EPOCH, HUB, Keys
from tests.support.fake_bus import FakeBus
from tests.support.past import lengthen
from tests.support.stores import HUB_MIGRATIONS
from tests.support.waiting import eventually

WORKERS: Final = 16
"""How many commands are worked at once: the most that a policy allows."""

AT_REST: Final = 0.02
"""Seconds after which whoever has worked has found nothing more, and waits."""

_PATIENCE: Final = 120.0
_PROFILE: Final = Path(scripted.__file__).with_name("television.toml")
_COPIED_AT_ONCE: Final = 5_000
_CLOCK_ERROR: Final = timedelta(milliseconds=20)


class Bus(FakeBus):
    """The broker in memory, for many appliances: it knows who listens to a topic without trying every filter.

    Filters with wildcards hear nothing; the profile has none.
    """

    @override
    def delivers(self, topic: str, payload: bytes, *, qos: int = 1, retain: bool = False) -> None:
        for session, kept in self._kept.items():
            if topic in kept.subscriptions:
                self._hand_over(session, self._inbound(session, qos, topic, payload, retain=retain))


class Stopwatch:
    """Notes when the engine passes the named points; each follows the commit that it is named after."""

    def __init__(self) -> None:
        self._times: dict[CrashPoint, list[float]] = {}
        self._passed = asyncio.Event()

    def reset(self) -> None:
        """Forget what was noted."""
        self._times.clear()

    def reached(self, point: CrashPoint) -> None:
        """See ``CrashPoints``."""
        self._times.setdefault(point, []).append(time.perf_counter())
        self._passed.set()

    def at(self, point: CrashPoint) -> Sequence[float]:
        """When it was passed, in seconds."""
        return self._times.get(point, ())

    async def passes(self, point: CrashPoint, times: int) -> None:
        """Wait until a point was passed so often.

        Raises:
            TimeoutError: it was not.
        """
        async with asyncio.timeout(_PATIENCE):
            while len(self.at(point)) < times:
                self._passed.clear()
                await self._passed.wait()


@dataclass(frozen=True, slots=True)
class Wave:
    """Commands that were admitted together, and worked to their end.

    Attributes:
        claimed: seconds from the inbox commit to the first claim.
        settled: seconds from the inbox commit to the last final commit.
        cpu: seconds of CPU from their arrival on, the appliances' included.
    """

    claimed: float
    settled: float
    cpu: float


@dataclass(slots=True)
class Engine:
    """The engine at work.

    Attributes:
        parts: the flows.
        bus: the broker.
        issuer: who signs.
        watch: what is measured with.
        devices: the appliances.
    """

    parts: Running
    bus: Bus
    issuer: Issuer
    watch: Stopwatch
    devices: list[DeviceId] = field(default_factory=list)
    _level: int = 0
    _sent: int = 0
    _past: int = 0

    async def has_devices(self, count: int) -> None:
        """Have at least so many appliances, online and with their state told."""
        for number in range(len(self.devices), count):
            device = device_id(f"tv-{number}")
            await self.parts.devices.admit(
                device, "television", {"topic": device}, label(f"The {device}"), actor="uid:0 root"
            )
            television = Television(self.bus, device, lambda _: None)
            television.comes_online()
            television.reports()
            self.devices.append(device)
        await eventually(lambda: not (self.bus.arrived or self.bus.unacknowledged), within=_PATIENCE)

    async def wave(self, devices: Sequence[DeviceId]) -> Wave:
        """Admit a command for each device at once, and wait until all of them have worked.

        Raises:
            RuntimeError: one of them has not.
            TimeoutError: they do not end.
        """
        self._level = self._level % 100 + 1
        arrivals = [Arrival(self._signed(device)) for device in devices]
        self.watch.reset()
        used = time.process_time()
        await self.parts.admission.admit(arrivals)
        await self.watch.passes(CrashPoint.COMMAND_SETTLED, len(devices))
        used = time.process_time() - used
        self._sent += len(devices)
        registry, worked = self.parts.around.metrics.registry, {"outcome": str(Outcome.SUCCEEDED)}
        succeeded = registry.get_sample_value("edgeagent_commands_settled_total", worked)
        if succeeded != self._sent:
            raise RuntimeError(f"{succeeded} of {self._sent} commands have worked")
        began = self.watch.at(CrashPoint.COMMAND_ADMITTED)[0]
        claimed = self.watch.at(CrashPoint.COMMAND_CLAIMED)[0]
        settled = self.watch.at(CrashPoint.COMMAND_SETTLED)[-1]
        return Wave(claimed - began, settled - began, used)

    async def has_past(self, rows: int) -> None:
        """Have so many finished commands in the file, each with its receipt and operation, on all devices."""
        while self._past < rows:
            count = min(_COPIED_AT_ONCE, rows - self._past)
            await self.parts.store.write(partial(lengthen, by=count))
            self._past += count
        await self.parts.store.checkpoint()

    async def costs(self, devices: Sequence[DeviceId]) -> tuple[float, float]:
        """How many statements, and how many commits, a command of a wave takes: savepoints are statements."""
        told = 0

        def tell(_statement: str) -> None:
            nonlocal told
            told += 1

        await self._traced(tell)
        commits = self.parts.store.commits
        await self.wave(devices)
        commits = self.parts.store.commits - commits
        await self._traced(None)
        return told / len(devices), commits / len(devices)

    async def _traced(self, tell: Callable[[str], None] | None) -> None:
        """Have ``tell`` told of each statement of both connections."""
        store = self.parts.store
        await store.write(lambda tx: tx._connection.set_trace_callback(tell))  # noqa: SLF001 - a store counts none
        await store.read(lambda db: db._connection.set_trace_callback(tell))  # noqa: SLF001 - as above

    def _signed(self, device: DeviceId) -> bytes:
        intent = Intent(
            hub=HUB,
            epoch=EPOCH,
            devices=[device],
            action=ActionName.VOLUME,
            arguments={"level": self._level},
        )
        return self.issuer.sign(intent).envelope


@asynccontextmanager
async def engine(folder: Path) -> AsyncIterator[Engine]:
    """Start an engine on a new database; its workers wait for commands."""
    keys, clock, watch = Keys(), ProvenClock(SystemTime()), Stopwatch()
    around = Surroundings(
        origin=Origin(HUB, EPOCH, 1),
        clock=clock,
        chance=lambda: 0.5,
        metrics=Metrics(CollectorRegistry()),
        crash=watch,
        outbox=OutboxBell(),
    )
    async with AsyncExitStack() as stack:
        store = await Database.open(folder / "hub.db", HUB_MIGRATIONS)
        stack.push_async_callback(store.close)
        bus = Bus(clock)
        trust = Trust(store, clock, around, TrustSettings(signer=keys.signer.public))
        await trust.load(None)
        await _has_policy(trust, keys, clock)
        profile = load(_PROFILE.read_bytes())
        devices = Devices(store, bus, {profile.id: profile}, around)
        await devices.load()
        parts = joined(store, bus, keys.hub, around, trust, devices)
        await parts.switch.load()
        now = clock.boot()
        wall = clock.wall().best
        clock.prove(Proof(source=ClockSource.STATEMENT, wall=wall, error=_CLOCK_ERROR, at=now))
        parts.upkeep.time_is_surer()
        bus.comes_up()
        tasks = [parts.taking_in, *(asyncio.create_task(work) for work in _flows(parts))]
        stack.push_async_callback(_end, tasks)
        yield Engine(parts, bus, Issuer([keys.desk], clock), watch)


async def _has_policy(trust: Trust, keys: Keys, clock: ProvenClock) -> None:
    now = clock.wall().best
    policy = keys.policy(
        issued_at=now - timedelta(days=1),
        expires_at=now + timedelta(days=365),
        tiers={Tier.LOW: TierRule(concurrency=WORKERS)},
    )
    if not await trust.offer_policy(sign(encode(policy), POLICY_TYPE, [keys.signer])):
        raise RuntimeError(f"the policy is not taken: {trust.policy_problem}")


def _flows(parts: Running) -> list[Coroutine[None, None, None]]:
    """What runs beside each other, as in the agent: all workers of all lanes, and upkeep."""
    lanes = [
        dispatch.run(f"{tier}-{number}")
        for tier, dispatch in parts.dispatch.items()
        for number in range(1, WORKERS + 1)
    ]
    return [parts.upkeep.run(), *lanes]


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    """End what runs.

    Raises:
        BaseException: whatever one of them has ended by before.
    """
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    for why in ended:
        if isinstance(why, BaseException) and not isinstance(why, asyncio.CancelledError):
            raise why
