"""The isolated worker: works the commands of a lane in a process that can do nothing else (SPEC W1).

It has one way out, the work socket: no network, no broker, no database, no cloud, no key. What it may not
do is kept from it by its systemd unit; what a process can give up by itself, it gives up here first. It is
not believed all the same: the daemon checks each step and each end (``flows/wary``).
"""

import asyncio
import logging
import random
import signal
from contextlib import closing
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry

from edgeagent.adapters.systemd import ServiceManager
from edgeagent.adapters.work_socket.client import WorkClient
from edgeagent.clock import Clock, ProvenClock, SystemTime
from edgeagent.contracts.policy import Tier
from edgeagent.flows.dispatch import Dispatch
from edgeagent.metrics import Metrics
from edgeagent.rights import give_up_rights

log = logging.getLogger(__name__)

AT_ONCE: Final = 16
"""How many commands it could work at once; the policy says how many it may, and no more than this."""


async def run_worker(path: Path, lane: Tier) -> None:
    """Work the commands of a lane until SIGTERM or SIGINT.

    Args:
        path: the agent's work socket.
        lane: which commands.
    """
    give_up_rights()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    clock, metrics = ProvenClock(SystemTime()), Metrics(CollectorRegistry())
    manager = ServiceManager.from_environment()
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_work(path, lane, f"{lane}-{number}", (clock, metrics)))
            for number in range(1, AT_ONCE + 1)
        ]
        tasks.append(group.create_task(_feed_watchdog(manager)))
        manager.ready()
        log.info("worker started", extra={"lane": lane, "socket": str(path)})
        await stop.wait()
        manager.stopping()
        for task in tasks:
            task.cancel()
    log.info("worker stopped")


async def _work(path: Path, lane: Tier, holder: str, means: tuple[Clock, Metrics]) -> None:
    clock, metrics = means
    with closing(WorkClient(path, random.random)) as desk:
        await Dispatch(desk, lane, clock, random.random, metrics).run(holder)


async def _feed_watchdog(manager: ServiceManager) -> None:
    """Tell systemd that the loop turns."""
    while manager.watchdog is not None:
        manager.alive()
        await asyncio.sleep(manager.watchdog.total_seconds() / 3)
