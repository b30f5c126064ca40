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
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry
from pydantic import JsonValue

from edgeagent.clock import EPOCH as YEAR_1970
from edgeagent.clock import ClockSource, Proof, ProvenClock
from edgeagent.contracts.actions import ActionName, ArgumentValue
from edgeagent.contracts.command import COMMAND_TYPE, Command, Precondition
from edgeagent.contracts.door import decode, encode
from edgeagent.contracts.event import EventType, Stream
from edgeagent.contracts.policy import POLICY_TYPE, ActionRule, Policy, Role, RoleKind, Tier, TierRule
from edgeagent.contracts.receipt import Receipt
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.envelope import Signer, sign
from edgeagent.core.freshness import BootDeadline
from edgeagent.core.gate import Verdict
from edgeagent.core.profile.load import load
from edgeagent.core.work import Claim
from edgeagent.flows import claims
from edgeagent.flows.admission import Admission, Arrival
from edgeagent.flows.bells import Bell, OutboxBell
from edgeagent.flows.claims import Found, NothingDue, Wanted
from edgeagent.flows.confirmations import Confirmations
from edgeagent.flows.desk import Desk
from edgeagent.flows.devices import Devices
from edgeagent.flows.dispatch import Dispatch
from edgeagent.flows.ingest import Ingest, IngestSettings
from edgeagent.flows.local import LocalCommands
from edgeagent.flows.settling import Settling
from edgeagent.flows.surroundings import Origin, Surroundings
from edgeagent.flows.trust import Trust, TrustSettings
from edgeagent.flows.upkeep import Upkeep
from edgeagent.flows.worlds import Worlds
from edgeagent.ids import (
    CommandId,
    DeviceId,
    Epoch,
    HubId,
    Operation,
    command_id,
    device_id,
    hub_id,
    label,
    new_epoch,
)
from edgeagent.metrics import Metrics
from edgeagent.ports import CrashPoint
from edgeagent.profiles.shipped import shipped_profiles
from edgeagent.store import audit, inbox, outbox, receipts
from edgeagent.store.database import Database, Transaction
from edgeagent.store.inbox_row import Now, Row
from tests.flows.scripted import Television
from tests.support.clocks import NOON, ManualReadings
from tests.support.fake_bus import FakeBus
from tests.support.keys import MemoryKey
from tests.support.stores import HUB_MIGRATIONS, query
from tests.support.waiting import DEADLINE, eventually

HUB: Final[HubId] = hub_id("venue-7")
EPOCH: Final[Epoch] = new_epoch(1_800_000_000_000, 7)
TV: Final[DeviceId] = device_id("tv-1")
OTHER_TV: Final[DeviceId] = device_id("tv-2")
POWER: Final = ActionName.POWER
VOLUME: Final = ActionName.VOLUME
INPUT: Final = ActionName.INPUT
TOGGLE: Final = ActionName.TOGGLE
REBOOT: Final = ActionName.REBOOT
MILLISECOND: Final = timedelta(milliseconds=1)
SECOND: Final = timedelta(seconds=1)
MINUTE: Final = timedelta(minutes=1)
ERROR: Final = timedelta(milliseconds=20)
"""How far a clock that is proven may be off."""

_PROFILE: Final = Path(__file__).with_name("television.toml")
_QUICK: Final = IngestSettings(commit_linger=MILLISECOND)
_CHANCE_BITS: Final = 20
_EVERYTHING: Final = (
    "SELECT * FROM inbox ORDER BY run",
    "SELECT * FROM locks",
    "SELECT * FROM operations",
    "SELECT * FROM receipts",
    "SELECT * FROM outbox",
    "SELECT * FROM streams",
    "SELECT * FROM audit ORDER BY number",
)


class KilledError(BaseException):
    """The process ends here: nothing after it is done. No handler of ours catches it."""


class Points:
    """The named points: a test may let something happen at one, or end the process there.

    Attributes:
        passed: the points that were passed, oldest first.
    """

    def __init__(self) -> None:
        self._last: CrashPoint | None = None
        self._happens: dict[CrashPoint, Callable[[], None]] = {}
        self.passed: list[CrashPoint] = []

    def dies_at(self, point: CrashPoint | None) -> None:
        """End the process when it next passes ``point``; None: let it live."""
        self._last = point

    def happens_at(self, point: CrashPoint, what: Callable[[], None]) -> None:
        """Let something happen when ``point`` is next passed."""
        self._happens[point] = what

    def reached(self, point: CrashPoint) -> None:
        """See ``CrashPoints``."""
        self.passed.append(point)
        what = self._happens.pop(point, None)
        if what is not None:
            what()
        if point is self._last:
            self._last = None
            raise KilledError(point)


