"""Fetching as a unit's work: what falls to a stranger there has nothing of the hub (SPEC W1, threat T55).

The agent is real; a socket starts the process for each errand as a user who owns nothing.
"""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from edgeagent.ids import artifact_id
from tests.support.activating import NOBODY, activated
from tests.support.agents import AgentProcess
from tests.support.agents_publishing import begins, signing_for, taking_from
from tests.support.bad_servers import hangs_after, serves
from tests.support.brokers import wait_until
from tests.support.fetching import signed_file, some_bytes
from tests.support.portals import Portal
from tests.support.processes import fetching
from tests.support.tuf_repository import Repository
from tests.support.waiting import eventually
from tests.support.web_folder import WebFolder, web_folder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requirement("W1", "F2"),
    pytest.mark.threat("T55"),
    pytest.mark.skipif(os.geteuid() != 0, reason="it takes another user"),
]

CONTENT: Final = some_bytes(200_000)
FILE: Final = signed_file(CONTENT, artifact=artifact_id("plug-1"), group="plugs")
PLUG: Final[dict[str, object]] = {"family": "tasmota", "models": ["PM-1"], "version": "14.1.0"}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return signing_for(tmp_path / "repository", content=CONTENT, plug_1=PLUG)


@pytest.fixture
def web(repository: Repository) -> Iterator[WebFolder]:
    with web_folder(repository.folder) as served:
        yield served


async def test_the_process_is_another_users_and_holds_one_file_of_the_hub(
    repository: Repository, web: WebFolder, tmp_path: Path
) -> None:
    """The policy comes by it, then a file; while that hangs, the kernel is asked what the process has."""
    socket = tmp_path / "fetch.sock"
    with activated(socket) as listener, closing(taking_from(repository, tmp_path / "hub")) as agent:
        async with Portal(hangs_after(CONTENT, 120_000)) as portal:
            configure(agent, repository, web, socket, portal)
            await asyncio.to_thread(begins, agent)
            asked = await asyncio.create_subprocess_exec(*words(agent, "artifacts", "fetch", "plug-1"))
            part = agent.state_dir / "artifacts" / "part" / FILE.sha256
            await eventually(lambda: part.exists() and part.stat().st_size == 120_000)
            children = fetching(agent.pid)
            # The one that has brought the policy may take a moment to be gone.
            await eventually(lambda: len(fetching(listener)) == 1)
            [process] = fetching(listener)
            status, held = await asyncio.to_thread(told_of, process)
            portal.says(serves(CONTENT))
            os.kill(process, 9)
            done = await asyncio.wait_for(asked.wait(), 60)
        well = await asyncio.to_thread(agent.run, "health")

    assert children == []
    assert f"Uid:\t{NOBODY}\t{NOBODY}\t{NOBODY}" in status
    assert "NoNewPrivs:\t1" in status
    assert [name for name in held if name.startswith("/") and name != os.devnull] == [str(part)]
    assert part.parent.stat().st_mode & 0o077 == 0
    assert done == 0
    assert portal.asked[-1].headers["range"] == "bytes=120000-"
    assert (agent.state_dir / "artifacts" / FILE.sha256).read_bytes() == CONTENT
    assert "a unit of its own fetches" in well.stdout


def test_where_its_unit_has_stopped_health_says_which_to_start_and_all_else_goes_on(
    repository: Repository, web: WebFolder, tmp_path: Path
) -> None:
    socket = tmp_path / "fetch.sock"
    with closing(taking_from(repository, tmp_path / "hub", refresh="1s")) as agent:
        configure(agent, repository, web, socket)
        agent.start()
        wait_until(lambda: "no fetcher listens at" in agent.run("health").stdout, "the trouble")
        health = agent.run("health")
        with activated(socket):
            # By and by, without anything being done at the hub.
            wait_until(lambda: agent.status().policy.version == 1, "the policy")
            well = agent.run("health")

    assert "nothing can be fetched: there is no socket" in health.stdout
    assert "systemctl start edgeagent-fetch.socket" in health.stdout
    assert "nothing can be fetched" not in well.stdout
    assert "no fetcher listens" not in well.stdout


def configure(
    agent: AgentProcess, repository: Repository, web: WebFolder, socket: Path, files: Portal | None = None
) -> None:
    """Have the agent take policy and files from web servers, and another fetch them."""
    text = agent.config.read_text().replace(f'"{repository.folder}"', f'"{web.address}"')
    place = "" if files is None else f'[artifacts]\nsource = "{files.url}"\n'
    agent.config.write_text(f'{text}[fetch]\nby = "outside"\nsocket = "{socket}"\n{place}')


def told_of(process: int) -> tuple[str, list[str]]:
    """What the kernel says of a process, and what that has open."""
    folder = Path(f"/proc/{process}")
    return (folder / "status").read_text(), [str(each.readlink()) for each in (folder / "fd").iterdir()]


def words(agent: AgentProcess, *typed: str) -> list[str]:
    """A command line."""
    return [sys.executable, "-m", "edgeagent", "--config", str(agent.config), *typed]
