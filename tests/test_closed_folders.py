"""What is named and lies where the agent's user may not even look is told as that; nothing falls over it."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from edgeagent import settings
from edgeagent.cli.issuer_asking import passphrase_of
from edgeagent.config import Config, load
from edgeagent.errors import ConfigurationError
from edgeagent.rights import acting_as
from edgeagent.setup.broker.venue import venue

pytestmark = [
    pytest.mark.requirement("H4"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else"),
]

NOBODY: Final = 65534


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A folder of root's, which keeps everybody else out."""
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def path(closed: Path) -> Path:
    """A configuration all of whose files lie there."""
    file = closed / "config.toml"
    file.write_text(
        f'[hub]\nid = "venue-7"\nstate_dir = "{closed}/state"\n'
        f'[cloud]\nurl = "https://queue.example.org"\ntoken_file = "{closed}/token"\n'
        f'[policy]\nsource = "https://example.org/policy"\nroot = "{closed}/root.json"\n'
    )
    return file


@pytest.mark.requirement("A2")
def test_the_agent_starts_without_a_root_that_it_may_not_look_at(path: Path) -> None:
    config = load(path)

    with acting_as(NOBODY, NOBODY):
        assert settings.policy_source(config, path) is not None


@pytest.mark.parametrize(
    ("read", "named"),
    [
        pytest.param(settings.pinned_root, "root.json", id="the first root of a policy"),
        pytest.param(settings.cloud_settings, "state/identity", id="the hub's identity"),
        pytest.param(venue, "state/hub.db", id="the database"),
    ],
)
def test_what_cannot_be_read_is_named(
    path: Path, closed: Path, read: Callable[[Config, Path], object], named: str
) -> None:
    config = load(path)

    with acting_as(NOBODY, NOBODY), pytest.raises(ConfigurationError, match=f"cannot read {closed}/{named}"):
        read(config, path)


@pytest.mark.parametrize("mode", [0o700, 0o711])
def test_a_folder_of_profiles_that_cannot_be_read_is_taken_for_no_empty_one(
    path: Path, tmp_path: Path, closed: Path, mode: int
) -> None:
    folder = closed / "profiles"
    folder.mkdir()
    for each in (tmp_path, closed, folder):
        each.chmod(mode)
    path.write_text(path.read_text("utf-8") + f'[profiles]\ndirectory = "{folder}"\n', "utf-8")
    config = load(path)

    with acting_as(NOBODY, NOBODY), pytest.raises(ConfigurationError, match=f"cannot read {folder}"):
        settings.profiles(config, path)


def test_a_passphrase_in_a_closed_folder_is_told_as_one_that_cannot_be_read(closed: Path) -> None:
    file = closed / "passphrase"
    typed = argparse.Namespace(passphrase_file=file)

    with (
        acting_as(NOBODY, NOBODY),
        pytest.raises(ConfigurationError, match=f"cannot read {file}"),
    ):
        passphrase_of(typed)
