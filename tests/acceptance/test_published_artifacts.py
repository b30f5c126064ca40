"""Artifacts from the issuer's command line to a real agent: signed, released, revoked, and kept."""

import json
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.door import decode
from edgeagent.contracts.reports.artifacts import ArtifactShown, ArtifactsShown, ArtifactsVerified, Cached
from tests.cli.test_issuer_repository import Desk
from tests.support.agents import AgentProcess
from tests.support.brokers import free_port, wait_until
from tests.support.stores import query

pytestmark = [pytest.mark.slow, pytest.mark.requirement("F1", "V3")]

PLUG: Final = "plug-14.1.0"
FIRMWARE: Final = b"firmware of a plug"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """An issuer with a group of models."""
    desk = Desk(tmp_path)
    assert desk.types("init", desk.venue, "--policy", desk.policy).status == 0
    assert desk.changes("artifact", "role", "add", "plugs", "--for", "tasmota:PM-1").status == 0
    (tmp_path / "plug.bin").write_bytes(FIRMWARE)
    return desk


@pytest.fixture
def agent(tmp_path: Path, desk: Desk) -> Iterator[AgentProcess]:
    """An agent that looks every second for what the issuer publishes; it does not run."""
    with closing(AgentProcess(tmp_path / "hub", f"[broker]\nport = {free_port()}\n")) as process:
        root = process.folder / "root.json"
        root.write_bytes((desk.venue / "repository/metadata/1.root.json").read_bytes())
        lines = process.config.read_text("utf-8").splitlines()
        kept = [line for line in lines if not line.startswith(("[policy]", "file = ", "signer = "))]
        kept += [
            "[policy]",
            f'source = "{desk.venue / "repository"}"',
            'root = "root.json"',
            'refresh = "1s"',
        ]
        process.config.write_text("\n".join([*kept, ""]), "utf-8")
        process.has_fetching_unit()
        yield process


def add(desk: Desk, name: str = PLUG, *words: str) -> None:
    """Sign for the plug's firmware."""
    said = desk.changes(
        *("artifact", "add", desk.home / "plug.bin", "--id", name, "--group", "plugs"),
        *("--family", "tasmota", "--model", "PM-1", "--version", "14.1.0(tasmota)", *words),
    )
    assert (said.status, said.err) == (0, "")


def listed(agent: AgentProcess) -> dict[str, str]:
    """What the agent says of each artifact."""
    said = agent.run("artifacts", "list", "--json")
    known = decode(ArtifactsShown, said.stdout.encode(), limit=1_000_000)
    return {one.artifact: one.standing for one in known.artifacts}


def wait_for(agent: AgentProcess, standing: str) -> None:
    """Wait until the agent says this of the plug's firmware, and of nothing else."""
    wait_until(lambda: listed(agent) == {PLUG: standing}, f"{PLUG} to be {standing}")


def test_an_artifact_from_its_signature_to_its_revocation(desk: Desk, agent: AgentProcess) -> None:
    agent.start()
    add(desk, PLUG, "--floor", "14.0.0", "--security", "--about", "mends the web page")
    wait_for(agent, "signed")
    assert desk.changes("artifact", "release", PLUG).status == 0
    wait_for(agent, "released")
    shown = agent.run("artifacts", "show", PLUG)
    artifact = decode(
        ArtifactShown, agent.run("artifacts", "show", PLUG, "--json").stdout.encode(), limit=100_000
    )

    # This hub has no [firmware]: what may be installed elsewhere is refused here.
    agent.admit_by_hand("02A1B2000001", "tasmota", topic="plug", model="PM-1")
    planned = agent.run("firmware", "plan", "--artifact", PLUG, "--device", "02A1B2000001").stdout

    # Killed, and the repository is away: what is known is known.
    agent.kill()
    (desk.venue / "repository").rename(desk.home / "away")
    agent.start()
    kept = listed(agent)
    (desk.home / "away").rename(desk.venue / "repository")

    assert desk.changes("artifact", "revoke", PLUG).status == 0
    wait_for(agent, "revoked")
    agent.stop()

    assert "serves_no_files" in planned
    assert kept == {PLUG: "released"}
    assert artifact.sha256 == sha256(FIRMWARE).hexdigest()
    assert "14.1.0(tasmota), a security update" in shown.stdout
    assert "mends the web page" in shown.stdout
    assert "not here" in shown.stdout
    rows = query(agent.database, "SELECT detail FROM audit WHERE kind = 'artifacts_listed' ORDER BY number")
    told = [json.loads(str(detail)) for (detail,) in rows]
    assert [(one["listed"], one["revoked"]) for one in told] == [(1, 0), (0, 1)]


@pytest.mark.requirement("R1")
def test_to_verify_reads_signatures_and_files_anew(desk: Desk, agent: AgentProcess) -> None:
    add(desk)
    agent.start()
    wait_for(agent, "signed")

    def verified() -> tuple[int, ArtifactsVerified]:
        said = agent.run("artifacts", "verify", "--json")
        return said.returncode, decode(ArtifactsVerified, said.stdout.encode(), limit=100_000)

    nothing_here = verified()
    file = agent.state_dir / "artifacts" / sha256(FIRMWARE).hexdigest()
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(FIRMWARE)
    whole = verified()
    file.write_bytes(FIRMWARE[::-1])
    damaged = verified()
    in_words = agent.run("artifacts", "verify")
    file.unlink()
    file.symlink_to(desk.home / "plug.bin")
    linked = agent.run("artifacts", "verify")
    agent.stop()

    assert (nothing_here[0], nothing_here[1].artifacts[0].cached) == (0, Cached.ABSENT)
    assert (whole[0], whole[1].artifacts[0].cached, whole[1].roles) == (0, Cached.WHOLE, 1)
    assert (damaged[0], damaged[1].artifacts[0].cached) == (1, Cached.DAMAGED)
    assert f"the file of {PLUG} is damaged" in in_words.stderr
    assert linked.returncode == 1


@pytest.mark.threat("T6")
def test_a_repository_that_is_put_back_brings_no_revoked_artifact_back(
    desk: Desk, agent: AgentProcess
) -> None:
    add(desk)
    before = desk.everything()
    agent.start()
    wait_for(agent, "signed")
    assert desk.changes("artifact", "revoke", PLUG).status == 0
    wait_for(agent, "revoked")

    for path, content in before.items():
        path.write_bytes(content)
    wait_until(lambda: "timestamp" in agent.status().policy.problem, "the refusal")
    agent.kill()
    agent.start()
    kept = listed(agent)
    agent.stop()

    assert kept == {PLUG: "revoked"}
