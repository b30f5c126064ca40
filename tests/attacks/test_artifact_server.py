"""Whoever stands where files for devices come from, or on the way: nothing wrong is ever kept or used.

The agent is real, and knows by its catalogue which bytes are signed. What it is served is not.
"""

import asyncio
import gzip
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

import pytest

from edgeagent.cli.asking import Agent
from edgeagent.contracts.fetching import FetchTrouble
from edgeagent.contracts.reports.fetches import CollectRequest, FetchReport, FetchState
from edgeagent.ids import artifact_id
from tests.support.agents import ROOT, AgentProcess
from tests.support.agents_publishing import begins, signing_for, taking_from
from tests.support.bad_servers import BINARY, hangs_after, serves
from tests.support.brokers import wait_until
from tests.support.fetching import signed_file, some_bytes
from tests.support.portals import (
    Authority,
    Portal,
    Script,
    answers,
    captive_portal,
    never_ends,
    redirects,
    server_context,
)
from tests.support.processes import fetching
from tests.support.stores import query
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.requirement("F2")]

ID: Final = artifact_id("plug-1")
CONTENT: Final = some_bytes(200_000)
FILE: Final = signed_file(CONTENT, artifact=ID, group="plugs")
EVIL: Final = some_bytes(200_000, seed=6)
PLUG: Final[dict[str, object]] = {"family": "tasmota", "models": ["PM-1"], "version": "14.1.0"}
PATH: Final = f"/v1/artifacts/{ID}/fetch"


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    """An agent whose catalogue lists one file; where it comes from is said by ``served_by``."""
    repository = signing_for(tmp_path / "repository", content=CONTENT, plug_1=PLUG)
    with closing(taking_from(repository, tmp_path / "hub")) as process:
        yield process


def served_by(agent: AgentProcess, place: str, *, ca_file: Path | None = None) -> None:
    """Start the agent with a source of its own for files, and wait until it knows which there are."""
    further = "" if ca_file is None else f'ca_file = "{ca_file}"\n'
    with agent.config.open("a") as config:
        config.write(f'[artifacts]\nsource = "{place}"\n{further}')
    begins(agent)


def asks(agent: AgentProcess) -> FetchReport:
    """Have the file fetched."""
    return Agent(agent.socket).post(PATH, CollectRequest(), FetchReport)


def first_trouble(agent: AgentProcess) -> FetchReport:
    """Have the file fetched, and stop after the first failure."""
    asks(agent)
    door = Agent(agent.socket)

    def is_told() -> bool:
        return door.get(PATH, FetchReport).trouble is not None

    wait_until(is_told, "the trouble")
    told = door.get(PATH, FetchReport)
    return told if told.is_over else told.model_copy(update={"bytes": door.delete(PATH, FetchReport).bytes})


async def the_fetching_child(agent: AgentProcess) -> int:
    """The process that fetches the file; the one that has brought the policy may take a moment to be gone."""
    await eventually(lambda: len(fetching(agent.pid)) == 1)
    [child] = fetching(agent.pid)
    return child


def kept(agent: AgentProcess) -> list[str]:
    """What lies whole in the agent's folder."""
    return [path.name for path in (agent.state_dir / "artifacts").iterdir() if path.is_file()]


BOMB: Final = answers(
    "200 OK", gzip.compress(bytes(20_000_000)), content_type=BINARY, headers={"Content-Encoding": "gzip"}
)
PIECES: Final = never_ends(CONTENT[:60_000])


