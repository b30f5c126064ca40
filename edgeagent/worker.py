"""The isolated worker: works the commands of a lane in a process that can do nothing else (SPEC W1).

It has one way out, the work socket: no network, no broker, no database, no cloud, no key. What it may not
do is kept from it by its systemd unit; what a process can give up by itself, it gives up here first. It is
not believed all the same: the daemon checks each step and each end (``flows/wary``). Its watchdog is fed as
long as everybody who has a command gets on with it (``flows/pulsing``).
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
from edgeagent.adapters.work_socket.presence import Presence
from edgeagent.clock import Clock, ProvenClock, SystemTime
from edgeagent.contracts.policy import Tier
from edgeagent.core.pulses import Pulses
from edgeagent.flows.dispatch import Dispatch
from edgeagent.flows.pulsing import PulsingDesk
from edgeagent.metrics import Metrics
from edgeagent.rights import give_up_rights, refuse_root
from edgeagent.values import dataclass

log = logging.getLogger(__name__)

AT_ONCE: Final = 16
"""How many commands it could work at once; the policy says how many it may, and no more than this."""


@dataclass(frozen=True, slots=True)
class _Means:
    """What all who work share."""

    clock: Clock
    metrics: Metrics
    pulses: Pulses


async def run_worker(path: Path, lane: Tier) -> None:
    """Work the commands of a lane until SIGTERM or SIGINT.

    Args:
        path: the agent's work socket.
        lane: which commands.
    """
    refuse_root()
    give_up_rights()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    means = _Means(ProvenClock(SystemTime()), Metrics(CollectorRegistry()), Pulses())
    manager = ServiceManager.from_environment()
    presence = Presence(path, manager.status)
    async with asyncio.TaskGroup() as group:
        clients = [WorkClient(path, random.random, presence) for _ in range(AT_ONCE)]
        tasks = [
            group.create_task(_work(client, lane, number, means))
            for number, client in enumerate(clients, start=1)
        ]
        tasks.append(group.create_task(_feed_watchdog(manager, means)))
        manager.ready()
        log.info("worker started", extra={"lane": lane, "socket": str(path)})
        await stop.wait()
        manager.stopping()
        for task in tasks:
            task.cancel()
    log.info("worker stopped")


async def _work(client: WorkClient, lane: Tier, number: int, means: _Means) -> None:
    with closing(client):
        desk = PulsingDesk(client, means.pulses, means.clock)
        await Dispatch(desk, lane, means.clock, random.random, means.metrics).run(f"{lane}-{number}")


async def _feed_watchdog(manager: ServiceManager, means: _Means) -> None:
    """Tell systemd that we live, unless somebody is stuck: what follows then is SIGABRT and another start."""
    was = ""
    while manager.watchdog is not None:
        stuck = means.pulses.stuck(means.clock.boot())
        if stuck is None:
            was = ""
            manager.alive()
        elif stuck.flow != was:
            was = stuck.flow
            log.critical("stuck", extra={"flow": stuck.flow, "late": stuck.late.total_seconds()})
        await asyncio.sleep(manager.watchdog.total_seconds() / 3)