@dataclass(frozen=True, slots=True)
class Keys:
    """Who may sign here. ``desk`` and ``night`` are operators, ``stranger`` is known and may nothing."""

    signer: MemoryKey = field(default_factory=MemoryKey)
    desk: MemoryKey = field(default_factory=MemoryKey)
    night: MemoryKey = field(default_factory=MemoryKey)
    stranger: MemoryKey = field(default_factory=MemoryKey)
    hub: MemoryKey = field(default_factory=MemoryKey)

    def policy(self, **changes: object) -> Policy:
        """Both operators may do everything everywhere, and so may whoever types at the hub."""
        low, medium = ActionRule(tier=Tier.LOW), ActionRule(tier=Tier.MEDIUM)
        operators = frozenset({"desk", "night"})
        fields: dict[str, object] = {
            "version": 1,
            "issued_at": NOON - timedelta(days=1),
            "expires_at": NOON + timedelta(days=365),
            "keys": {
                "desk": self.desk.public.hex(),
                "night": self.night.public.hex(),
                "stranger": self.stranger.public.hex(),
            },
            "roles": {
                "operators": Role(kind=RoleKind.COMMAND, keys=operators, actions="*", devices="*"),
                "nobody": Role(kind=RoleKind.COMMAND, keys=frozenset({"stranger"})),
                "local": Role(kind=RoleKind.LOCAL_OPERATOR, hubs=frozenset({HUB}), actions="*", devices="*"),
            },
            "actions": {POWER: low, VOLUME: low, INPUT: low, TOGGLE: medium, REBOOT: medium},
            "tiers": {tier: TierRule(attempts=3) for tier in (Tier.LOW, Tier.MEDIUM)},
        }
        return Policy(**(fields | changes))  # type: ignore[arg-type]  # checked as it is built


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """One process of a hub: everything that is gone when it ends."""

    store: Database
    clock: ProvenClock
    around: Surroundings
    devices: Devices
    trust: Trust
    confirmations: Confirmations
    admission: Admission
    desk: Desk
    upkeep: Upkeep
    local: LocalCommands
    dispatch: dict[Tier, Dispatch]
    ingest: asyncio.Task[None]