@pytest.mark.parametrize(
    ("script", "trouble"),
    [
        pytest.param(serves(EVIL), FetchTrouble.WRONG_BYTES, id="T36", marks=pytest.mark.threat("T36")),
        pytest.param(PIECES, FetchTrouble.BROKEN_ANSWER, id="T37", marks=pytest.mark.threat("T37")),
        pytest.param(BOMB, FetchTrouble.BROKEN_ANSWER, id="T35", marks=pytest.mark.threat("T35")),
        pytest.param(
            redirects("http://169.254.169.254/"),
            FetchTrouble.CAPTIVE_PORTAL,
            id="T39",
            marks=pytest.mark.threat("T39"),
        ),
        pytest.param(
            captive_portal(), FetchTrouble.CAPTIVE_PORTAL, id="T40", marks=pytest.mark.threat("T40")
        ),
    ],
)
async def test_what_is_served_in_the_files_place_is_told_and_not_kept(
    agent: AgentProcess, script: Script, trouble: FetchTrouble
) -> None:
    async with Portal(script) as portal:
        await asyncio.to_thread(served_by, agent, portal.url)
        told = await asyncio.to_thread(first_trouble, agent)
        rows = query(agent.database, "SELECT kind FROM audit WHERE kind LIKE 'artifact_%fetched'")

    assert told.trouble is trouble
    assert told.advice
    assert told.bytes <= FILE.length
    assert kept(agent) == []
    assert rows == [("artifact_not_fetched",)]


@pytest.mark.threat("T41")
async def test_a_server_with_a_certificate_of_its_own_is_not_believed(
    agent: AgentProcess, tmp_path: Path
) -> None:
    ours, theirs = Authority(tmp_path / "a", "ours"), Authority(tmp_path / "b", "theirs")
    async with Portal(serves(CONTENT), tls=server_context(theirs.issues("repository"))) as portal:
        await asyncio.to_thread(served_by, agent, portal.url, ca_file=ours.file)
        told = await asyncio.to_thread(first_trouble, agent)

    assert told.trouble is FetchTrouble.TLS
    assert portal.asked == []
    assert kept(agent) == []


@pytest.mark.threat("T34", "T36")
async def test_a_file_that_is_swapped_on_the_disk_is_noticed_and_fetched_again(agent: AgentProcess) -> None:
    async with Portal(serves(CONTENT)) as portal:
        await asyncio.to_thread(served_by, agent, portal.url)
        first = await asyncio.to_thread(agent.run, "artifacts", "fetch", ID)
        slot = agent.state_dir / "artifacts" / FILE.sha256
        slot.unlink()
        slot.symlink_to("/etc/passwd")
        linked = await asyncio.to_thread(agent.run, "artifacts", "fetch", ID)
        slot.chmod(0o600)
        slot.write_bytes(EVIL)
        swapped = await asyncio.to_thread(agent.run, "artifacts", "fetch", ID)
        health = await asyncio.to_thread(agent.run, "health")

    assert [first.returncode, linked.returncode, swapped.returncode] == [0, 0, 0], linked.stderr
    assert slot.read_bytes() == CONTENT
    assert not slot.is_symlink()
    assert len(portal.asked) == 3
    assert "taken by fetched files" in health.stdout


@pytest.mark.threat("T37")
@pytest.mark.requirement("R1")
@pytest.mark.parametrize("who", ["agent", "fetch"])
async def test_after_a_kill_in_the_middle_the_fetch_goes_on_where_it_was(
    agent: AgentProcess, who: str
) -> None:
    part = agent.state_dir / "artifacts" / "part" / FILE.sha256
    async with Portal(hangs_after(CONTENT, 120_000)) as portal:
        await asyncio.to_thread(served_by, agent, portal.url)
        await asyncio.to_thread(asks, agent)
        await eventually(lambda: part.exists() and part.stat().st_size == 120_000)
        child = await the_fetching_child(agent)
        if who == "agent":
            agent.kill()
        # A child that its agent has left ends by itself.
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        portal.says(serves(CONTENT))
        before = kept(agent)
        if who == "agent":
            await asyncio.to_thread(begins, agent)
        fetched = await asyncio.to_thread(agent.run, "artifacts", "fetch", ID, "--json")

    assert before == []
    assert fetched.returncode == 0, fetched.stdout
    assert f'"state": "{FetchState.FETCHED}"' in fetched.stdout
    assert kept(agent) == [FILE.sha256]
    assert (agent.state_dir / "artifacts" / FILE.sha256).read_bytes() == CONTENT
    assert portal.asked[-1].headers["range"] == "bytes=120000-"


