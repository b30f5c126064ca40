"""A hub from its claim code to its end: set up, in touch by a certificate, renewed through deaths, shut out.

Authority, queue over TLS, set-up and agent are the real ones; nothing has a token but the issuer.
"""

import asyncio
import getpass
import json
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from edgeagent.cli.asking import Agent
from edgeagent.contracts.claim import claim_text
from edgeagent.contracts.reports.health import Check, HealthReport
from edgeagent.core.certificates import serial_text, signer_id
from edgeagent.ids import hub_id
from edgeagent.issuer.settings import Limits
from edgeagent.ports.crash import CrashPoint
from edgeagent.store.identity import IdentitySlots
from tests.issuer.publishing import issuing
from tests.support.agents import AgentProcess
from tests.support.brokers import free_port, wait_until
from tests.support.enrolled import PASSPHRASE, Office, enrolling

pytestmark = [pytest.mark.slow, pytest.mark.requirement("H5", "W2")]

DEATHS: Final = (CrashPoint.CERTIFICATE_GIVEN, CrashPoint.CERTIFICATE_STORED, CrashPoint.CERTIFICATE_TRIED)
# With the hour that it is backdated, two thirds of its life are over when it is given.
SHORT: Final = Limits(certificate_lifetime=timedelta(minutes=20))


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    issuing(tmp_path)
    with enrolling(tmp_path, limits=SHORT, repository=tmp_path / "venue" / "repository") as open_office:
        yield open_office


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    with closing(AgentProcess(tmp_path / "hub", "")) as process:
        yield process


def set_up(agent: AgentProcess, office: Office) -> None:
    """Make it a hub, as root does; the broker is nobody's, and the page's port any."""
    where = ("--state-dir", str(agent.state_dir), "--run-dir", str(agent.socket.parent))
    code = claim_text(asyncio.run(office.claims()))
    said = agent.run(
        "setup",
        "--claim",
        code,
        "--yes",
        "--replace-config",
        "--no-start",
        "--user",
        getpass.getuser(),
        *where,
    )
    assert said.returncode in {0, 1}, said.stderr  # 1: there is no broker
    more = f'[broker]\nport = {free_port()}\n[web]\nlisten = "127.0.0.1:0"\n'
    more += '[uplink]\nlongest_backoff = "1s"\n'
    agent.config.write_text(agent.config.read_text() + more)


def has_said_hello(office: Office) -> bool:
    """Whether the queue has heard the hub."""

    async def asked() -> bool:
        async with office.issuer() as issuer:
            return (await issuer.hub(hub_id("venue-7"))).epoch is not None

    return asyncio.run(asked())


def check(agent: AgentProcess, name: str) -> Check:
    """One check of health."""
    report = Agent(agent.socket).get("/v1/health", HealthReport)
    return next(each for each in report.checks if each.name == name)


@pytest.mark.requirement("R5")
def test_from_the_code_to_the_end(agent: AgentProcess, office: Office) -> None:
    set_up(agent, office)
    slots = IdentitySlots(agent.state_dir / "identity")
    first = slots.load()
    kept = first.file.read_bytes()

    for death in DEATHS:
        agent.launch(crash=(death, 1))
        assert agent.wait_for_end() == -9
        assert slots.load() == first
    agent.start()
    wait_until(lambda: slots.load() != first, "the renewed certificate")
    wait_until(lambda: has_said_hello(office), "the hub's hello")
    wait_until(lambda: agent.status().policy.version == 1, "the policy, over the authority's TLS")

    second = slots.load()
    assert first.file.read_bytes() == kept, "the old slot is kept"
    assert check(agent, "identity").level == "ok"
    trail = agent.run("audit", "list", "--kind", "certificate_renewed").stdout
    assert serial_text(second.certificate)[:8] in trail
    assert " lets this hub in" in agent.run("setup", "check", "--no-start").stdout

    asyncio.run(shut_out(office))
    # The lease that waits is sent away, and whoever was sent away has the certificate looked at.
    wait_until(lambda: check(agent, "identity").level == "critical", "health to tell it")
    told = check(agent, "identity")
    assert "is revoked" in told.summary
    assert "edgeagent setup --claim" in told.advice

    set_up(agent, office)
    wait_until(lambda: check(agent, "identity").level == "ok", "the hub to be let in again, as it runs")
    assert agent.stop() == 0


@pytest.mark.requirement("W2", "R8")
def test_another_issuing_key_of_the_authority_reaches_a_hub_that_runs_without_a_visit(
    agent: AgentProcess, tmp_path: Path
) -> None:
    issuing(tmp_path)
    with enrolling(tmp_path, repository=tmp_path / "venue" / "repository") as office:
        set_up(agent, office)
        slots = IdentitySlots(agent.state_dir / "identity")
        first = slots.load()
        agent.start()
        wait_until(lambda: "ends at" in check(agent, "identity").summary, "the certificate to be looked at")
        (tmp_path / "secret").touch(mode=0o600)
        (tmp_path / "secret").write_bytes(PASSPHRASE)
        words = ("issuer", "ca", "rotate", "--folder", str(office.folder.path))
        said = agent.run("--json", *words, "--passphrase-file", str(tmp_path / "secret"))
        assert said.returncode == 0, said.stderr
        key = json.loads(said.stdout)["key"]

        # Within an hour, or at the next start.
        agent.kill()
        agent.start()
        wait_until(lambda: slots.load() != first, "the certificate by the other key")
        wait_until(lambda: check(agent, "identity").level == "ok", "the queue to let it in")

        assert signer_id(slots.load().certificate) == bytes.fromhex(key)
        assert first.file.exists(), "the old slot is kept"
        trail = agent.run("audit", "list", "--kind", "certificate_renewed").stdout
        assert serial_text(slots.load().certificate)[:8] in trail
        assert " lets this hub in" in agent.run("setup", "check", "--no-start").stdout
        assert agent.stop() == 0


async def shut_out(office: Office) -> None:
    async with office.issuer() as issuer:
        assert await issuer.revoke(hub_id("venue-7")) == 2
