"""A list of devices that are to be updated, and whoever works it: by hand, since only the order matters."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

from edgeagent.clock import EPOCH as YEAR_1970
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import Command
from edgeagent.contracts.policy import ActionRule, Tier, id_of_key
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.rollout import FirmwareRule
from edgeagent.core.lease import Parent, Terms
from edgeagent.core.lifecycle import State
from edgeagent.flows import claims
from edgeagent.flows.calling_off import CallingOff
from edgeagent.flows.claims import Claimed, Taker, Wanted
from edgeagent.flows.rollout_desk import HubRollouts
from edgeagent.ids import DeviceId, device_id, digest
from edgeagent.store import inbox, locks
from edgeagent.store.database import Transaction
from edgeagent.store.inbox_row import Moved, NewCommand, Row
from tests.flows.commanding import Hub, new_hub

MICROSECOND: Final = timedelta(microseconds=1)
LANE: Final = Tier.LOW


class Rolling:
    """A hub whose policy has a rule of rollouts, and a list of devices at it."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.policies = 1
        self.taken: dict[DeviceId, str] = {}

    async def rules(self, *, artifacts: object = None, **fields: object) -> None:
        """Put a policy with such a rule in force, by which these files may be installed."""
        self.policies += 1
        rule = FirmwareRule(**fields)  # type: ignore[arg-type]  # checked as it is built
        actions = {each: ActionRule(tier=LANE) for each in (ActionName.INSTALL, ActionName.POWER)}
        await self.hub.has_policy(
            version=self.policies, actions=actions, firmware=rule, artifacts=artifacts or {}
        )

    async def lists(
        self, number: int, *, first: int = 1, days: int = 3, bridged: int = 0, held: bool = False
    ) -> Command:
        """Let a list of so many devices stand queued, the first few behind one bridge, or all held."""
        devices = [device_id(f"plug-{each}") for each in range(first, first + number)]
        command = self.hub.command(
            ActionName.INSTALL,
            device=devices,
            valid_for=timedelta(days=days),
            artifact="plug-2",
            digest="2" * 64,
        )
        envelope = self.hub.signed(command)

        def queue(tx: Transaction) -> None:
            for place, device in enumerate(devices):
                row = self._row(command, device, envelope)
                parent = Parent("attic", 1) if place < bridged else None
                to = (State.HELD, Reason.NEEDS_APPROVAL) if held else (State.QUEUED, None)
                inbox.insert(tx, replace(row, terms=Terms(parent=parent)), *to)

        await self.hub.store.write(queue)
        return command

    async def begins(self, takers: int = 50, *, most: int = 1000) -> list[DeviceId]:
        """Let so many ask for work; tells what was begun."""
        return [each.row.device for each in (await self.claimed(takers, most=most)).found]

    async def claimed(self, takers: int = 50, *, most: int = 1000) -> Claimed:
        """Let so many ask for work, of a lane that works at most so many."""
        asking = [Taker(f"worker-{each}", f"{len(self.taken) + each:032x}") for each in range(takers)]
        wanted = Wanted(
            lane=LANE,
            takers=asking,
            most=most,
            now=self.hub.lease_time(),
            wall=self.hub.clock.wall(),
            stamp=self.hub.now.around.stamp(),
            losing=self.hub.now.desk.losing,
            rollouts=self.hub.now.desk.rollouts,
        )
        found = await self.hub.store.write(partial(claims.claim, wanted))
        for taker, each in zip(asking, found.found, strict=False):
            self.taken[each.row.device] = taker.token
        return found

    async def ends(self, command: Command, devices: Sequence[DeviceId], state: State) -> None:
        """Let what is under way on some devices end so."""
        for device in devices:
            row = await self.hub.row(command, device)
            await self.hub.store.write(partial(self._end, row=row, state=state))

    async def sends(self, command: Command, device: DeviceId) -> None:
        """Let whoever works a device send it something."""
        row = await self.hub.row(command, device)
        await self.hub.store.write(partial(inbox.note_sent, run=row.run))

    async def stands(self, command: Command) -> dict[str, int]:
        """How many devices of a list stand where, and why."""
        rows = await self.hub.store.read(partial(inbox.by_command, command=command.id))
        names = [
            f"{row.state} {row.reason}" if row.state is State.WAITING else str(row.state) for row in rows
        ]
        return {name: names.count(name) for name in names}

    def _end(self, tx: Transaction, row: Row, state: State) -> None:
        locks.release(tx, locks.Key(row.device, self.taken[row.device]))
        inbox.move(tx, row, Moved(state))

    def _row(self, command: Command, device: DeviceId, envelope: bytes) -> NewCommand:
        desk = id_of_key(self.hub.keys.desk.public)
        return NewCommand(
            command=command.id,
            device=device,
            issuer=desk,
            signers=(desk,),
            sequence=command.sequence,
            action=command.action,
            slot="firmware",
            lane=LANE,
            operation=digest("3" * 64),
            sha256=digest("4" * 64),
            envelope=envelope,
            expires_at=(command.expires_at - YEAR_1970) // MICROSECOND,
            begins_at=(command.issued_at - YEAR_1970) // MICROSECOND,
            local=None,
            actor=desk,
            received_at=(command.issued_at - YEAR_1970) // MICROSECOND,
        )


def rollouts_of(hub: Hub) -> HubRollouts:
    """What answers about lists at a hub that runs."""
    now = hub.now
    calling_off = CallingOff(now.store, hub.bus, now.confirmations, now.settling, now.desk)
    return HubRollouts(now.store, now.desk, now.settling, now.worlds, calling_off)


@asynccontextmanager
async def new_rollout(folder: Path, **fields: object) -> AsyncIterator[Rolling]:
    """A hub with such a rule."""
    async with new_hub(folder) as hub:
        rolling = Rolling(hub)
        await rolling.rules(**fields)
        yield rolling
