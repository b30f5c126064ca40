"""What looks after the hub's certificate, built where the hub is enrolled."""

from collections.abc import Callable
from pathlib import Path

from edgeagent import settings
from edgeagent.adapters.cloud.https import HttpsQueue
from edgeagent.agent.running import Flow
from edgeagent.config import Config
from edgeagent.contracts.reports.health import Check
from edgeagent.flows.surroundings import Surroundings
from edgeagent.store.database import Database


def identity(
    config: Config,
    path: Path,
    store: Database,
    around: Surroundings,
    queue: HttpsQueue | None,
    flows: dict[str, Flow],
) -> list[Callable[[], Check]]:
    """Build it and add its flow. Returns what health asks; nothing where the hub has no certificate."""
    cloud = settings.cloud_settings(config, path)
    if queue is None or cloud is None or cloud.certificate is None:
        return []
    # With what reads certificates, 3 MiB that a hub without one has no need of.
    from edgeagent.adapters.cloud.enrolling import QueueRegistry
    from edgeagent.flows.renewing import RenewalSettings, Renewing
    from edgeagent.store.identity import IdentitySlots

    registry = QueueRegistry(cloud, around.clock)
    renewing = Renewing(
        store, IdentitySlots(settings.identity_folder(config).folder), registry, around, RenewalSettings()
    )
    queue.when_turned_away(renewing.hears)
    flows["identity"] = renewing.run
    return [renewing.check]
