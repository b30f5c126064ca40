"""What a drill is held on: an engine of its own, started, cut off and started again on one scratch file.

Nothing of it reaches anybody: its broker is in memory, its keys are made for it and forgotten with it, and
its epoch is that of no hub. So no command of a drill could pass the gate of the hub, and none of the hub's
that of a drill.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from os import urandom
from pathlib import Path
from random import getrandbits
from typing import Final, TypeVar

from edgeagent.clock import EPOCH
from edgeagent.contracts.actions import ActionName, Arguments, ArgumentValue
from edgeagent.contracts.command import COMMAND_TYPE, Command
from edgeagent.contracts.door import encode
from edgeagent.contracts.event import EventType, StoredEvent, Stream
from edgeagent.contracts.policy import ActionRule, Policy, Role, RoleKind, Tier, TierRule
from edgeagent.core.envelope import sign
from edgeagent.core.freshness import CHANCE_BITS
from edgeagent.core.gate.verdict import Refuse, Verdict
from edgeagent.core.work import Claim
from edgeagent.errors import BrokenInvariantError, StorageError
from edgeagent.flows.admission import Arrival
from edgeagent.flows.drills.appliance import APPLIANCE, Appliance
from edgeagent.flows.drills.bus import DrillBus
from edgeagent.flows.drills.engine import Engine, Outside, Start
from edgeagent.flows.drills.points import CutError, CutPoints
from edgeagent.flows.drills.timepiece import Timepiece
from edgeagent.flows.surroundings import Origin
from edgeagent.ids import CommandId, command_id, hub_id, label, new_epoch, operation
from edgeagent.ports.crash import CrashPoint
from edgeagent.store import inbox, outbox
from edgeagent.store.hubkey import HubKey
from edgeagent.store.inbox_row import Row

T = TypeVar("T")

LANE: Final = Tier.LOW
"""Where every command of a drill is worked."""
ATTEMPTS: Final = 3
"""How often one is tried."""

_HUB: Final = hub_id("drill")
_ACTOR: Final = "drill"
_ACTIONS: Final = (
    ActionName.POWER,
    ActionName.VOLUME,
    ActionName.INPUT,
    ActionName.PRESENT,
    ActionName.TOGGLE,
)
_SEED_BYTES: Final = 32
_DAY: Final = timedelta(days=1)
_MILLISECOND: Final = timedelta(milliseconds=1)


class Rig:
    """An engine of a drill, its broker and appliance, and who signs.

    Args:
        file: the scratch database.
        start: starts the engine.
        time: its clocks.
        appliance: the virtual appliance.

    Attributes:
        time: its clocks.
        appliance: the virtual appliance.
        bus: the broker.
    """

    def __init__(self, file: Path, start: Start, time: Timepiece, appliance: Appliance) -> None:
        self._file = file
        self._start = start
        self._points = CutPoints()
        self._issuer, self._own = HubKey(urandom(_SEED_BYTES)), HubKey(urandom(_SEED_BYTES))
        self._epoch = new_epoch((time.wall() - EPOCH) // _MILLISECOND, getrandbits(32))
        self._policy = _policy(self._issuer.public, time)
        self._starts = 0
        self._numbers = 0
        self._trouble = ""
        self._engine: Engine | None = None
        self._ingest: asyncio.Task[None] | None = None
        self.time = time
        self.appliance = appliance
        self.bus = DrillBus(time, appliance)

    @property
    def engine(self) -> Engine:
        """The engine that runs.

        Raises:
            BrokenInvariantError: none does.
        """
        if self._engine is None:
            raise BrokenInvariantError("the drill's engine does not run")
        return self._engine

    # Its lives.

    async def starts(self) -> None:
        """Start the engine on the scratch file, and wait until it knows what the appliance shows."""
        self._starts += 1
        self._engine = await self._start(
            Outside(
                file=self._file,
                origin=Origin(_HUB, self._epoch, self._starts),
                time=self.time,
                bus=self.bus,
                key=self._own,
                policy=self._policy,
                points=self._points,
            )
        )
        if self._engine.devices.get(APPLIANCE) is None:
            await self._engine.devices.admit(
                APPLIANCE, "drill", {"topic": APPLIANCE}, label("Virtual appliance"), actor=_ACTOR
            )
        self._ingest = asyncio.create_task(self._take_in(self._engine), name="drill-ingest")
        self.bus.comes_up()
        await self.bus.drains()
        self.time.passes(_MILLISECOND)

    async def ends(self) -> None:
        """End the engine at once: what is not committed is not."""
        ingest, engine = self._ingest, self._engine
        self._ingest = self._engine = None
        if ingest is not None:
            ingest.cancel()
            await asyncio.wait([ingest])
        if engine is not None:
            await engine.store.close()
        self.bus.loses_client()

    async def is_cut(self, point: CrashPoint) -> bool:
        """Work what is due, cut it off at a point, and start the engine again.

        Returns:
            Whether that point was passed.
        """
        self._points.cuts_at(point)
        try:
            await self.works()
        except CutError:
            await self.ends()
            await self.starts()
            return True
        finally:
            self._points.cuts_at(None)
        return False

    async def must_run(self, work: Coroutine[None, None, T]) -> T:
        """Do something as long as readings are taken in.

        Raises:
            StorageError: they are not.
        """
        async with beside(work) as task, beside(self.bus.stuck.wait()) as stuck:
            await asyncio.wait({task, stuck}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise StorageError(self.engine.ingest.store_trouble or self._trouble)

    async def _take_in(self, engine: Engine) -> None:
        try:
            await engine.ingest.run()
        except Exception as why:  # noqa: BLE001 - whatever ends it ends the drill, which tells it
            self._trouble = f"readings are not taken in: {type(why).__name__}: {why}"
            self.bus.stuck.set()

    # Commands.

    def signed(
        self,
        action: ActionName,
        arguments: Arguments,
        *,
        named: str = "",
        meaning: str = "",
        valid_for: timedelta = timedelta(minutes=5),
    ) -> tuple[CommandId, bytes]:
        """Make a command.

        Args:
            action: what to do.
            arguments: with what.
            named: its id; a new one where nothing is said.
            meaning: its operation; its id where nothing is said.
            valid_for: how long it is good.

        Returns:
            Its id and envelope.
        """
        self._numbers += 1
        name = command_id(named or f"drill-{self._numbers}")
        wall = self.time.wall()
        command = Command(
            id=name,
            hub=_HUB,
            epoch=self._epoch,
            devices=[APPLIANCE],
            action=action,
            arguments=dict(arguments),
            operation=operation(meaning or name),
            sequence=((wall - EPOCH) // _MILLISECOND << CHANCE_BITS) + self._numbers,
            issued_at=wall,
            expires_at=wall + valid_for,
        )
        return name, sign(encode(command), COMMAND_TYPE, [self._issuer])

    async def admits(self, *envelopes: bytes) -> list[Verdict]:
        """Let commands come in, together."""
        admitted = await self.engine.admission.admit([Arrival(each) for each in envelopes])
        return [each.verdict for each in admitted]

    async def orders(self, action: ActionName, **arguments: ArgumentValue) -> CommandId:
        """Let a command come in of which nothing in particular is wanted."""
        name, envelope = self.signed(action, arguments)
        await self.admits(envelope)
        return name

    async def claims(self, holder: str = "drill-worker") -> Claim:
        """Claim what is due."""
        return await self.engine.desk.claim(LANE, holder)

    async def works(self, holder: str = "drill-worker") -> Claim:
        """Claim what is due, and work it as far as it goes."""
        claim = await self.claims(holder)
        await self.engine.dispatch[LANE].work(claim)
        return claim

    async def row(self, command: CommandId) -> Row:
        """The last run of a command.

        Raises:
            BrokenInvariantError: it is not in the inbox.
        """
        row = await self.engine.store.read(partial(inbox.of_device, command=command, device=APPLIANCE))
        if row is None:
            raise BrokenInvariantError(f"{command} is lost")
        return row

    async def records(self, kind: EventType) -> list[StoredEvent]:
        """What would be sent up, of one type, oldest first."""
        read = partial(outbox.batch, stream=Stream.RECORD, most=10_000, most_bytes=2**24)
        return [event for event in await self.engine.store.read(read) if event.type is kind]

    async def settles(self) -> None:
        """Wait until whatever runs beside has looked for work: the writer takes one after the other."""
        for _ in range(2):
            await asyncio.sleep(0)
            await self.engine.store.write(lambda _: None)


@asynccontextmanager
async def beside(work: Coroutine[None, None, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Have something done beside what the block does, and end it with the block."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


def word_of(verdict: Verdict) -> str:
    """A verdict in a word; a refusal by its reason."""
    if isinstance(verdict, Refuse):
        return f"refused ({verdict.reason})"
    return type(verdict).__name__.lower()


def ended(row: Row) -> str:
    """How a command stands, in words."""
    reason = "" if row.reason is None else f" ({row.reason})"
    return f"{row.state}{reason}, attempts {row.attempts}"


def _policy(issuer: bytes, time: Timepiece) -> Policy:
    """Who may do what in a drill: its own key everything, on its own appliance."""
    wall = time.wall()
    return Policy(
        version=1,
        hubs=frozenset({_HUB}),
        issued_at=wall - timedelta(minutes=1),
        expires_at=wall + _DAY,
        keys={"drill": issuer.hex()},
        roles={
            "drill": Role(
                kind=RoleKind.COMMAND,
                keys=frozenset({"drill"}),
                actions=frozenset(_ACTIONS),
                devices=frozenset({APPLIANCE}),
            )
        },
        actions={action: ActionRule(tier=LANE) for action in _ACTIONS},
        tiers={LANE: TierRule(attempts=ATTEMPTS)},
    )
