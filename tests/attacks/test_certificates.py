"""Somebody stands before the queue with a certificate that is not in order (threat T41).

The real agent, enrolled, and the real queue, whose certificate is replaced on the disk again and again.
Nothing is sent to whoever shows a wrong one, health says what is wrong, and a right one counts without a
restart of the agent.
"""

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from shutil import copyfile
from typing import Final

import pytest

from edgeagent.cli.asking import Agent
from edgeagent.contracts.reports.health import HealthReport
from edgeagent.issuer.authority import AuthorityFolder
from edgeagent.store.identity import IdentitySlots
from tests.support.agents import AgentProcess
from tests.support.brokers import free_port, wait_until
from tests.support.enrolled import PASSPHRASE, Office, enrolling
from tests.support.stores import query

pytestmark = [pytest.mark.slow, pytest.mark.threat("T41"), pytest.mark.requirement("H5", "R8", "U4")]

DAY: Final = timedelta(days=1)
NOW: Final = datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Disorder:
    """A certificate that is not in order.

    Attributes:
        shown: puts it in the queue's place.
        trouble: what kind health says it is.
        words: what it says of it.
        advice: what it says to do.
    """

    shown: Callable[[Office], object]
    trouble: str
    words: str
    advice: str


def renew(office: Office, *, names: tuple[str, ...] = ("localhost",), now: datetime, ends: timedelta) -> None:
    office.folder.certify_server(list(names), now, ends)


def from_a_stranger(office: Office) -> None:
    """One of an authority that the stranger has made, for the queue's name."""
    stranger = AuthorityFolder(office.folder.path.parent / "stranger")
    if not stranger.root.exists():
        stranger.found("test", NOW, passphrase=PASSPHRASE)
    stranger.certify_server(["localhost"], NOW, DAY)
    for theirs, place in zip(stranger.server, office.folder.server, strict=True):
        copyfile(theirs, place)


def by_itself(office: Office) -> None:
    """One that nobody but itself signs for."""
    chain, key = office.folder.server
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    words += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*words, "-keyout", key, "-out", chain], check=True, capture_output=True)


DISORDERS: Final = [
    Disorder(
        lambda office: renew(office, now=NOW, ends=timedelta(minutes=-10)),
        *("tls_expired", "expired", "renew its certificate"),
    ),
    Disorder(
        lambda office: renew(office, now=NOW + 2 * DAY, ends=DAY), "clock", "not yet valid", "timedatectl"
    ),
    Disorder(
        lambda office: renew(office, names=("elsewhere.example",), now=NOW, ends=DAY),
        *("tls", "ostname mismatch", "ca_file"),
    ),
    Disorder(by_itself, "tls", "self", "ca_file"),
    Disorder(from_a_stranger, "tls", "unable to get", "ca_file"),
]


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    with enrolling(tmp_path) as open_office:
        yield open_office


@pytest.fixture
def agent(tmp_path: Path, office: Office) -> Iterator[AgentProcess]:
    sections = (
        f'[broker]\nport = {free_port()}\n[cloud]\nurl = "{office.server.url}"\n'
        '[uplink]\nlongest_backoff = "1s"\n'
    )
    with closing(AgentProcess(tmp_path / "hub", sections)) as process:
        process.state_dir.mkdir(mode=0o700)
        claim = asyncio.run(office.claims())
        asyncio.run(office.enrols(claim, process.state_dir / "identity"))
        yield process


def cloud(agent: AgentProcess) -> tuple[str, str]:
    """What health says of the queue, and what to do."""
    report = Agent(agent.socket).get("/v1/health", HealthReport)
    check = next(each for each in report.checks if each.name == "cloud")
    return check.summary, check.advice


def test_a_certificate_that_is_not_in_order_is_told_and_a_right_one_counts_at_once(
    agent: AgentProcess, office: Office
) -> None:
    slots = IdentitySlots(agent.state_dir / "identity")
    identity = slots.load().file.read_bytes()
    office.server.kill()
    right = [file.read_bytes() for file in office.folder.server]
    agent.start()
    for disorder in DISORDERS:
        disorder.shown(office)
        office.server.start()
        wait_until(partial(why, agent, disorder.words), disorder.words)

        summary, advice = cloud(agent)

        assert f"({disorder.trouble})" in summary
        assert disorder.advice in advice
        assert heard(office) == 0, "nothing has gone to whoever shows it"
        office.server.kill()
        for file, content in zip(office.folder.server, right, strict=True):
            file.write_bytes(content)
    assert slots.load().file.read_bytes() == identity, "what the hub has is as it was"

    office.server.start()

    wait_until(lambda: agent.status().cloud.last_success is not None, "the hub's hello to go up")
    wait_until(lambda: cloud(agent)[0] == "events go up", "health to tell it")


def why(agent: AgentProcess, words: str) -> bool:
    """Whether the agent names these as what is wrong with the cloud."""
    return words in agent.status().cloud.why


def heard(office: Office) -> int:
    """How many events the queue has."""
    return len(query(office.server.database, "SELECT 1 FROM events"))
