"""Three issuers that know nothing of each other command one hub at the same time."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import IO, Final

import pytest

from edgeagent.clock import ProvenClock, SystemTime
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.policy import ActionRule, Policy, Role, RoleKind, Tier, TierRule
from edgeagent.contracts.receipt import Outcome
from edgeagent.ids import HubId
from edgeagent.issuer.keys import PrivateKey, save_key
from edgeagent.issuer.policies import sign_policy
from tests.support.agents import ROOT, AgentProcess
from tests.support.agents_cloud import Cloud
from tests.support.brokers import Mosquitto, wait_until
from tests.support.lamps import names
from tests.support.private import write_private
from tests.support.queue_server import QueueServer
from tests.support.stores import query

HUB: Final = HubId("venue-7")
LAMPS: Final = 334
COMMANDS: Final = 1000
ISSUERS: Final = ("desk", "night", "office")
_LINES: Final = ("max_queued_messages 0", "max_inflight_messages 500", "set_tcp_nodelay true")


def policy(clock: PrivateKey, issuers: dict[str, PrivateKey], root: PrivateKey) -> bytes:
    """All three may switch every lamp, sixteen at once."""
    now = ProvenClock(SystemTime()).wall().best
    rules = Policy(
        version=1,
        issued_at=now,
        expires_at=now + timedelta(days=1),
        keys={"clock": clock.public.hex()} | {name: key.public.hex() for name, key in issuers.items()},
        roles={
            "operators": Role(kind=RoleKind.COMMAND, keys=frozenset(issuers), actions="*", devices="*"),
            "clock": Role(kind=RoleKind.TIME, keys=frozenset({"clock"})),
        },
        actions={ActionName.TOGGLE: ActionRule(tier=Tier.LOW)},
        tiers={Tier.LOW: TierRule(concurrency=16)},
    )
    return sign_policy(rules, [root])


@contextmanager
def running(*words: str, out: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A module of these tests as a process; its words go to a file."""
    file: IO[bytes]
    with (
        out.open("wb") as file,
        subprocess.Popen([sys.executable, "-m", *words], cwd=ROOT, stdout=file) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def issuers(tmp_path: Path) -> dict[str, PrivateKey]:
    """The keys of the three, in files of their own."""
    keys = {name: PrivateKey.new() for name in ISSUERS}
    for name, key in keys.items():
        save_key(key, tmp_path / f"{name}.pem")
    return keys


@pytest.fixture
def venue(tmp_path: Path, issuers: dict[str, PrivateKey]) -> Iterator[tuple[QueueServer, AgentProcess]]:
    """Broker, lamps, queue, and the agent between them with every lamp admitted."""
    root, clock = PrivateKey.new(), PrivateKey.new()
    signed = policy(clock, issuers, root)
    (tmp_path / "policy.json").write_bytes(signed)
    server = QueueServer(tmp_path / "queue", policy=signed)
    server.time_key = clock
    with ExitStack() as stack:
        broker = stack.enter_context(Mosquitto(tmp_path / "broker", options=_LINES))
        stack.enter_context(server)
        words = ("tests.support.lamps", str(broker.port), str(LAMPS))
        stack.enter_context(running(*words, out=tmp_path / "effects"))
        wait_until(lambda: effects(tmp_path)[:1] == ["ready"], "the lamps")
        agent = AgentProcess(tmp_path / "hub", sections(tmp_path, broker.port, server, root), hub=HUB)
        stack.callback(agent.close)
        agent.start()
        agent.wait_for_broker()
        for lamp in names(LAMPS):
            agent.admit_by_hand(lamp, "tasmota", topic=lamp)
        wait_until(
            lambda: all(each.online and each.readings for each in agent.devices().devices), "the lamps"
        )
        wait_until(lambda: agent.status().clock.source == "statement", "the time to be proven")
        yield server, agent


def sections(folder: Path, broker: int, server: QueueServer, root: PrivateKey) -> str:
    """What the agent's configuration says of the others."""
    (folder / "hub").mkdir()
    token = folder / "hub" / "queue.token"
    write_private(token, server.new_hub(HUB).token)
    return (
        f"[broker]\nport = {broker}\n"
        f'[cloud]\nurl = "{server.url}"\ntoken_file = "{token}"\n'
        f'[policy]\nfile = "{folder / "policy.json"}"\nsigner = "{root.public.hex()}"\n'
    )


def effects(folder: Path) -> list[str]:
    """What the lamps have written: ``ready``, then the name of a lamp for each time it was switched."""
    return (folder / "effects").read_text().split()


@pytest.mark.slow
@pytest.mark.requirement("T4", "Q2", "I3")
@pytest.mark.usefixtures("issuers")
def test_a_thousand_independent_commands_of_three_processes_are_each_done_once(
    tmp_path: Path, venue: tuple[QueueServer, AgentProcess]
) -> None:
    server, agent = venue
    cloud = Cloud(server, HUB)
    wait_until(lambda: cloud.has_heard, "the hub's hello")
    (tmp_path / "issuer.token").write_text(server.issuer_token)
    shares = {"desk": names(LAMPS), "night": names(LAMPS), "office": names(COMMANDS - 2 * LAMPS)}

    with ExitStack() as stack:
        for name, lamps in shares.items():
            words = (server.url, str(tmp_path / "issuer.token"), str(tmp_path / f"{name}.pem"), HUB)
            out = tmp_path / f"{name}.sent"
            stack.enter_context(running("tests.support.issuing", *words, ",".join(lamps), out=out))
        wait_until(lambda: len(sent(tmp_path)) == COMMANDS, "all to be sent", within=240)
        wait_until(lambda: len(cloud.receipts()) >= COMMANDS, "all receipts", within=240)

    receipts = cloud.receipts()
    assert {event.data["outcome"] for event in receipts} == {Outcome.SUCCEEDED}
    assert {event.data["attempts"] for event in receipts} == {1}
    assert Counter(str(event.data["command"]) for event in receipts) == Counter(sent(tmp_path))
    wanted = Counter(lamp for lamps in shares.values() for lamp in lamps)
    assert Counter(effects(tmp_path)[1:]) == wanted
    assert agent.stop() == 0
    assert query(agent.database, "SELECT count(*), count(DISTINCT command) FROM inbox") == [(1000, 1000)]


def sent(folder: Path) -> list[str]:
    """The ids of all that the queue has taken."""
    return [line for name in ISSUERS for line in (folder / f"{name}.sent").read_text().split()]
