"""A file for devices on its way from the policy's own repository to the hub, restarted and revoked."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from edgeagent.ids import artifact_id
from tests.support.agents import AgentProcess
from tests.support.agents_publishing import begins, signing_for, taking_from
from tests.support.brokers import wait_until
from tests.support.fetching import lays_out, signed_file, some_bytes
from tests.support.stores import query
from tests.support.tuf_repository import Repository

pytestmark = [pytest.mark.slow, pytest.mark.requirement("F2", "V3")]

ID: Final = artifact_id("plug-1")
CONTENT: Final = some_bytes(100_000)
FILE: Final = signed_file(CONTENT, artifact=ID, group="plugs")
PLUG: Final[dict[str, object]] = {"family": "tasmota", "models": ["PM-1"], "version": "14.1.0"}
KINDS: Final = "SELECT kind, subject FROM audit WHERE kind LIKE 'artifact_%fetched' ORDER BY number"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return signing_for(tmp_path / "repository", content=CONTENT, plug_1=PLUG)


@pytest.fixture
def agent(tmp_path: Path, repository: Repository) -> Iterator[AgentProcess]:
    with closing(taking_from(repository, tmp_path / "hub", refresh="1s")) as process:
        begins(process)
        yield process


def test_what_is_not_published_yet_is_told_and_comes_once_it_is(
    agent: AgentProcess, repository: Repository
) -> None:
    early = agent.run("artifacts", "fetch", ID)
    warned = agent.run("health")
    lays_out(repository.folder, FILE, CONTENT)
    fetched = agent.run("artifacts", "fetch", ID)
    well = agent.run("health")
    agent.kill()
    agent.start()
    again = agent.run("artifacts", "fetch", ID)
    verified, shown = agent.run("artifacts", "verify"), agent.run("artifacts", "show", ID)

    assert early.returncode == 1
    assert "there is no artifacts/plugs/plug-1" in early.stderr
    assert "copies the repository's targets folder" in early.stderr
    assert "not fetched: plug-1; missing" in warned.stdout
    assert (fetched.returncode, again.returncode, verified.returncode) == (0, 0, 0)
    assert "bytes     100000, here" in shown.stdout
    assert f"plug-1 is here, whole: 100000 bytes, sha256 {FILE.sha256}" in fetched.stdout
    assert "not fetched" not in well.stdout
    assert query(agent.database, KINDS) == [("artifact_not_fetched", ID), ("artifact_fetched", ID)]


def test_what_was_taken_back_is_refused_though_it_lies_here(
    agent: AgentProcess, repository: Repository
) -> None:
    lays_out(repository.folder, FILE, CONTENT)
    assert agent.run("artifacts", "fetch", ID).returncode == 0

    repository.lists("plugs")
    repository.signs_timestamp()
    wait_until(lambda: "revoked" in agent.run("artifacts", "list").stdout, "the revocation")
    refused = agent.run("artifacts", "fetch", ID)
    unknown = agent.run("artifacts", "fetch", "plug-9")

    assert refused.returncode == 1
    assert "plug-1 was taken back" in refused.stderr
    assert unknown.returncode == 1
    assert "nobody signs for plug-9" in unknown.stderr
