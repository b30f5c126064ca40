"""Whoever owns the place where the policy is published, or one online key, takes nothing back, adds nothing.

Threats T6 (rollback), T7 (fast-forward), T8 (mix-and-match), T11 (freeze), T13 (one key under two ids), and
what a hostile server can answer. The agent looks every second at a folder in which the attacker does as they
like.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from edgeagent.clock import BUILT_AT
from edgeagent.contracts.door import encode
from tests.flows.publishing import policy
from tests.support.agents import AgentProcess
from tests.support.brokers import free_port, wait_until
from tests.support.stores import query
from tests.support.tuf_repository import DAY, Repository, new_signer

pytestmark = [pytest.mark.slow, pytest.mark.requirement("T2", "C5")]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Version 2 is published, and version 1 was before."""
    # After BUILT_AT, which is all that an agent without a proof of the time can be sure of.
    made = Repository(tmp_path / "repository", now=BUILT_AT + DAY)
    made.publishes(policy(1))
    shutil.copytree(made.folder, tmp_path / "earlier")
    made.publishes(policy(2))
    return made


@pytest.fixture
def agent(tmp_path: Path, repository: Repository) -> Iterator[AgentProcess]:
    """An agent that has taken version 2, and goes on looking."""
    sections = (
        f'[broker]\nport = {free_port()}\n[policy]\nsource = "{repository.folder}"\n'
        'root = "root.json"\nrefresh = "1s"\n'
    )
    with closing(AgentProcess(tmp_path / "hub", sections)) as process:
        (process.folder / "root.json").write_bytes(repository.first_root)
        process.has_fetching_unit()
        process.start()
        wait_until(lambda: process.status().policy.version == 2, "version 2")
        yield process


def rolls_everything_back(repository: Repository) -> None:
    shutil.copytree(repository.folder.parent / "earlier", repository.folder, dirs_exist_ok=True)


def mixes_old_targets_in(repository: Repository) -> None:
    old = repository.file("1.targets").read_bytes()
    repository.publishes(policy(3))
    repository.file("3.targets").write_bytes(old)


def freezes_it_at_its_end(repository: Repository) -> None:
    repository.now = BUILT_AT - 30 * DAY
    repository.signs_timestamp()


def counts_one_key_under_two_ids(repository: Repository) -> None:
    key = repository.signers["timestamp"][0].public_key
    repository.root.add_key(type(key).from_dict("ab" * 32, key.to_dict()), "timestamp")
    repository.root.roles["timestamp"].threshold = 2
    repository.root.version += 1
    repository.writes_root(repository.signers["root"])


def makes_a_root_of_its_own(repository: Repository) -> None:
    thief = new_signer()
    for role in ("root", "targets"):
        repository.root.roles[role].keyids = []
        repository.root.add_key(thief.public_key, role)
        repository.signers[role] = [thief]
    repository.root.version += 1
    repository.writes_root([thief])
    repository.publishes(policy(3))


def signs_a_policy_with_the_online_keys(repository: Repository) -> None:
    repository.signers["targets"] = repository.signers["timestamp"]
    repository.publishes(policy(3))


def changes_the_policy_in_its_place(repository: Repository) -> None:
    repository.publishes(policy(3))
    raw = encode(policy(3))
    target = repository.folder / f"targets/{sha256(raw).hexdigest()}.policy.json"
    target.write_bytes(raw.replace(b'"low"', b'"mid"'))


def never_ends(repository: Repository) -> None:
    repository.file("timestamp").write_bytes(b" " * 10_000_000)


def nests_deeply(repository: Repository) -> None:
    repository.file("timestamp").write_bytes(b"[" * 16_000)


REFUSED: dict[Callable[[Repository], None], str] = {
    rolls_everything_back: "must be >=",
    mixes_old_targets_in: "expected hash",
    freezes_it_at_its_end: "expired",
    counts_one_key_under_two_ids: "one key under two ids",
    makes_a_root_of_its_own: "root was signed by 0/1 keys",
    signs_a_policy_with_the_online_keys: "targets was signed by 0/1 keys",
    changes_the_policy_in_its_place: "expected hash",
    never_ends: "maximum allowed length",
    nests_deeply: "nested deeper",
}


@pytest.mark.parametrize("attack", REFUSED, ids=lambda attack: attack.__name__)
@pytest.mark.threat("T6", "T8", "T11", "T12", "T13", "T15")
def test_it_is_refused_and_the_policy_in_force_stays_through_a_restart(
    repository: Repository, agent: AgentProcess, attack: Callable[[Repository], None]
) -> None:
    before = stored(agent)
    # Prepared aside and put in place at once: nothing in between is to be seen.
    place = repository.folder
    repository.folder = place.parent / "prepared"
    shutil.copytree(place, repository.folder)
    attack(repository)
    place.rename(place.parent / "away")
    repository.folder.rename(place)

    wait_until(lambda: REFUSED[attack] in agent.status().policy.problem, "the refusal")
    kept = agent.status().policy.version
    agent.kill()
    shutil.rmtree(place)
    agent.start()
    again = agent.status().policy.version
    agent.stop()

    assert (kept, again) == (2, 2)
    assert stored(agent) == before
    [reason] = query(
        agent.database, "SELECT detail ->> 'reason' FROM audit WHERE kind = 'policy_refused' ORDER BY number"
    )
    assert reason == ("unproven_metadata",)


@pytest.mark.parametrize(("role", "version"), [("timestamp", 2**53), ("snapshot", 2**63 - 1)])
@pytest.mark.threat("T7", "T15")
def test_a_fast_forward_by_a_stolen_online_key_is_recovered_from_without_a_visit(
    repository: Repository, agent: AgentProcess, role: str, version: int
) -> None:
    signed = repository.timestamp if role == "timestamp" else repository.snapshot
    signed.version = version - 1
    repository.signs_snapshot() if role == "snapshot" else repository.signs_timestamp()
    wait_until(
        lambda: version in query(agent.database, "SELECT timestamp_version, snapshot_version FROM policy")[0],
        "the thief's version to be taken",
    )
    signed.version = 5
    repository.publishes(policy(3))
    wait_until(lambda: agent.status().policy.problem != "", "the honest version to be refused")

    repository.rotates("timestamp", "snapshot")
    signed.version = 5
    repository.publishes(policy(4))

    wait_until(lambda: agent.status().policy.version == 4, "version 4")
    assert agent.status().policy.problem == ""


@pytest.mark.threat("T7")
def test_no_absurd_number_in_a_signed_policy_is_taken_and_the_next_policy_is(
    repository: Repository, agent: AgentProcess
) -> None:
    before = stored(agent)
    refused = "SELECT count(*) FROM audit WHERE kind = 'policy_refused'"
    for count, absurd in enumerate((2**53, 10**400), 1):
        repository.publishes(encode(policy(3)).replace(b'"version":3', b'"version":%d' % absurd))
        wait_until(lambda: query(agent.database, refused) == [(count,)], "the refusal")  # noqa: B023 - awaited within the round
        assert stored(agent) == before

    repository.publishes(policy(3))

    wait_until(lambda: agent.status().policy.version == 3, "version 3")
    assert agent.status().policy.problem == ""


def stored(agent: AgentProcess) -> list[tuple[object, ...]]:
    """What the database holds of the policy, but for a later root."""
    return query(agent.database, "SELECT version, target, timestamp, snapshot, targets, pin FROM policy")
