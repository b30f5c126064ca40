"""The policy and the artifacts beside it: put in force at start, kept fresh, told to people."""

from collections.abc import Mapping
from pathlib import Path

from edgeagent import settings
from edgeagent.agent.artifacts import files_of
from edgeagent.agent.reloading import Reloading
from edgeagent.agent.running import Flow
from edgeagent.config import Config
from edgeagent.flows.artifact_facts import ArtifactFactsDesk
from edgeagent.flows.policy_end import PolicyEnd
from edgeagent.flows.refreshing import Refreshing
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.trust import Trust
from edgeagent.store.database import Database


async def policy_flows(
    config: Config, path: Path, store: Database, trust: Trust, around: Surroundings, again: Reloading
) -> Mapping[str, Flow]:
    """Put the stored or the configured policy in force.

    Returns:
        What looks after it from then on.
    """
    await trust.load(settings.offered_policy(config, path))
    flows = {"policy-end": PolicyEnd(store, trust, around).run}
    source = settings.policy_source(config, path)
    if source is not None:
        refreshing = Refreshing(store, source, trust, around, settings.refresh_settings(config))
        await refreshing.load()
        again.adopts(settings.refresh_settings, refreshing.adopt)
        flows["policy"] = refreshing.run
    return flows


def artifact_desk(
    config: Config, path: Path, store: Database, trust: Trust, around: Surroundings
) -> ArtifactFactsDesk:
    """Build what tells people of artifacts."""
    source = settings.policy_source(config, path)
    return ArtifactFactsDesk(store, trust, source, around, files_of(config))
