"""The audit trail: what signs its heads, and what tells people of it, built together."""

from collections.abc import Sequence

from edgeagent import settings
from edgeagent.adapters.admin.audit_routes import audit_routes
from edgeagent.adapters.admin.route import Route
from edgeagent.agent.reloading import Reloading
from edgeagent.agent.running import Flow
from edgeagent.config import Config
from edgeagent.core.envelope import Signer
from edgeagent.flows.checkpoints import Checkpoints
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.trail_desk import TrailDesk
from edgeagent.store.database import Database
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Trail:
    """The parts.

    Attributes:
        checkpoints: signs heads.
        desk: tells people.
    """

    checkpoints: Checkpoints
    desk: TrailDesk

    @property
    def flows(self) -> dict[str, Flow]:
        """What of it runs, by name."""
        return {"checkpoints": self.checkpoints.run}

    @property
    def routes(self) -> Sequence[Route]:
        """What of it may be asked at the operator's door."""
        return audit_routes(self.desk)


def trail(store: Database, key: Signer, around: Surroundings, config: Config, again: Reloading) -> Trail:
    """Build the parts."""
    checkpoints = Checkpoints(store, key, around, settings.audit_settings(config))
    again.adopts(settings.audit_settings, checkpoints.adopt)
    return Trail(checkpoints=checkpoints, desk=TrailDesk(store, key.public, checkpoints, around))
