"""Whoever has a builder's key, the online key, or the place of publication, brings no file onto a device.

Threats T6 (an earlier file or listing), T7 (fast-forward of versions and floors) and T8 (parts of two
listings), with artifacts. The agent looks every second at a folder in which the attacker does as they like.
Whatever becomes of a builder's artifacts, the policy and the other builders' go on.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest
from tuf.api.metadata import MetaFile, TargetFile

from edgeagent.clock import BUILT_AT
from edgeagent.contracts.door import decode
from edgeagent.contracts.reports.artifacts import ArtifactsShown
from tests.flows.publishing import policy
from tests.support.agents import AgentProcess
from tests.support.agents_publishing import begins, taking_from
from tests.support.brokers import wait_until
from tests.support.stores import query
from tests.support.tuf_repository import DAY, Repository

pytestmark = [pytest.mark.slow, pytest.mark.requirement("F1", "V3")]

ROLE: Final = "artifacts-plugs"
PLUG: Final[dict[str, object]] = {
    "family": "tasmota", "models": ["PM-1"], "version": "14.1.0", "floor": "14.0.0"
}  # fmt: skip
LAMP: Final[dict[str, object]] = {"family": "tasmota", "models": ["L-1"], "version": "14.1.0"}
OLD: Final = {**PLUG, "version": "13.0.0", "floor": "13.0.0"}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """The second listing of plugs; the first had an earlier file, and lamps have a builder of their own."""
    made = Repository(tmp_path / "repository", now=BUILT_AT + DAY)
    made.publishes(policy(1))
    made.delegates("lamps")
    made.delegates("plugs")
    made.lists("plugs", plug_old=OLD)
    made.lists("plugs", plug_1=PLUG)
    made.lists("lamps", lamp_1=LAMP)
    return made


@pytest.fixture
def agent(tmp_path: Path, repository: Repository) -> Iterator[AgentProcess]:
    """An agent that knows the listing, and goes on looking."""
    with closing(taking_from(repository, tmp_path / "hub", refresh="1s")) as process:
        process.has_fetching_unit()
        begins(process)
        yield process


def shown(agent: AgentProcess) -> ArtifactsShown:
    """What the agent says of artifacts."""
    return decode(ArtifactsShown, agent.run("artifacts", "list", "--json").stdout.encode(), limit=1_000_000)


def stored(agent: AgentProcess) -> list[tuple[object, ...]]:
    """What the database holds of artifacts."""
    return [
        *query(agent.database, "SELECT artifact, sha256, facts, is_revoked FROM artifacts ORDER BY artifact"),
        *query(agent.database, "SELECT role, metadata FROM catalogue_roles ORDER BY role"),
        *query(agent.database, "SELECT models, family, model, version FROM artifact_floors"),
    ]


# By a builder's key, with whoever publishes it being deceived.


def gives_the_id_to_another_file(repository: Repository) -> None:
    repository.lists("plugs", plug_1={**PLUG, "version": "14.1.1"})


def signs_for_another_builders_id(repository: Repository) -> None:
    repository.lists("lamps", lamp_1=LAMP, plug_1=PLUG)


def signs_for_another_builders_folder(repository: Repository) -> None:
    targets = repository.delegated["artifacts-lamps"].targets
    targets.update(repository.delegated[ROLE].targets)
    repository.signs_delegated("artifacts-lamps")
    repository.signs_snapshot()


def says_an_address(repository: Repository) -> None:
    repository.lists("plugs", plug_1=PLUG, plug_2={**PLUG, "url": "http://10.0.0.9/evil.bin"})


# By the stolen online key, which also replaces itself in the eyes of hubs that it deceives.


def brings_the_first_listing_back(repository: Repository) -> None:
    repository.rotates("snapshot", "timestamp")
    repository.delegated[ROLE].version = 1
    repository.lists("plugs", plug_old=OLD)


def mixes_an_earlier_listing_in(repository: Repository) -> None:
    earlier = repository.file(f"3.{ROLE}").read_bytes()
    repository.lists("plugs", plug_2=PLUG)
    repository.file(f"4.{ROLE}").write_bytes(earlier)


def signs_in_the_builders_place(repository: Repository) -> None:
    repository.signers[ROLE] = repository.signers["timestamp"]
    repository.lists("plugs", evil=PLUG)


REFUSED: dict[Callable[[Repository], None], str] = {
    gives_the_id_to_another_file: "plug-1 is another file than it was",
    signs_for_another_builders_id: "plug-1 is signed for by lamps and by plugs",
    signs_for_another_builders_folder: "the role of lamps does not sign for it",
    says_an_address: "url",
    brings_the_first_listing_back: f"{ROLE} 2 is older than 3",
    mixes_an_earlier_listing_in: "expected hash",
    signs_in_the_builders_place: "was signed by 0/1 keys",
}

BY_LAMPS: Final = {signs_for_another_builders_id, signs_for_another_builders_folder}


@pytest.mark.parametrize("attack", REFUSED, ids=lambda attack: attack.__name__)
@pytest.mark.threat("T6", "T8")
def test_the_listing_stays_and_the_policy_goes_on(
    repository: Repository, agent: AgentProcess, attack: Callable[[Repository], None]
) -> None:
    before = stored(agent)
    place = repository.folder
    repository.folder = place.parent / "prepared"
    shutil.copytree(place, repository.folder)
    attack(repository)
    repository.publishes(policy(2))
    place.rename(place.parent / "away")
    repository.folder.rename(place)

    wait_until(lambda: agent.status().policy.version == 2, "the next policy")
    refused = shown(agent)
    agent.kill()
    shutil.rmtree(place)
    agent.start()
    again = shown(agent)
    agent.stop()

    assert REFUSED[attack] in refused.problem
    bad = "lamp-1" if attack in BY_LAMPS else "plug-1"
    for known in (refused, again):
        assert {one.artifact: one.standing for one in known.artifacts} == {
            "lamp-1": "signed", "plug-1": "signed"
        } | {bad: "stale"}  # fmt: skip
    assert stored(agent) == before
    assert query(agent.database, "SELECT count(*) FROM audit WHERE kind = 'artifacts_refused'") == [(1,)]


@pytest.mark.threat("T7", "T15")
def test_floors_and_versions_of_a_stolen_builders_key_are_taken_back_without_a_visit(
    repository: Repository, agent: AgentProcess
) -> None:
    repository.delegated[ROLE].version = 2**53
    repository.lists("plugs", plug_1=PLUG, evil={**PLUG, "version": "999.0.0", "floor": "999.0.0"})
    wait_until(lambda: "999.0.0" in {floor.version for floor in shown(agent).floors}, "the floor")

    repository.delegated[ROLE].version = 4
    repository.rotates("snapshot", "timestamp")
    repository.delegates("plugs")
    repository.lists("plugs", plug_1=PLUG)

    wait_until(
        lambda: [floor.version for floor in shown(agent).floors] == ["14.0.0"],
        "the floor as it was",
    )
    known = shown(agent)
    assert known.problem == ""
    assert standing(agent) == {"plug-1": "signed", "evil": "revoked", "lamp-1": "signed"}


@pytest.mark.threat("T7", "T15")
def test_no_absurd_version_of_a_stolen_builders_key_locks_anybody_out(
    repository: Repository, agent: AgentProcess
) -> None:
    """The greatest that can be held is held until the keys are replaced; what cannot be is not taken."""
    before = stored(agent)
    lists_at(repository, 10**400)
    wait_until(lambda: "beyond 64 bits" in agent.status().policy.problem, "the refusal")
    assert stored(agent) == before

    lists_at(repository, 2**63 - 1)
    wait_until(lambda: "evil" in str(stored(agent)), "the greatest version to be taken")
    repository.delegated[ROLE].version = 5
    repository.lists("plugs", plug_1=PLUG)
    wait_until(lambda: "version" in agent.status().policy.problem, "the honest listing's refusal")
    repository.rotates("snapshot", "timestamp")
    repository.delegates("plugs")
    repository.lists("plugs", plug_1=PLUG)

    right = {"plug-1": "signed", "evil": "revoked", "lamp-1": "signed"}
    wait_until(lambda: standing(agent) == right, "the listing by the new key")
    assert shown(agent).problem == ""


def standing(agent: AgentProcess) -> dict[str, str]:
    """What the agent thinks of each artifact."""
    return {str(one.artifact): str(one.standing) for one in shown(agent).artifacts}


def lists_at(repository: Repository, version: int) -> None:
    """A builder's key signs a listing of such a version, and whoever publishes it names that."""
    role = repository.delegated[ROLE]
    role.version = version
    raw = b"evil"
    path = "artifacts/plugs/evil"
    role.targets = {path: TargetFile(len(raw), {"sha256": sha256(raw).hexdigest()}, path, {"custom": PLUG})}
    # No file's name has four hundred digits.
    signed = repository.writes(f"{min(version, 2**64)}.{ROLE}", role, repository.signers[ROLE])
    repository.snapshot.meta[f"{ROLE}.json"] = MetaFile(
        version, len(signed), {"sha256": sha256(signed).hexdigest()}
    )
    repository.signs_snapshot()
