"""Watching the broker: what lies retained on command topics, and what it drops (SPEC M3, DESIGN 4).

Somebody else's retained command acts again at each reconnect of its device: a TV wall that does
yesterday's command. The broker is asked at start and each hour; what is found is put on record and told
once as an alert, restarts counted in, and is never taken for a command or an answer.

mosquitto answers PUBACK to a message that it then drops because a queue is full. Only its own count
tells, and its configuration where that can be read; both are looked at on the way.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Final

from edgeagent.contracts.broker_access import Rule, read_rules
from edgeagent.contracts.event import EventType, Stream, data_text
from edgeagent.contracts.mqtt import Inbound
from edgeagent.contracts.reasons import Reason
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.profile.match import covers
from edgeagent.errors import MalformedError, TransientError
from edgeagent.flows.devices import Device, Devices
from edgeagent.flows.surroundings import Surroundings
from edgeagent.ids import Digest
from edgeagent.ports.broker import DeviceBus
from edgeagent.store import audit, outbox, retained
from edgeagent.store.audit import Act
from edgeagent.store.database import Database, Transaction
from edgeagent.store.outbox import NewEvent

log = logging.getLogger(__name__)

_EVERY: Final = timedelta(hours=1)
_AGAIN: Final = timedelta(seconds=30)
_SHOWN: Final = 80
_MOST_BYTES: Final = 1024 * 1024


class BrokerWatch:
    """Looks at the broker, and tells what is dangerous.

    Args:
        store: for what was told already.
        bus: the broker.
        devices: those that are admitted.
        around: clock, outbox and origin.
        access: where it is told whose rules are in force, if it is the hub's own.

    Attributes:
        found: retained messages on command topics, each with the device that it would act on.
        is_open: whether it lets in who has no name, as its configuration says; None when that is not known.
        dropped: how many messages it has dropped since its start; None when it does not say.
    """

    def __init__(
        self,
        store: Database,
        bus: DeviceBus,
        devices: Devices,
        around: Surroundings,
        access: Path | None = None,
    ) -> None:
        self._store = store
        self._bus = bus
        self._devices = devices
        self._around = around
        self._access = access
        self.found: dict[str, Device] = {}
        self.is_open: bool | None = None
        self.dropped: int | None = None

    @property
    def concerns(self) -> Sequence[str] | None:
        """What the broker's configuration says now that could lose messages; None when it cannot be read."""
        return self._bus.concerns()

    @property
    def is_managed(self) -> bool:
        """Whether it is the hub's own, so that its rules are made of the admitted devices."""
        return self._access is not None

    def rules(self) -> Mapping[Digest, Rule] | None:
        """Which rules are in force there, by digest; None where that is not told."""
        if self._access is None:
            return None
        try:
            with self._access.open("rb") as file:
                rules = read_rules(file.read(_MOST_BYTES).decode())
        except (OSError, UnicodeDecodeError, MalformedError):
            return None
        return {rule.digest: rule for rule in rules}

    async def run(self) -> None:
        """Look now and each hour; ends only by cancellation."""
        while True:
            try:
                await self.look()
                wait = _EVERY
            except TransientError as why:
                log.info("cannot look at the broker", extra={"why": str(why)})
                wait = _AGAIN
            await asyncio.sleep(wait.total_seconds())

    async def look(self) -> None:
        """Ask the broker once, and tell what is new.

        Raises:
            TransientError: the broker or the store cannot be used now.
        """
        filters = sorted(
            {topic for device in self._devices.all() for topic in device.compiled.command_topics}
        )
        held = await self._bus.retained(filters) if filters else []
        found = {message.topic: (message, owner) for message in held for owner in self._owners(message)}
        digests = {topic: _digest(message) for topic, (message, _) in found.items()}
        told = await self._store.read(retained.told)
        if digests != told:
            fresh = [found[topic] for topic, digest in digests.items() if told.get(topic) != digest]
            await self._tell(fresh, digests)
        self.found = {topic: owner for topic, (_, owner) in found.items()}
        self.dropped = await self._bus.dropped()

    def _owners(self, message: Inbound) -> list[Device]:
        """The device on whose command topic a message lies; an empty one commands nothing."""
        if not message.retain or not message.payload:
            return []
        return [
            device
            for device in self._devices.all()
            if any(covers(wanted, message.topic) for wanted in device.compiled.command_topics)
        ][:1]

    async def _tell(self, fresh: list[tuple[Inbound, Device]], digests: Mapping[str, Digest]) -> None:
        stamp, time = self._around.stamp(), self._around.event_time()
        acts, events = [], []
        for message, device in fresh:
            shown = ascii(message.topic[:_SHOWN])
            acts.append(
                Act(
                    kind=AuditKind.RETAINED_COMMAND,
                    subject=device.id,
                    actor="unknown",
                    detail={"topic": shown, "bytes": len(message.payload)},
                )
            )
            data = data_text({"reason": Reason.RETAINED_COMMAND, "topic": shown})
            events.append(NewEvent(Stream.RECORD, EventType.ALERT, device.id, time, data))
            log.warning("retained command", extra={"device": device.id, "topic": shown})

        def store(tx: Transaction) -> None:
            outbox.append(tx, events, incarnation=self._around.origin.incarnation)
            audit.append(tx, acts, stamp)
            retained.note(tx, digests)

        await self._store.write(store)
        if fresh:
            self._around.outbox.stored({Stream.RECORD}, len(fresh))


def _digest(message: Inbound) -> Digest:
    return Digest(sha256(message.payload).hexdigest())
