"""The devices that the hub works with, and those that have shown themselves.

Owns in memory what ``store/devices`` and ``store/shadow`` hold on disk: each admitted device with its
compiled profile and its shadow. Discovery only *proposes*; an operator admits (SPEC M4). A topic
belongs to one device: whoever would share one with an admitted device is refused (``routes``).

A device that its bridge calls by another name stays the device that it is: it is spoken to by the new one
where its profile says so.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Final

from pydantic import JsonValue

from edgeagent.contracts.event import EventType, Stream, data_text
from edgeagent.contracts.mqtt import Inbound, Session, Subscription
from edgeagent.contracts.profile import DeviceProfile
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.profile.compile import CompiledDevice, Gateway, compile_device
from edgeagent.core.profile.match import Inventory, Matcher, Proposal, Removal
from edgeagent.core.shadow import Shadow, etag
from edgeagent.errors import RejectedError, StorageError
from edgeagent.flows.move_counts import MoveCounts
from edgeagent.flows.proposals import Proposals
from edgeagent.flows.routes import Routes
from edgeagent.flows.surroundings import Surroundings
from edgeagent.ids import DeviceId, Label
from edgeagent.ports.broker import DeviceBus
from edgeagent.store import audit, outbox
from edgeagent.store import devices as rows
from edgeagent.store import shadow as shadows
from edgeagent.store.audit import Act
from edgeagent.store.database import Database, Snapshot, Transaction
from edgeagent.store.devices import Admitted
from edgeagent.values import dataclass

log = logging.getLogger(__name__)

_RETRY_STORE: Final = 1.0


@dataclass(slots=True)
class Device:
    """An admitted device.

    Attributes:
        admitted: who it is.
        compiled: how it is spoken to.
        shadow: what is known of it.
        heard: nanoseconds of boot time of its last message; None when none came since start.
        unsafe: messages that it reported with QoS 0, for which nothing is promised.
    """

    admitted: Admitted
    compiled: CompiledDevice
    shadow: Shadow
    heard: int | None = None
    unsafe: int = 0

    @property
    def id(self) -> DeviceId:
        """Its native identity."""
        return self.admitted.device

    @property
    def online(self) -> bool | None:
        """Whether it is connected, as far as is known."""
        reading = self.shadow.state.get(self.compiled.availability)
        return None if reading is None else reading.value == "online"


@dataclass(frozen=True, slots=True)
class _Move:
    """An admitted device that is to be spoken to in another way."""

    device: Device
    compiled: CompiledDevice
    parameters: dict[str, JsonValue]
    changed: dict[str, JsonValue]


class Devices:
    """The admitted devices and the proposals."""

    def __init__(
        self, store: Database, bus: DeviceBus, profiles: Mapping[str, DeviceProfile], around: Surroundings
    ) -> None:
        self._store = store
        self._bus = bus
        self._profiles = profiles
        self._around = around
        self._gateway = Gateway(around.origin.hub)
        self._matcher = Matcher(list(profiles.values()))
        self._devices: dict[DeviceId, Device] = {}
        self._mortal: dict[DeviceId, Device] = {}
        self._routes: Routes[Device] = Routes()
        self._admitted: list[Callable[[DeviceId], None]] = []
        # One change at a time: two that were checked side by side could claim one topic.
        self._changing = asyncio.Lock()
        # What admitted devices announce of themselves anew, until it is taken over.
        self._moves: dict[DeviceId, dict[str, JsonValue]] = {}
        self._announced = asyncio.Event()
        self._counts = MoveCounts()
        self._left_alone: dict[DeviceId, str] = {}
        self.proposals = Proposals()

    def when_admitted(self, tell: Callable[[DeviceId], None]) -> None:
        """Have ``tell`` called whenever a device was taken in."""
        self._admitted.append(tell)

    def on(self, session: Session, topic: str) -> tuple[Device, ...]:
        """The devices that report on a topic of a session: one, but for what devices share."""
        return self._routes.on(session, topic)

    def get(self, device: DeviceId) -> Device | None:
        """An admitted device by its id."""
        return self._devices.get(device)

    def all(self) -> list[Device]:
        """All admitted devices, by id."""
        return [self._devices[name] for name in sorted(self._devices)]

    def may_fall_silent(self) -> Collection[Device]:
        """Those of them that are taken for gone when they say nothing for too long. Asked at each commit."""
        return self._mortal.values()

    async def load(self) -> None:
        """Read devices and shadows from the store, in place of what is in memory, and subscribe.

        A device whose profile is missing or no longer fits its parameters is left out and named in
        the log; the others work.
        """
        async with self._changing:
            admitted, stored = await self._store.read(_load)
            self._devices.clear()
            self._mortal.clear()
            self._routes.clear()
            for row in admitted:
                try:
                    compiled = self._compile(row.device, row.profile, row.parameters)
                    self._routes.check(compiled)
                except RejectedError as why:
                    log.warning("device left out", extra={"device": row.device, "why": str(why)})
                else:
                    self._enter(Device(row, compiled, stored[row.device]))
            await self._subscribe()

    def discover(self, message: Inbound) -> None:
        """See whether a message of no admitted device announces one."""
        match self._matcher.match(message.topic, message.payload):
            case Proposal() as proposal:
                self._propose(proposal)
            case Removal(device):
                self.proposals.drop(device)
            case Inventory() as inventory:
                self._take_stock(inventory)
            case None:
                pass

    async def admit(
        self, device: DeviceId, profile: str, parameters: Mapping[str, JsonValue], label: Label, *, actor: str
    ) -> Device:
        """Take a device in: store it, tell it, and listen to it.

        Raises:
            RejectedError: it is admitted already, no such profile, its parameters do not fit, or
                another device has one of its topics.
        """
        async with self._changing:
            compiled = self._compile(device, profile, parameters)
            self._routes.check(compiled)
            admitted = Admitted(
                device=device,
                label=label,
                profile=profile,
                parameters=dict(parameters),
                at=self._around.stamp().at,
                by=actor,
            )
            entered = Device(admitted, compiled, Shadow(0, etag({})))
            await self._save(entered)
            self._enter(entered)
            self.proposals.drop(device)
            await self._subscribe()
        log.info("device admitted", extra={"device": device, "profile": profile})
        for tell in self._admitted:
            tell(device)
        return entered

    async def forget(self, device: DeviceId, *, actor: str) -> None:
        """Let a device go: nothing it sends is taken any more.

        Raises:
            RejectedError: no such device is admitted.
        """
        event = outbox.NewEvent(
            Stream.RECORD, EventType.DEVICE_FORGOTTEN, device, self._around.event_time(), data_text({})
        )
        act = Act(kind=AuditKind.DEVICE_FORGOTTEN, subject=device, actor=actor, detail={})
        stamp = self._around.stamp()

        def store(tx: Transaction) -> None:
            rows.forget(tx, device)
            outbox.append(tx, [event], incarnation=self._around.origin.incarnation)
            audit.append(tx, [act], stamp)

        async with self._changing:
            await self._store.write(store)
            self._around.outbox.stored({Stream.RECORD}, 1)
            self._devices.pop(device, None)
            self._mortal.pop(device, None)
            self._routes.leave({device})
            await self._subscribe()
        log.info("device forgotten", extra={"device": device})

    async def _save(self, entered: Device) -> None:
        """Store a new device, its event and its audit row."""
        admitted, stamp = entered.admitted, self._around.stamp()
        event = outbox.NewEvent(
            Stream.RECORD,
            EventType.DEVICE_ADMITTED,
            entered.id,
            self._around.event_time(),
            data_text(
                {
                    "label": admitted.label,
                    "profile": admitted.profile,
                    "actions": sorted(entered.compiled.actions),
                }
            ),
        )
        act = Act(
            kind=AuditKind.DEVICE_ADMITTED,
            subject=entered.id,
            actor=admitted.by,
            detail={"profile": admitted.profile, "parameters": admitted.parameters},
        )

        def store(tx: Transaction) -> None:
            rows.admit(tx, admitted, etag=entered.shadow.etag)
            outbox.append(tx, [event], incarnation=self._around.origin.incarnation)
            audit.append(tx, [act], stamp)

        await self._store.write(store)
        self._around.outbox.stored({Stream.RECORD}, 1)

    def _compile(self, device: DeviceId, profile: str, parameters: Mapping[str, JsonValue]) -> CompiledDevice:
        known = self._profiles.get(profile)
        if known is None:
            raise RejectedError(f"there is no profile {profile!r}")
        return compile_device(known, device, parameters, gateway=self._gateway)

    def _enter(self, device: Device) -> None:
        self._devices[device.id] = device
        self._mortal.pop(device.id, None)
        if device.compiled.silent_after is not None:
            self._mortal[device.id] = device
        self._routes.enter(device)

    async def follow(self) -> None:
        """Take over what admitted devices announce anew; ends only by cancellation."""
        while True:
            await self._announcement()
            self._announced.clear()
            moves, self._moves = self._moves, {}
            try:
                async with self._changing:
                    await self._move(await self._fitting(moves))
            except StorageError as why:
                log.warning("announcements wait for the store", extra={"why": str(why)})
                self._moves = moves | self._moves
                self._announced.set()
                await asyncio.sleep(_RETRY_STORE)

    async def _announcement(self) -> None:
        """Wait for one, or until the trail is to be told of what was counted."""
        due = self._counts.due
        wait = None if due is None else max(timedelta(0), due - self._around.clock.boot()).total_seconds()
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._announced.wait()

    async def _fitting(self, moves: Mapping[DeviceId, Mapping[str, JsonValue]]) -> list[_Move]:
        """The moves that can be made together: two devices may have changed their names with each other."""
        found: dict[DeviceId, _Move] = {}
        for name, changed in moves.items():
            await asyncio.sleep(0)  # a bridge may have renamed all of them, and others have their turn
            device = self._devices.get(name)
            if device is None:
                continue
            parameters = {**device.admitted.parameters, **changed}
            try:
                compiled = self._compile(name, device.admitted.profile, parameters)
            except RejectedError as why:
                self._leave_alone(name, str(why))
            else:
                found[name] = _Move(device, compiled, parameters, dict(changed))
        refused = self._routes.refused({name: move.compiled for name, move in found.items()})
        for name, reason in refused.items():
            del found[name]
            self._leave_alone(name, reason)
        return list(found.values())

    def _leave_alone(self, device: DeviceId, why: str) -> None:
        """Tell that an announcement is not taken over, once for as long as it stays the same."""
        if self._left_alone.get(device) != why:
            log.warning("announcement left alone", extra={"device": device, "why": why})
            self._left_alone[device] = why

    async def _move(self, moves: Sequence[_Move]) -> None:
        """Store the new parameters, tell the trail, and listen there."""
        changed = {move.device.id: move.changed for move in moves}
        acts, counts = self._counts.told(changed, self._around.clock.boot())
        stamp = self._around.stamp()

        def store(tx: Transaction) -> None:
            for move in moves:
                rows.move(tx, move.device.id, move.parameters)
            audit.append(tx, acts, stamp)

        if moves or acts:
            await self._store.write(store)
        self._counts = counts
        if not moves:
            return
        self._routes.leave({move.device.id for move in moves})
        for move in moves:
            move.device.admitted = replace(move.device.admitted, parameters=move.parameters)
            move.device.compiled = move.compiled
            move.device.shadow.lose_touch()
            self._routes.enter(move.device)
            self._left_alone.pop(move.device.id, None)
        for act in acts:
            # A name that people gave is on the trail alone.
            log.info("device moved", extra={"device": act.subject, "changed": sorted(act.detail)})
        await self._subscribe()

    def _take_stock(self, inventory: Inventory) -> None:
        """Propose all of a list; those that it has no more have taken themselves back."""
        self.proposals.keep(inventory)
        for proposal in inventory.proposals:
            self._propose(proposal, inventory.topic)

    def _note_move(self, device: Device, told: Proposal) -> None:
        """Note what an admitted device announces anew, where its profile says that it is taken over."""
        held = device.compiled.parameters
        same = told.profile == device.admitted.profile and all(
            told.parameters.get(name) == held.get(name) for name in told.anchors
        )
        if not same:
            return
        changed = {
            name: told.parameters[name]
            for name in told.follow
            if name in told.parameters and told.parameters[name] != held.get(name)
        }
        if changed:
            self._moves[device.id] = changed
            self._announced.set()
        else:
            self._moves.pop(device.id, None)

    def _propose(self, proposal: Proposal, listed_on: str = "") -> None:
        admitted = self._devices.get(proposal.device)
        if admitted is not None:
            self._note_move(admitted, proposal)
            return
        self.proposals.add(proposal, listed_on)

    async def _subscribe(self) -> None:
        wanted: dict[str, Subscription] = {}
        for device in self._devices.values():
            wanted.update({sub.filter: sub for sub in device.compiled.subscriptions})
        # A filter belongs to one session: an admitted device's own goes before discovery.
        for sub in self._matcher.subscriptions:
            wanted.setdefault(sub.filter, sub)
        await self._bus.subscribe(list(wanted.values()))
        self._around.metrics.devices.set(len(self._devices))


def _load(db: Snapshot) -> tuple[list[Admitted], dict[DeviceId, Shadow]]:
    return rows.load(db), shadows.load(db)
