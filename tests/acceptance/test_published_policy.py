"""A published policy at a real agent: over the web and from a folder, revoked, restarted, rolled back."""

import json
import shutil
from base64 import b64decode
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.door import decode, encode
from edgeagent.contracts.policy import POLICY_BYTES, Policy
from edgeagent.contracts.receipt import Outcome
from edgeagent.issuer.wire import CommandState
from tests.support.agents import AgentProcess
from tests.support.agents_keys import Keys
from tests.support.agents_policy import published, wait_for_version
from tests.support.agents_venue import HUB, PLUG, Venue
from tests.support.brokers import free_port, wait_until
from tests.support.keys import MemoryKey
from tests.support.stores import query
from tests.support.tuf_repository import DAY, Repository
from tests.support.web_folder import web_folder

pytestmark = [pytest.mark.slow, pytest.mark.requirement("T2", "C5")]

ON: Final = {"on": True}
OFF: Final = {"on": False}


def policy_of(keys: Keys, version: int, *, desk: MemoryKey | None = None) -> bytes:
    """The venue's policy, in which the desk's key may be another."""
    payload = b64decode(json.loads(keys.policy(HUB))["payload"])
    policy = decode(Policy, payload, limit=POLICY_BYTES)
    changes: dict[str, object] = {"version": version}
    if desk is not None:
        changes["keys"] = policy.keys | {"desk": desk.public.hex()}
    return encode(policy.model_copy(update=changes))


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository", now=datetime.now(UTC))


@pytest.mark.threat("T15")
def test_a_revoked_key_moves_nothing_and_without_its_source_the_hub_goes_on(
    tmp_path: Path, repository: Repository
) -> None:
    with Venue(tmp_path) as venue:
        repository.publishes(policy_of(venue.keys, 1))
        with web_folder(repository.folder) as web:
            published(venue.agent, repository, web.address)
            venue.open()
            wait_for_version(venue.agent, 1)
            first = venue.end_of(venue.order(PLUG, ActionName.POWER, ON))

            repository.rotates("root", "timestamp")
            repository.publishes(policy_of(venue.keys, 2, desk=MemoryKey()))
            wait_for_version(venue.agent, 2)
            revoked = venue.order(PLUG, ActionName.POWER, OFF)
            wait_until(
                lambda: venue.cloud.command(revoked.command.id).state is CommandState.TAKEN,
                "the revoked key's command to be looked at",
            )
            effects = venue.effects(PLUG, ActionName.POWER)

            repository.publishes(policy_of(venue.keys, 3))
            wait_for_version(venue.agent, 3)

        # The source is gone, and so is the process.
        venue.agent.kill()
        venue.agent.start()
        venue.agent.wait_for_broker()
        last = venue.end_of(venue.order(PLUG, ActionName.POWER, OFF))

        assert (first.outcome, last.outcome) == (Outcome.SUCCEEDED, Outcome.SUCCEEDED)
        assert effects == 1
        assert venue.effects(PLUG, ActionName.POWER) == 2
        assert venue.audit_break() is None


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    """An agent without a broker or a cloud; it does not run."""
    with closing(AgentProcess(tmp_path / "hub", f"[broker]\nport = {free_port()}\n")) as process:
        yield process


def stored(agent: AgentProcess) -> list[tuple[object, ...]]:
    """What the database holds of the policy."""
    return query(agent.database, "SELECT version, target, root, timestamp, snapshot, targets FROM policy")


@pytest.mark.threat("T6")
def test_a_folder_that_is_put_back_to_an_earlier_state_changes_nothing(
    tmp_path: Path, repository: Repository, agent: AgentProcess
) -> None:
    keys = Keys()
    repository.publishes(policy_of(keys, 1))
    earlier = shutil.copytree(repository.folder, tmp_path / "earlier")
    repository.publishes(policy_of(keys, 2))
    published(agent, repository, str(repository.folder))
    agent.start()
    wait_for_version(agent, 2)
    before = stored(agent)

    shutil.rmtree(repository.folder)
    earlier.rename(repository.folder)
    wait_until(lambda: "timestamp" in agent.status().policy.problem, "the refusal")
    agent.kill()
    shutil.rmtree(agent.state_dir / "policy-fetch", ignore_errors=True)
    agent.start()
    wait_until(lambda: "timestamp" in agent.status().policy.problem, "the refusal again")
    status, health = agent.status(), agent.run("health")
    agent.stop()

    assert status.policy.version == 2
    assert stored(agent) == before
    assert "what came later was refused" in health.stdout
    kinds = query(agent.database, "SELECT kind FROM audit WHERE kind LIKE 'policy%' ORDER BY number")
    assert kinds == [("policy_accepted",), ("policy_refused",), ("policy_refused",)]


@pytest.mark.threat("T12")
def test_after_months_in_a_drawer_it_follows_every_root(repository: Repository, agent: AgentProcess) -> None:
    keys = Keys()
    repository.publishes(policy_of(keys, 1))
    published(agent, repository, str(repository.folder))
    agent.start()
    wait_for_version(agent, 1)
    agent.stop()
    for _ in range(5):
        repository.rotates("root", "timestamp", "snapshot", "targets")
    repository.publishes(policy_of(keys, 2))

    agent.start()
    wait_for_version(agent, 2)
    until = agent.status().policy.expires_at
    agent.stop()

    assert query(agent.database, "SELECT root_version FROM policy") == [(6,)]
    assert until == repository.end("timestamp")
    assert repository.lasts["timestamp"] == 7 * DAY


def test_an_agent_whose_root_file_is_lost_starts_and_says_so(
    repository: Repository, agent: AgentProcess
) -> None:
    keys = Keys()
    repository.publishes(policy_of(keys, 1))
    published(agent, repository, str(repository.folder))
    (agent.folder / "root.json").rename(agent.folder / "kept.json")

    agent.start()
    checked = agent.run("config", "check")
    wait_until(lambda: "first root" in agent.run("health").stdout, "the reason")
    agent.stop()

    assert checked.returncode == 78
    assert "root.json, the first root of the policy" in checked.stderr