class Hub:
    """A hub with its broker, keys and time.

    Attributes:
        path: its database.
        keys: who may sign.
        readings: what its clocks say.
        bus: its broker.
        points: the named points that it passes.
        chance: what is drawn wherever chance decides.
        incarnation: how often it has started.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "hub.db"
        self.keys = Keys()
        self.readings = ManualReadings()
        self.bus = FakeBus(ProvenClock(self.readings))
        self.points = Points()
        self.chance = 0.0
        self.incarnation = 0
        self._numbers = 0
        self._parts: Running | None = None

    @property
    def now(self) -> Running:
        """The process that runs."""
        assert self._parts is not None, "the hub does not run"
        return self._parts

    # A process.

    async def starts(self, *, is_proven: bool = True) -> None:
        """Begin a process on the same database and broker."""
        self.incarnation += 1
        store = await Database.open(self.path, HUB_MIGRATIONS)
        clock = ProvenClock(self.readings)
        around = Surroundings(
            origin=Origin(HUB, EPOCH, self.incarnation),
            clock=clock,
            chance=lambda: self.chance,
            metrics=Metrics(CollectorRegistry()),
            crash=self.points,
            outbox=OutboxBell(),
        )
        trust = Trust(store, clock, None, around, TrustSettings(signer=self.keys.signer.public))
        await trust.load(None)
        profiles = {each.id: each for each in map(load, [*shipped_profiles(), _PROFILE.read_bytes()])}
        devices = Devices(store, self.bus, profiles, around)
        await devices.load()
        self._parts = self._joined(store, clock, around, trust, devices)
        if is_proven:
            self.time_is_known()
        self.bus.comes_up()
        await self.settles()

    def _joined(
        self, store: Database, clock: ProvenClock, around: Surroundings, trust: Trust, devices: Devices
    ) -> Running:
        """Build what works commands, as the agent does."""
        confirmations = Confirmations(clock)
        lanes = {tier: Bell() for tier in Tier}
        settling = Settling(devices, around)
        worlds = Worlds(devices, trust, around, self.keys.hub.public)
        admission = Admission(store, worlds, settling, lanes)
        desk = Desk(store, self.bus, worlds, settling, confirmations, lanes)
        upkeep = Upkeep(store, admission, desk, settling, around)
        confirmations.when_online(lambda _: upkeep.bell.ring())
        trust.when_proven(upkeep.time_is_surer)
        trust.when_proven(desk.wake)
        ingest = Ingest(store, self.bus, devices, confirmations, around, _QUICK)
        return Running(
            store=store,
            clock=clock,
            around=around,
            devices=devices,
            trust=trust,
            confirmations=confirmations,
            admission=admission,
            desk=desk,
            upkeep=upkeep,
            local=LocalCommands(store, admission, self.keys.hub, around),
            dispatch={tier: Dispatch(desk, tier, clock, around.chance, around.metrics) for tier in Tier},
            ingest=asyncio.create_task(ingest.run()),
        )

    async def dies(self) -> None:
        """End the process at once: what is not committed is not."""
        parts, self._parts = self.now, None
        self.points.dies_at(None)
        parts.ingest.cancel()
        with suppress(asyncio.CancelledError, KilledError):
            await parts.ingest
        await parts.store.close()
        self.bus.loses_client()

    async def starts_anew(self, *, is_proven: bool = True) -> None:
        """End the process at once, and begin another."""
        await self.dies()
        await self.starts(is_proven=is_proven)

    async def reboots(self) -> None:
        """Lose power and come back: another boot, in which nothing proves the time yet."""
        await self.dies()
        self.readings.reboots()
        await self.starts(is_proven=False)

    async def settles(self) -> None:
        """Wait until all that devices have said is taken in, and told to who waits for it."""
        task = self.now.ingest
        await eventually(lambda: task.done() or not (self.bus.arrived or self.bus.unacknowledged))
        if task.done():
            task.result()

    async def breathes(self) -> None:
        """Let whatever runs do what is due: some turns of the loop and of the database's threads."""
        for _ in range(5):
            await self.now.store.read(lambda _: None)
            await self.now.store.write(lambda _: None)

    async def is_killed(self, point: CrashPoint, lane: Tier = Tier.LOW) -> None:
        """Claim and work what is due, and die at a point on the way."""
        self.points.dies_at(point)
        ingest = self.now.ingest
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

    def time_is_known(self, moment: datetime | None = None, *, error: timedelta = ERROR) -> None:
        """Prove what the time is; by default that the clock is right."""
        clock = self.now.clock
        wall = self.readings.wall() if moment is None else moment
        clock.prove(Proof(source=ClockSource.STATEMENT, wall=wall, error=error, at=clock.boot()))
        self.now.upkeep.time_is_surer()

    def lease_time(self) -> Now:
        """The present, as leases count it."""
        clock = self.now.clock
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

    # Commands.

    def command(
        self,
        action: ActionName = POWER,
        *,
        id_: str | None = None,
        device: DeviceId = TV,
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
        wall = self.readings.wall()
        name = id_ or f"command-{self._numbers}"
        by_time = (wall - YEAR_1970) // MILLISECOND << _CHANCE_BITS
        return Command(
            id=command_id(name),
            hub=hub,
            epoch=epoch,
            device=device,
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

    async def admits_local(self, command: Command, *, valid_for: timedelta = MINUTE) -> Verdict:
        """Let a command come in that was typed here."""
        clock = self.now.clock
        local = BootDeadline(clock.boot_id, clock.boot() + valid_for)
        arrival = Arrival(self.signed(command, self.keys.hub), local, "uid:1000 anna")
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

    async def has_work(self, lane: Tier = Tier.LOW) -> bool:
        """Whether anything of a lane could be claimed now."""
        policy = self.now.trust.policy
        assert policy is not None
        wanted = Wanted(
            lane=lane,
            holder="looker",
            token="0" * 32,
            most=policy.tier_rule(lane).concurrency,
            now=self.lease_time(),
            stamp=self.now.around.stamp(),
        )
        try:
            await self.now.store.write(partial(_look, wanted))
        except _SeenError as seen:
            return not isinstance(seen.found, NothingDue)
        raise AssertionError

    async def uploads(self, *numbers: int) -> None:
        """Let the cloud acknowledge records."""
        await self.now.store.write(partial(outbox.acknowledge, stream=Stream.RECORD, numbers=numbers))

    # What an outsider sees.

    async def row(self, command: Command | CommandId) -> Row:
        """A command as it stands in the inbox."""
        name = command.id if isinstance(command, Command) else command
        row = await self.now.store.read(partial(inbox.by_command, command=name))
        assert row is not None, f"no {name} is stored"
        return row

    async def receipt(self, command: Command | CommandId) -> Receipt | None:
        """A command's result, if it has one."""
        name = command.id if isinstance(command, Command) else command
        raw = await self.now.store.read(partial(receipts.load, command=name))
        return None if raw is None else decode(Receipt, raw, limit=8192)

    async def ended(self, command: Command | CommandId) -> Receipt:
        """The result of a command that has ended."""
        receipt = await self.receipt(command)
        assert receipt is not None, f"it stands at {(await self.row(command)).state}"
        return receipt

    async def records(self, kind: EventType) -> list[tuple[int, dict[str, JsonValue]]]:
        """The events of a kind in the stream of records, with their numbers."""
        read = partial(outbox.batch, stream=Stream.RECORD, most=10_000, most_bytes=2**30)
        events = await self.now.store.read(read)
        return [(each.number, json.loads(each.data)) for each in events if each.type is kind]

    async def audited(self, *kinds: AuditKind) -> list[dict[str, JsonValue]]:
        """What is on record of some kinds, oldest first; the chain is whole."""
        assert await self.now.store.read(audit.verify) is None
        rows = await self.now.store.read(partial(audit.rows, after=0, most=100_000))
        return [
            {"subject": row.subject, "actor": row.actor} | json.loads(row.detail)
            for row, _ in rows
            if row.kind in kinds
        ]

    def contents(self) -> list[list[tuple[object, ...]]]:
        """All that is stored of commands and events: to see that something has changed nothing."""
        return [query(self.path, sql) for sql in _EVERYTHING]

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """What the database holds, as another program sees it."""
        return query(self.path, sql)


class _SeenError(Exception):
    """Takes back what was claimed only to see whether it could be."""

    def __init__(self, found: Found | NothingDue) -> None:
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
        if hub._parts is not None:
            await hub.dies()
