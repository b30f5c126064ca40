"""The watchdog is fed as long as everything gets on: the loop, the store's threads, each vital flow (R6).

The table of what ends the feeding, after which systemd ends us with SIGABRT and starts us anew:

    the loop stands still             nobody feeds
    a thread of the store hangs       not fed after three minutes: a slow card is no reason
    a flow does not come back         not fed when the time of its piece of work is over (core/pulses)
    the disk fails, or is read-only   fed: a restart mends no disk
    a lane leaves a command lying     not fed when it has not come to the desk for as long (flows/pulsing)
    no broker, no cloud, no device    fed: whoever waits for them rests
"""

import asyncio
import logging
from datetime import timedelta
from typing import Final

from edgeagent.adapters.systemd import ServiceManager
from edgeagent.flows.surroundings import Surroundings
from edgeagent.store.database import Database

log = logging.getLogger(__name__)

STORE: Final = timedelta(minutes=3)
"""How long the store may be at one commit: cards have been seen to stall for a minute."""

_TIMES: Final = 3


class Watchdog:
    """Feeds the service manager's watchdog."""

    def __init__(self, manager: ServiceManager, store: Database, around: Surroundings) -> None:
        self._manager = manager
        self._store = store
        self._around = around
        self._stuck = ""

    async def run(self) -> None:
        """Feed it, if there is one; ends only by cancellation."""
        if self._manager.watchdog is None:
            return
        every = self._manager.watchdog.total_seconds() / _TIMES
        async with asyncio.TaskGroup() as group:
            group.create_task(self._ask_store(every), name="watchdog store")
            while True:
                self.feed()
                await asyncio.sleep(every)

    def feed(self) -> bool:
        """Feed it unless somebody is stuck; who that is stands in the log, since what follows is SIGABRT.

        Returns:
            Whether it was fed.
        """
        stuck = self._around.pulses.stuck(self._around.clock.boot())
        if stuck is None:
            self._stuck = ""
            self._manager.alive()
            return True
        if stuck.flow != self._stuck:
            self._stuck = stuck.flow
            log.critical("stuck", extra={"flow": stuck.flow, "late": stuck.late.total_seconds()})
            self._manager.status(f"stuck: {stuck.flow}; the watchdog is no longer fed")
        return False

    async def _ask_store(self, every: float) -> None:
        """See that the store's threads come round."""
        while True:
            with self._around.at_work("store", STORE):
                await self._store.come_round()
            await asyncio.sleep(every)
