"""A hub's downward half with boring defaults: a real store, real flows, a broker and time moved by hand.

    async with new_hub(tmp_path) as hub:
        tv = await hub.television()
        await hub.admits(hub.order(POWER, on=True))
        await hub.works()
        assert tv.shows["power"] is True

Nothing works by itself: a test says when a command is claimed and worked, and when upkeep looks. Only
readings are taken in beside the test, since they are what answers a command. ``hub.dies`` and
``hub.starts`` are a process's end and another's beginning on the same database and broker.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry
from pydantic import JsonValue
from typing_extensions import override

from edgeagent.clock import EPOCH as YEAR_1970
from edgeagent.clock import BootId, ClockSource, Proof, ProvenClock
from edgeagent.contracts.actions import ActionName, ArgumentValue
from edgeagent.contracts.command import COMMAND_TYPE, Command, Precondition
from edgeagent.contracts.door import encode
from edgeagent.contracts.event import Stream
from edgeagent.contracts.policy import POLICY_TYPE, Tier
from edgeagent.core.envelope import Signer, sign
from edgeagent.core.freshness import BootDeadline
from edgeagent.core.gate.verdict import Verdict
from edgeagent.core.profile.load import load
from edgeagent.core.work import Claim
from edgeagent.flows import claims
from edgeagent.flows.admission import Arrival
from edgeagent.flows.bells import OutboxBell
from edgeagent.flows.claims import Claimed, Taker, Wanted
from edgeagent.flows.devices import Devices
from edgeagent.flows.surroundings import Origin, Surroundings
from edgeagent.flows.trust import Trust, TrustSettings
from edgeagent.ids import (
    DeviceId,
    Epoch,
    HubId,
    Operation,
    command_id,
    label,
)
from edgeagent.metrics import Metrics
from edgeagent.ports.crash import CrashPoint
from edgeagent.profiles.shipped import shipped_profiles
from edgeagent.store import outbox
from edgeagent.store.database import Database, Transaction
from edgeagent.store.inbox_row import Now
from tests.flows.points import KilledError, Points
from tests.flows.recorded import Recorded
from tests.flows.running import Running, joined
from tests.flows.scripted import Television
from tests.flows.scripted_player import Player, Shelf
from tests.flows.signing import EPOCH, HUB, MILLISECOND, MINUTE, PLAYER, POWER, TV, Keys
from tests.support.clocks import ManualReadings
from tests.support.fake_bus import FakeBus
from tests.support.stores import HUB_MIGRATIONS
from tests.support.waiting import DEADLINE, eventually

ERROR: Final = timedelta(milliseconds=20)
"""How far a clock that is proven may be off."""

_PROFILES: Final = [Path(__file__).with_name(f"{name}.toml") for name in ("television", "player")]
_CHANCE_BITS: Final = 20


class Hub(Recorded):
    """A hub with its broker, keys and time.

    Attributes:
        path: its database.
        keys: who may sign.
        readings: what its clocks say.
        bus: its broker.
        points: the named points that it passes.
        chance: what is drawn wherever chance decides.
        incarnation: how often it has started.
        epoch: in which it starts.
        boots: how often its power has failed.
        skew: how far CLOCK_REALTIME has been set from the right time.
        shelf: the files that devices may be updated with.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "hub.db"
        self.keys = Keys()
        self.readings = ManualReadings()
        self.bus = FakeBus(ProvenClock(self.readings))
        self.points = Points()
        self.chance = 0.0
        self.incarnation = 0
        self.epoch = EPOCH
        self.boots = 0
        self.skew = timedelta(0)
        self.shelf = Shelf()
        self._numbers = 0
        self._parts: Running | None = None
        self._clock: ProvenClock | None = None

    @property
    def now(self) -> Running:
        """The process that runs."""
        assert self._parts is not None, "the hub does not run"
        return self._parts

    @property
    @override
    def store(self) -> Database:
        """Its database, open."""
        return self.now.store

    @property
    def clock(self) -> ProvenClock:
        """The clock of the process that runs."""
        assert self._clock is not None, "the hub does not run"
        return self._clock

    @property
    def is_running(self) -> bool:
        """Whether a process runs."""
        return self._parts is not None

    # A process.

    async def starts(self, *, is_proven: bool = True) -> None:
        """Begin a process on the same database and broker."""
        self.incarnation += 1
        store = await Database.open(self.path, HUB_MIGRATIONS)
        clock = ProvenClock(self.readings)
        around = Surroundings(
            origin=Origin(HUB, self.epoch, self.incarnation),
            clock=clock,
            chance=lambda: self.chance,
            metrics=Metrics(CollectorRegistry()),
            crash=self.points,
            outbox=OutboxBell(),
        )
        trust = Trust(store, clock, around, TrustSettings(signer=self.keys.signer.public))
        await trust.load(None)
        trust.catalogue = self.shelf.catalogue
        profiles = {
            each.id: each
            for each in map(load, [*shipped_profiles(), *(each.read_bytes() for each in _PROFILES)])
        }
        devices = Devices(store, self.bus, profiles, around)
        await devices.load()
        self._clock = clock
        self._parts = joined(store, self.bus, self.keys.hub, around, trust, devices, self.shelf)
        await self._parts.switch.load()
        if is_proven:
            self.time_is_known()
        self.bus.comes_up()
        await self.settles()

    async def dies(self) -> None:
        """End the process at once: what is not committed is not."""
        parts, self._parts = self.now, None
        self.points.dies_at(None)
        parts.taking_in.cancel()
        with suppress(asyncio.CancelledError, KilledError):
            await parts.taking_in
        await parts.store.close()
        self.bus.loses_client()

    async def starts_anew(self, *, is_proven: bool = True) -> None:
        """End the process at once, and begin another."""
        await self.dies()
        await self.starts(is_proven=is_proven)

    async def reboots(self) -> None:
        """Lose power and come back: another boot, in which nothing proves the time yet."""
        await self.dies()
        self.boots += 1
        self.readings.reboots(BootId(f"{self.boots:08d}-2222-4222-8222-222222222222"))
        await self.starts(is_proven=False)

    async def settles(self) -> None:
        """Wait until all that devices have said is taken in, and told to who waits for it."""
        task = self.now.taking_in
        await eventually(lambda: task.done() or not (self.bus.arrived or self.bus.unacknowledged))
        if task.done():
            task.result()

    async def breathes(self) -> None:
        """Let whatever runs do what is due: some turns of the loop and of the database's threads."""
        for _ in range(5):
            await self.now.store.read(lambda _: None)
            await self.now.store.write(lambda _: None)

    async def is_killed(self, point: CrashPoint, lane: Tier = Tier.LOW, *, nth: int = 1) -> None:
        """Claim and work what is due, and die at the ``nth`` passing of a point on the way."""
        self.points.dies_at(point, nth=nth)
        ingest = self.now.taking_in
        working = asyncio.create_task(self.works(lane))
        await asyncio.wait((working, ingest), return_when=asyncio.FIRST_COMPLETED)
        working.cancel()
        for task in (working, ingest):
            if task.done() and not task.cancelled():
                assert isinstance(task.exception(), KilledError), f"{point} was not passed"
        with suppress(asyncio.CancelledError, KilledError):
            await working

    # Time.

    def passes(self, length: timedelta) -> None:
        """Let time go on."""
        self.readings.passes(length)

    @property
    def right_time(self) -> datetime:
        """What the time is, whatever anybody has set."""
        return self.readings.wall() - self.skew

    def clock_is_set(self, by: timedelta) -> None:
        """Let somebody set CLOCK_REALTIME wrong, or by as much right again."""
        self.skew += by
        self.readings.is_set(self.readings.wall() + by)

    def time_is_known(self, moment: datetime | None = None, *, error: timedelta = ERROR) -> None:
        """Prove what the time is; by default what is right."""
        clock = self.clock
        wall = self.right_time if moment is None else moment
        clock.prove(Proof(source=ClockSource.STATEMENT, wall=wall, error=error, at=clock.boot()))
        self.now.upkeep.time_is_surer()

    def lease_time(self) -> Now:
        """The present, as leases count it."""
        clock = self.clock
        return Now(clock.boot_id, clock.boot() // MILLISECOND, self.incarnation)

    # Who may do what.

    async def has_policy(self, **changes: object) -> None:
        """Put a policy in force."""
        envelope = sign(encode(self.keys.policy(**changes)), POLICY_TYPE, [self.keys.signer])
        assert await self.now.trust.offer_policy(envelope), self.now.trust.policy_problem

    async def television(self, device: DeviceId = TV, **parameters: JsonValue) -> Television:
        """Admit a television that is online and has told its state."""
        known: dict[str, JsonValue] = {"topic": device}
        await self.now.devices.admit(
            device, "television", known | parameters, label(f"The {device}"), actor="uid:0 root"
        )
        tv = Television(self.bus, device, self.passes)
        tv.comes_online()
        tv.reports()
        await self.settles()
        self.passes(MILLISECOND)
        return tv

    async def player(self, device: DeviceId = PLAYER, **parameters: JsonValue) -> Player:
        """Admit a player that is online and has told its version."""
        known: dict[str, JsonValue] = {"topic": device}
        await self.now.devices.admit(
            device, "player", known | parameters, label(f"The {device}"), actor="uid:0 root"
        )
        player = Player(self.bus, device, self.passes)
        player.comes_online()
        player.tells()
        await self.settles()
        self.passes(MILLISECOND)
        return player

    # Commands.

    def command(
        self,
        action: ActionName = POWER,
        *,
        id_: str | None = None,
        device: DeviceId | Sequence[DeviceId] = TV,
        hub: HubId = HUB,
        epoch: Epoch = EPOCH,
        operation: str | None = None,
        sequence: int | None = None,
        issued: timedelta = timedelta(0),
        valid_for: timedelta = timedelta(minutes=5),
        precondition: Precondition | None = None,
        **arguments: ArgumentValue,
    ) -> Command:
        """A command of now; each has the next sequence, and is an operation of its own."""
        self._numbers += 1
        wall = self.right_time
        name = id_ or f"command-{self._numbers}"
        by_time = (wall - YEAR_1970) // MILLISECOND << _CHANCE_BITS
        return Command(
            id=command_id(name),
            hub=hub,
            epoch=epoch,
            devices=[device] if isinstance(device, str) else list(device),
            action=action,
            arguments={"on": True} if action is POWER and not arguments else arguments,
            operation=Operation(operation or name),
            sequence=by_time + self._numbers if sequence is None else sequence,
            issued_at=wall + issued,
            expires_at=wall + issued + valid_for,
            precondition=precondition,
        )

    def signed(self, command: Command, *signers: Signer) -> bytes:
        """An envelope around a command; signed by ``desk`` where nobody is named."""
        return sign(encode(command), COMMAND_TYPE, signers or [self.keys.desk])

    async def admits(self, *commands: Command | bytes) -> list[Verdict]:
        """Let commands come in, together."""
        raw = [each if isinstance(each, bytes) else self.signed(each) for each in commands]
        return [each.verdict for each in await self.now.admission.admit([Arrival(each) for each in raw])]

    async def admits_local(
        self, command: Command, *, valid_for: timedelta = MINUTE, by: str = "uid:1000 anna"
    ) -> Verdict:
        """Let a command come in that was typed here."""
        clock = self.clock
        local = BootDeadline(clock.boot_id, clock.boot() + valid_for)
        arrival = Arrival(self.signed(command, self.keys.hub), local, by)
        [admitted] = await self.now.admission.admit([arrival])
        return admitted.verdict

    async def claims(self, lane: Tier = Tier.LOW, holder: str = "worker-1") -> Claim:
        """Claim what is due."""
        async with asyncio.timeout(DEADLINE):
            return await self.now.desk.claim(lane, holder)

    async def works_until(self, condition: Callable[[], Awaitable[object]], lane: Tier = Tier.LOW) -> None:
        """Have a worker of a lane work until that is so; for commands that never come to be worked."""
        working = asyncio.create_task(self.now.dispatch[lane].run("worker-1"))
        try:
            async with asyncio.timeout(DEADLINE):
                while not await condition():
                    assert not working.done(), working.exception()
                    await asyncio.sleep(0)
        finally:
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working

    async def works(self, lane: Tier = Tier.LOW) -> Claim:
        """Claim what is due, and work it as far as it goes."""
        claim = await self.claims(lane)
        await self.now.dispatch[lane].work(claim)
        return claim

    async def works_all(self, *lanes: Tier) -> None:
        """Work everything that is due."""
        for lane in lanes or (Tier.LOW, Tier.MEDIUM):
            while await self.has_work(lane):
                await self.works(lane)
            # A lane with nothing to work waits, and looks: what lost its holder too often ends by that.
            await self.now.store.write(partial(claims.claim, self._wanted(lane)))

    async def has_work(self, lane: Tier = Tier.LOW) -> bool:
        """Whether anything of a lane could be claimed now."""
        try:
            await self.now.store.write(partial(_look, self._wanted(lane, Taker("looker", "0" * 32))))
        except _SeenError as seen:
            return bool(seen.found.found)
        raise AssertionError

    def _wanted(self, lane: Tier, *takers: Taker) -> Wanted:
        policy = self.now.trust.policy
        assert policy is not None
        return Wanted(
            lane=lane,
            takers=takers,
            most=policy.tier_rule(lane).concurrency,
            now=self.lease_time(),
            wall=self.clock.wall(),
            stamp=self.now.around.stamp(),
            losing=self.now.desk.losing,
            rollouts=self.now.desk.rollouts,
        )

    async def uploads(self, *numbers: int) -> None:
        """Let the cloud acknowledge records."""
        await self.now.store.write(partial(outbox.acknowledge, stream=Stream.RECORD, numbers=numbers))


class _SeenError(Exception):
    """Takes back what was claimed only to see whether it could be."""

    def __init__(self, found: Claimed) -> None:
        super().__init__()
        self.found = found


def _look(wanted: Wanted, tx: Transaction) -> None:
    raise _SeenError(claims.claim(wanted, tx))


@asynccontextmanager
async def new_hub(folder: Path) -> AsyncIterator[Hub]:
    """A hub with a policy that has just started, its broker there and its clock proven."""
    hub = Hub(folder)
    await hub.starts()
    await hub.has_policy()
    try:
        yield hub
    finally:
        if hub.is_running:
            await hub.dies()