@pytest.mark.threat("T55")
@pytest.mark.requirement("W1")
@pytest.mark.skipif(os.geteuid() != 0, reason="it lets nobody but root look into it")
async def test_the_fetching_process_holds_its_part_and_its_connection_and_nothing_else(
    agent: AgentProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", "/run/credentials/hunter2")
    part = agent.state_dir / "artifacts" / "part" / FILE.sha256
    async with Portal(hangs_after(CONTENT, 120_000)) as portal:
        await asyncio.to_thread(served_by, agent, portal.url)
        await asyncio.to_thread(asks, agent)
        await eventually(lambda: part.exists() and part.stat().st_size == 120_000)
        child = await the_fetching_child(agent)
        held = await asyncio.to_thread(links_of, child)
        limits, status, variables, words = await asyncio.to_thread(
            said_of, child, "limits", "status", "environ", "cmdline"
        )

    assert [name for name in held if name.startswith("/") and name != os.devnull] == [str(part)]
    # The connection, the agent, and the pair by which its loop wakes itself.
    assert sum(name.startswith("socket:") for name in held) == 4
    [longest] = [line for line in limits.splitlines() if line.startswith("Max file size")]
    assert longest.split()[3:5] == [str(FILE.length)] * 2
    assert "NoNewPrivs:\t1" in status
    assert "hunter2" not in variables
    assert str(agent.database) not in words


def links_of(pid: int) -> list[str]:
    """What a process has open."""
    return [str(handle.readlink()) for handle in Path(f"/proc/{pid}/fd").iterdir()]


def said_of(pid: int, *files: str) -> list[str]:
    """What the kernel says of a process."""
    return [Path(f"/proc/{pid}/{file}").read_text() for file in files]


@pytest.mark.threat("T37")
async def test_interrupted_at_the_terminal_what_has_come_stays(agent: AgentProcess) -> None:
    part = agent.state_dir / "artifacts" / "part" / FILE.sha256
    async with Portal(hangs_after(CONTENT, 120_000)) as portal:
        await asyncio.to_thread(served_by, agent, portal.url)
        words = ("-m", "edgeagent", "--config", str(agent.config), "artifacts", "fetch", ID)
        typed = await asyncio.create_subprocess_exec(
            sys.executable, *words, cwd=ROOT, stdout=DEVNULL, stderr=PIPE
        )
        await eventually(lambda: part.exists() and part.stat().st_size == 120_000)
        typed.send_signal(signal.SIGINT)
        _, complaint = await asyncio.wait_for(typed.communicate(), 60)
        await eventually(lambda: not fetching(agent.pid))

    assert typed.returncode == 130
    assert b"stopped; 120000 of 200000 bytes are here" in complaint
    assert b"goes on from there" in complaint
    assert part.stat().st_size == 120_000


@pytest.mark.threat("T35")
async def test_gc_says_what_it_would_remove_and_removes_it(agent: AgentProcess) -> None:
    async with Portal(serves(CONTENT)) as portal:
        await asyncio.to_thread(served_by, agent, portal.url)
        await asyncio.to_thread(agent.run, "artifacts", "fetch", ID)
    slot = agent.state_dir / "artifacts" / FILE.sha256
    os.utime(slot, (1000, 1000))
    would = await asyncio.to_thread(agent.run, "artifacts", "gc", "--dry-run")
    there = slot.exists()
    done = await asyncio.to_thread(agent.run, "artifacts", "gc")

    assert (would.returncode, done.returncode) == (0, 0)
    assert "1 would be removed, 200000 bytes" in would.stdout
    assert there
    assert "1 removed, 200000 bytes; 0 bytes stay" in done.stdout
    assert kept(agent) == []
