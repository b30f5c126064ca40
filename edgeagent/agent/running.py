"""The running agent: every flow under one TaskGroup, stopped in order."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Protocol

from edgeagent.adapters.systemd import ServiceManager
from edgeagent.agent.resident import stay_small
from edgeagent.agent.watchdog import Watchdog
from edgeagent.core.audit_chain import AuditKind
from edgeagent.errors import StorageError
from edgeagent.flows.surroundings import Surroundings
from edgeagent.store import audit
from edgeagent.store.audit import Act
from edgeagent.store.database import Database, Transaction

log = logging.getLogger(__name__)


Flow = Callable[[], Coroutine[None, None, None]]
"""Something that runs until it is cancelled."""


class Door(Protocol):
    """What is closed when the flows have stopped."""

    async def close(self) -> None:
        """Let nobody in any more."""
        ...


class Agent:
    """Everything that runs: the hub's parts, its flows and its doors.

    Args:
        store: the database.
        around: whose hub it is.
        flows: what runs, by name.
        doors: what is closed when they have stopped.
        last_words: is stored with the stop.
        last: is run when all else is done, and ends.
    """

    def __init__(
        self,
        store: Database,
        around: Surroundings,
        flows: Mapping[str, Flow],
        doors: Sequence[Door],
        *,
        last_words: Callable[[Transaction], None],
        sign_head: Callable[[Transaction], object],
        last: Flow,
    ) -> None:
        self._store = store
        self._around = around
        self._flows = flows
        self._doors = doors
        self._manager = ServiceManager.from_environment()
        self._last_words = last_words
        self._sign_head = sign_head
        self._last = last

    async def run(self, stop: asyncio.Event) -> None:
        """Run all flows until ``stop`` is set; a flow that fails ends the agent."""
        watchdog = Watchdog(self._manager, self._store, self._around)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(flow(), name=name) for name, flow in self._flows.items()]
                tasks.append(group.create_task(watchdog.run(), name="watchdog"))
                tasks.append(group.create_task(stay_small(), name="resident"))
                self._manager.ready()
                log.info(
                    "started", extra={"hub": self._around.origin.hub, "epoch": self._around.origin.epoch}
                )
                await stop.wait()
                self._manager.stopping()
                for task in tasks:
                    task.cancel()
        finally:
            for door in self._doors:
                await door.close()
        await self._record_stop()
        await self._last()
        log.info("stopped")

    async def _record_stop(self) -> None:
        stamp = self._around.stamp()
        act = Act(kind=AuditKind.STOPPED, subject=self._around.origin.hub, actor="agent", detail={})

        def stop(tx: Transaction) -> None:
            self._last_words(tx)
            audit.append(tx, [act], stamp)
            self._sign_head(tx)

        try:
            await self._store.write(stop)
        except StorageError as why:
            # The trail tells it by the next start, which no stop stands before.
            log.warning("the stop is not put on record", extra={"why": str(why)})
