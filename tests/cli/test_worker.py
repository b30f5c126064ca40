"""``edgeagent worker``: its words, and what it needs."""

from pathlib import Path

import pytest

from edgeagent.config import load
from edgeagent.errors import ConfigurationError
from edgeagent.settings import worker_user
from tests.cli.building import typed

pytestmark = pytest.mark.requirement("W1")


@pytest.mark.parametrize("words", [(), ("--lane", "low"), ("--lane", "none"), ("--lane", "high", "more")])
def test_it_works_the_high_lane_and_no_other(words: tuple[str, ...]) -> None:
    said = typed("worker", *words)

    assert said.status == 2
    assert said.err


def test_without_a_socket_it_needs_the_configuration(tmp_path: Path) -> None:
    said = typed("--config", str(tmp_path / "none.toml"), "worker", "--lane", "high")

    assert said.status == 78
    assert "none.toml" in said.err


def test_a_user_that_is_not_on_this_machine_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[hub]\nid = "venue-7"\n[worker]\nhigh = "outside"\nuser = "nobody-of-this-name"\n')

    with pytest.raises(ConfigurationError, match="nobody-of-this-name"):
        worker_user(load(path))

    path.write_text('[hub]\nid = "venue-7"\n[worker]\nuser = "root"\n')
    assert worker_user(load(path)) == 0
    path.write_text('[hub]\nid = "venue-7"\n')
    assert worker_user(load(path)) is None
    assert load(path).worker.high == "inside"
