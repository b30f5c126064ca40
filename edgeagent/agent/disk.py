"""What looks after the store, and copies it on request: built together."""

from collections.abc import Sequence

from edgeagent.adapters.admin.backup_routes import backup_routes
from edgeagent.adapters.admin.route import Route
from edgeagent.agent.reloading import Reloading
from edgeagent.agent.running import Flow
from edgeagent.config import Config
from edgeagent.flows.backups import BackupFlow
from edgeagent.flows.beside import Beside
from edgeagent.flows.storekeeping import StoreKeeping
from edgeagent.flows.surroundings import Surroundings
from edgeagent.store.database import Database
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The parts.

    Attributes:
        keeping: looks after the store.
        backups: copies it.
    """

    keeping: StoreKeeping
    backups: BackupFlow

    @property
    def flows(self) -> dict[str, Flow]:
        """What of it runs, by name."""
        return {"store": self.keeping.run}

    @property
    def routes(self) -> Sequence[Route]:
        """What of it may be asked at the operator's door."""
        return backup_routes(self.backups)


def disk(store: Database, around: Surroundings, config: Config, again: Reloading) -> Disk:
    """Build the parts."""
    beside = Beside(store)
    backups = BackupFlow(store, beside, around, config.backup.keep)
    again.adopts(lambda other: other.backup.keep, backups.adopt)
    return Disk(keeping=StoreKeeping(store, beside, around), backups=backups)
