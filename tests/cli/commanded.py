"""A terminal at a hub that works commands: the real words over the real socket, with scripted devices.

async with commanded(tmp_path) as terminal:
    tv = await terminal.hub.television()
    said = await terminal.types("send", "tv-1", "power", "on=true")
    assert said.status == 0
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from edgeagent.adapters.admin.approval_routes import approval_routes
from edgeagent.adapters.admin.audit_routes import audit_routes
from edgeagent.adapters.admin.breaker_routes import breaker_routes
from edgeagent.adapters.admin.hub_routes import hub_routes
from edgeagent.adapters.admin.letter_routes import letter_routes
from edgeagent.adapters.admin.lock_routes import lock_routes
from edgeagent.adapters.admin.policy_routes import policy_routes
from edgeagent.adapters.admin.rollout_routes import rollout_routes
from edgeagent.adapters.admin.route import Route
from edgeagent.adapters.admin.socket import AdminSocket
from edgeagent.adapters.admin.switch_routes import switch_routes
from edgeagent.adapters.admin.trace_routes import trace_routes
from edgeagent.agent.timing import timing
from edgeagent.contracts.policy import Tier
from edgeagent.flows.beside import Beside
from edgeagent.flows.brokerwatch import BrokerWatch
from edgeagent.flows.floorkeeping import FloorKeeping
from edgeagent.flows.health import Health
from edgeagent.flows.lockdesk import Locks
from edgeagent.flows.names import HubNames
from edgeagent.flows.operator import HubOperator
from edgeagent.flows.policy_facts import PolicyFacts
from edgeagent.flows.storekeeping import StoreKeeping
from edgeagent.flows.traces import trace
from edgeagent.flows.watching.certificates import CertificateFiles
from edgeagent.flows.watching.lookout import Lookout
from edgeagent.store.floorfile import FloorFile
from tests.cli.building import Terminal, lonely_terminal
from tests.flows.commanding import Hub
from tests.flows.rolling import rollouts_of


@dataclass(frozen=True, slots=True)
class Commanded(Terminal):
    """A terminal at a hub that works commands.

    Attributes:
        hub: the hub.
    """

    hub: Hub


@asynccontextmanager
async def commanded(folder: Path, *, has_policy: bool = True) -> AsyncIterator[Commanded]:
    """A hub whose workers work, with or without a policy."""
    hub = Hub(folder)
    await hub.starts()
    if has_policy:
        await hub.has_policy()
    async with lonely_terminal(folder) as lonely:
        names = HubNames(hub.now.store, hub.now.devices)
        admin = AdminSocket(lonely.run_dir / "admin.sock", _routes(hub, folder), names=names, clock=hub.clock)
        await admin.open()
        works: list[Callable[[], Coroutine[None, None, None]]] = [
            hub.now.upkeep.run,
            hub.now.breakers.run,
            *(partial(hub.now.dispatch[tier].run, f"{tier}-1") for tier in Tier),
        ]
        tasks = [asyncio.create_task(work()) for work in works]
        try:
            yield Commanded(lonely.config, lonely.run_dir, hub)
            assert not any(task.done() for task in tasks)
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            await admin.close()
            await hub.dies()


def _routes(hub: Hub, folder: Path) -> list[Route]:
    """What may be asked at this hub."""
    return [
        *hub_routes(_operator(hub, folder)),
        *switch_routes(hub.now.switch),
        *approval_routes(hub.now.approving),
        *lock_routes(Locks(hub.now.store, hub.now.desk, hub.now.around)),
        *policy_routes(PolicyFacts(hub.now.trust, hub.now.worlds)),
        *audit_routes(hub.now.trail),
        *breaker_routes(hub.now.breakers),
        *letter_routes(hub.now.letters),
        *rollout_routes(rollouts_of(hub)),
        *trace_routes(partial(trace, hub.now.store)),
    ]


def _operator(hub: Hub, folder: Path) -> HubOperator:
    """What answers at this hub."""
    now = hub.now
    keeping = FloorKeeping(now.store, FloorFile(folder, now.around.origin.hub), now.trust, now.around, 0)
    time = timing(now.store, hub.clock, None, now.trust, now.around, keeping)
    health = Health(
        store=now.store,
        bus=hub.bus,
        devices=now.devices,
        holds=now.worlds.holds,
        ingest=now.ingest,
        keeping=StoreKeeping(now.store, Beside(now.store), now.around),
        uplink=None,
        trust=now.trust,
        watch=BrokerWatch(now.store, hub.bus, now.devices, now.around),
        floor=time.floor,
        epochs=time.epochs,
        around=now.around,
        lookout=Lookout(now.store, now.around, None, now.tallies, CertificateFiles({}, {})),
        started=hub.clock.boot(),
    )
    return HubOperator(health, hub.clock, now.local)
