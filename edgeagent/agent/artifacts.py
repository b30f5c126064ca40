"""Files for devices: what fetches them and looks after them, built together."""

from collections.abc import Callable
from pathlib import Path

from edgeagent import settings
from edgeagent.adapters.artifacts.source import ArtifactSourceSettings, FetchedFiles
from edgeagent.adapters.fetcher.outside import OutsideFetcher
from edgeagent.agent.reloading import Reloading
from edgeagent.config import Config
from edgeagent.contracts.reports.health import Check
from edgeagent.flows.artifact_space import MEBIBYTE, ArtifactSpace, SpaceSettings
from edgeagent.flows.fetching import Fetching, FetchingSettings
from edgeagent.flows.signed_files import ListedFiles
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.trust import Trust
from edgeagent.secret_files import secret_path
from edgeagent.store.artifact_files import ArtifactFiles
from edgeagent.store.database import Database


def fetching(
    config: Config, path: Path, store: Database, trust: Trust, around: Surroundings, again: Reloading
) -> Fetching:
    """Build what fetches files.

    Args:
        config: what is configured.
        path: where that stands.
        store: for what goes on record.
        trust: which files are signed for.
        around: time and chance.
        again: tells of other settings.
    """
    space = ArtifactSpace(files_of(config), around, _space_settings(config))
    again.adopts(_space_settings, space.adopt)
    return Fetching(
        space, _source(config, path), ListedFiles(trust, around), store, around, FetchingSettings()
    )


def _space_settings(config: Config) -> SpaceSettings:
    artifacts = config.artifacts
    return SpaceSettings(budget=artifacts.budget * MEBIBYTE, keep=artifacts.keep)


def file_checks(config: Config, files: Fetching) -> list[Callable[[], Check]]:
    """What to look at, for health."""
    who = settings.fetcher(config)
    return [files.check, who.check] if isinstance(who, OutsideFetcher) else [files.check]


def files_of(config: Config) -> ArtifactFiles:
    """Where they lie."""
    return ArtifactFiles(config.hub.state_dir / "artifacts")


def _source(config: Config, path: Path) -> FetchedFiles | None:
    """Who brings the bytes; None where nobody publishes any."""
    artifacts, policy = config.artifacts, config.policy
    place = artifacts.source or (None if policy is None else policy.source)
    if place is None:
        return None
    ca_file = artifacts.ca_file or (None if policy is None else policy.ca_file)
    return FetchedFiles(
        ArtifactSourceSettings(
            place=place,
            ca_file=None if ca_file is None else secret_path(path, ca_file),
            proxy=None if config.cloud is None else config.cloud.proxy,
        ),
        settings.fetcher(config),
    )
