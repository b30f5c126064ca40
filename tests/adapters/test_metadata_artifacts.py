"""What signs for artifacts, verified from bytes: what is taken and what is not, with no harm to a policy."""

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest
from tuf.api.metadata import DelegatedRole, Delegations, Metadata, SuccinctRoles, TargetFile, Targets

from edgeagent.adapters.metadata.delegating import artifacts_of
from edgeagent.adapters.metadata.reading import FolderReader
from edgeagent.adapters.metadata.verifying import published, relisted
from edgeagent.contracts.artifact import FACTS_BYTES, GROUP_BYTES, MOST_GROUPS, GroupFacts
from edgeagent.core.catalogue import Artifact, Listing
from edgeagent.ids import Digest
from edgeagent.ports.policy_source import Held, Published
from tests.support.clocks import NOON
from tests.support.tuf_repository import DAY, Repository

pytestmark = pytest.mark.requirement("F1", "V3")

POLICY, NEWER = b'{"version":1}', b'{"version":2}'
PLUG: Final[dict[str, object]] = {"family": "tasmota", "models": ["PM-1"], "version": "14.1.0(tasmota)"}
ROLE: Final = "artifacts-plugs"


class Reading:
    """Somebody who reads a repository again and again, and holds what was published last.

    Attributes:
        held: that.
        now: a moment that is certainly past.
    """

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._root = repository.first_root
        self.held: Held | None = None
        self.now = NOON

    def takes(self) -> Published:
        """Read, and hold what is published."""
        found = self.looks()
        self.held = found.held
        return found

    def looks(self) -> Published:
        """Read, and hold what was held."""
        root = self._root if self.held is None else self.held.metadata.root
        pin = Digest(sha256(self._root).hexdigest())
        return published(FolderReader(self._repository.folder), root, self.held, self.now, pin)

    def lists(self) -> Listing:
        """Read, and hold what is published: which artifacts?"""
        found = self.takes()
        assert found.listing is not None, found.listing_problem
        assert not found.listing.stale
        return found.listing

    def refused(self, group: str = "plugs") -> str:
        """Read a policy that is taken, beside artifacts of a group that are not: why not?"""
        role = f"artifacts-{group}"
        before = None if self.held is None else self.held.metadata.delegated.get(role)
        found = self.looks()
        assert found.listing is not None
        assert found.held.metadata.delegated.get(role) == before
        assert found.held.policy == POLICY
        [(stale, why)] = found.listing.stale.items()
        assert stale == group
        assert group not in found.listing.groups
        return why

    def refused_all(self) -> str:
        """Read a policy that is taken, where it is not clear who signs for artifacts: why not?"""
        before = {} if self.held is None else self.held.metadata.delegated
        found = self.looks()
        assert found.listing is None
        assert found.held.metadata.delegated == before
        assert found.held.policy == POLICY
        return found.listing_problem


def named(listing: Listing) -> dict[str, str]:
    """Which group signs for which id."""
    return {one.id: group for group, artifacts in listing.groups.items() for one in artifacts}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repository", now=NOON)
    made.publishes(POLICY)
    made.delegates("plugs")
    made.lists("plugs", plug_1=PLUG)
    return made


@pytest.fixture
def reading(repository: Repository) -> Reading:
    return Reading(repository)


def test_what_a_group_signs_for_is_taken_with_the_bytes_behind_it(
    repository: Repository, reading: Reading
) -> None:
    found = reading.takes()

    assert found.listing is not None
    [artifact] = found.listing.groups["plugs"]
    assert (artifact.id, artifact.length) == ("plug-1", 6)
    assert artifact.sha256 == sha256(b"plug-1").hexdigest()
    assert artifact.path == "artifacts/plugs/plug-1"
    assert artifact.facts.models == frozenset({"PM-1"})
    assert (artifact.signed.group, artifact.signed.version) == ("plugs", 2)
    assert artifact.signed.until == NOON + 90 * DAY
    assert found.held.metadata.delegated == {ROLE: repository.file(f"2.{ROLE}").read_bytes()}


def test_a_repository_without_groups_lists_nothing(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "plain", now=NOON)
    repository.publishes(POLICY)

    assert Reading(repository).lists() == Listing()


def test_of_several_groups_each_signs_for_its_own(repository: Repository, reading: Reading) -> None:
    repository.delegates("lamps")
    repository.lists("lamps", lamp_1=PLUG, lamp_2=PLUG)

    assert named(reading.lists()) == {"lamp-1": "lamps", "lamp-2": "lamps", "plug-1": "plugs"}


def test_what_is_held_is_not_read_again(repository: Repository, reading: Reading) -> None:
    reading.takes()
    repository.file(f"2.{ROLE}").unlink()
    repository.publishes(POLICY)

    assert set(named(reading.lists())) == {"plug-1"}


# What a publisher of files could do.


def _changed(repository: Repository, change: Callable[[Repository], None]) -> None:
    change(repository)
    repository.signs_delegated(ROLE)
    repository.signs_targets()


def _custom(**changes: object) -> Callable[[Repository], None]:
    return lambda repository: repository.lists("plugs", plug_1={**PLUG, **changes})


def _target(path: str, length: int = 3, **hashes: str) -> Callable[[Repository], None]:
    def change(repository: Repository) -> None:
        target = TargetFile(length, hashes or {"sha256": "5e" * 32}, path, {"custom": dict(PLUG)})
        repository.delegated[ROLE].targets[path] = target

    return change


def _delegating_further(repository: Repository) -> None:
    role = DelegatedRole("artifacts-more", [], 1, terminating=True, paths=["artifacts/plugs/*"])
    repository.delegated[ROLE].delegations = Delegations({}, {"artifacts-more": role})


def _too_much(repository: Repository) -> None:
    repository.delegated[ROLE].unrecognized_fields["x-padding"] = "p" * GROUP_BYTES


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(
            _target("artifacts/lamps/lamp-9"), "the role of plugs does not sign for it", id="other group"
        ),
        pytest.param(_target("policy.json"), "the role of plugs does not sign for it", id="the policy"),
        pytest.param(_target("artifacts/plugs/../x"), "the role of plugs does not", id="a path that climbs"),
        pytest.param(_target("artifacts/plugs/a/b"), "the role of plugs does not sign", id="a deeper path"),
        pytest.param(_target("artifacts/plugs/Plug"), "not a artifact id", id="an id in capitals"),
        pytest.param(_target("artifacts/plugs/p", 0), "0 bytes", id="empty"),
        pytest.param(_target("artifacts/plugs/p", 2**31), "bytes, of which", id="too long"),
        pytest.param(_target("artifacts/plugs/p", md5="00"), "named by its sha256", id="another hash"),
        pytest.param(_custom(models=[]), "models", id="for no model"),
        pytest.param(_custom(family="../x"), "family", id="no family"),
        pytest.param(
            _custom(family="shelly-gen2"),
            "plugs may not sign for PM-1 of shelly-gen2",
            id="for another family",
        ),
        pytest.param(_custom(url="http://10.0.0.9/x"), "url", id="an address"),
        pytest.param(_custom(notes="\x1b[2J"), "notes", id="what a terminal would act on"),
        pytest.param(_custom(hardware=["r" * 200] * 30), f"{FACTS_BYTES} are allowed", id="too much said"),
        pytest.param(_custom(floor="15.0.0"), "not above its own floor", id="below its own floor"),
        pytest.param(_custom(floor="next"), "not above its own floor", id="a floor of another shape"),
        pytest.param(_delegating_further, "delegates further", id="delegating further"),
        pytest.param(_too_much, f"of which {GROUP_BYTES} are allowed", id="too much"),
    ],
)
def test_one_bad_artifact_refuses_its_group_and_not_the_policy(
    repository: Repository, reading: Reading, change: Callable[[Repository], None], words: str
) -> None:
    _changed(repository, change)

    assert words in reading.refused()


def _expires(repository: Repository) -> None:
    repository.lasts["targets"] = DAY / 2
    repository.lists("plugs", plug_1=PLUG)
    repository.lasts["targets"] = 90 * DAY


def _is_not_there(repository: Repository) -> None:
    repository.lists("plugs", plug_1=PLUG)
    repository.file(f"{repository.delegated[ROLE].version}.{ROLE}").unlink()


def _is_no_metadata(repository: Repository) -> None:
    repository.lists("plugs", plug_1=PLUG)
    repository.file(f"{repository.delegated[ROLE].version}.{ROLE}").write_bytes(b"[]")


def _says_another_version(repository: Repository) -> None:
    repository.lists("plugs", plug_1=PLUG)
    meta = repository.snapshot.meta[f"{ROLE}.json"]
    raw = repository.file(f"{meta.version}.{ROLE}").read_bytes()
    meta.version += 1
    repository.file(f"{meta.version}.{ROLE}").write_bytes(raw)


def _is_not_in_the_snapshot(repository: Repository) -> None:
    del repository.snapshot.meta[f"{ROLE}.json"]


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        pytest.param(_expires, "is expired", id="expired"),
        pytest.param(_is_not_there, "there is no", id="missing"),
        pytest.param(_is_no_metadata, "does not match expected length", id="malformed"),
        pytest.param(_says_another_version, "got v3", id="another version"),
        pytest.param(_is_not_in_the_snapshot, "not part of snapshot", id="not in the snapshot"),
    ],
)
@pytest.mark.threat("T8")
def test_one_bad_role_costs_its_own_group_alone(
    repository: Repository, reading: Reading, harm: Callable[[Repository], None], words: str
) -> None:
    repository.delegates("lamps")
    harm(repository)
    repository.lists("lamps", lamp_1=PLUG)
    reading.now += DAY

    found = reading.looks()

    assert found.listing is not None
    assert named(found.listing) == {"lamp-1": "lamps"}
    assert words in found.listing.stale["plugs"]
    assert set(found.held.metadata.delegated) == {"artifacts-lamps"}


def test_of_a_group_that_is_refused_what_was_taken_last_is_held(
    repository: Repository, reading: Reading
) -> None:
    before = reading.takes().held.metadata.delegated
    _is_not_there(repository)

    found = reading.takes()

    assert found.held.metadata.delegated == before
    assert relisted(found.held) == Listing({"plugs": published_by(before[ROLE])})


def published_by(raw: bytes) -> list[Artifact]:
    """What metadata of plugs list."""
    signed: Metadata[Targets] = Metadata.from_bytes(raw)
    return artifacts_of(ROLE, signed.signed, GroupFacts(families={"tasmota": "*"}))


def test_a_key_that_stands_twice_is_refused(repository: Repository, reading: Reading) -> None:
    raw = repository.file(f"2.{ROLE}").read_bytes()
    twice = raw.replace(b'"version":2', b'"version":2,"version":2', 1)
    assert twice != raw
    repository.file(f"2.{ROLE}").write_bytes(twice)
    repository.snapshot.meta[f"{ROLE}.json"].length = len(twice)
    repository.snapshot.meta[f"{ROLE}.json"].hashes = {"sha256": sha256(twice).hexdigest()}
    repository.signs_snapshot()

    assert "a key stands twice" in reading.refused()


# Who may sign.


@pytest.mark.threat("T8")
@pytest.mark.parametrize(
    ("custom", "words"),
    [
        pytest.param({"families": {"tasmota": ["PM-1"]}}, "", id="for this model"),
        pytest.param(
            {"families": {"tasmota": ["PM-2"]}}, "may not sign for PM-1 of tasmota", id="another model"
        ),
        pytest.param(
            {"families": {"shelly-gen2": "*"}}, "may not sign for PM-1 of tasmota", id="another family"
        ),
        pytest.param({"families": {}}, "for which devices plugs may sign: families", id="for none"),
        pytest.param({"families": "*"}, "for which devices plugs may sign", id="for everything"),
        pytest.param(None, "for which devices plugs may sign", id="nobody says"),
    ],
)
def test_a_group_signs_for_the_devices_of_its_delegation_alone(
    repository: Repository, reading: Reading, custom: object, words: str
) -> None:
    repository.delegates("plugs", custom)
    repository.delegates("lamps")

    found = reading.looks()

    assert found.listing is not None
    assert words in found.listing.stale.get("plugs", "")
    assert set(found.listing.groups) == ({"lamps"} if words else {"lamps", "plugs"})


def test_a_group_for_some_models_signs_for_no_file_for_all(repository: Repository, reading: Reading) -> None:
    repository.delegates("plugs", {"families": {"tasmota": ["PM-1"]}})
    repository.lists("plugs", plug_1={**PLUG, "models": "*"})

    assert "plugs may not sign for all models of tasmota" in reading.refused()


def _role(repository: Repository) -> DelegatedRole:
    delegations = repository.targets.delegations
    assert delegations is not None
    assert delegations.roles is not None
    return delegations.roles[ROLE]


def _other_paths(repository: Repository) -> None:
    _role(repository).paths = ["artifacts/*/*"]


def _not_terminating(repository: Repository) -> None:
    _role(repository).terminating = False


def _foreign(repository: Repository) -> None:
    assert repository.targets.delegations is not None
    assert repository.targets.delegations.roles is not None
    role = DelegatedRole("firmware", _role(repository).keyids, 1, terminating=True, paths=["firmware/*"])
    repository.targets.delegations.roles["firmware"] = role


def _bins(repository: Repository) -> None:
    assert repository.targets.delegations is not None
    keys = repository.targets.delegations.keys
    repository.targets.delegations = Delegations(keys, None, SuccinctRoles(list(keys), 1, 2, "artifacts"))


def _one_key_twice(repository: Repository) -> None:
    delegations = repository.targets.delegations
    assert delegations is not None
    [keyid] = _role(repository).keyids
    again = delegations.keys[keyid]
    fields = {"public": again.keyval["public"], "note": "the same"}
    twin = type(again)("0" * 64, again.keytype, again.scheme, fields)
    delegations.keys["0" * 64] = twin
    _role(repository).keyids.append("0" * 64)


def _crowd(repository: Repository) -> None:
    delegations = repository.targets.delegations
    assert delegations is not None
    assert delegations.roles is not None
    for number in range(MOST_GROUPS):
        name = f"artifacts-g{number}"
        delegations.roles[name] = DelegatedRole(
            name, [], 1, terminating=True, paths=[f"artifacts/g{number}/*"]
        )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(_other_paths, "is for artifacts/plugs/* alone", id="other paths"),
        pytest.param(_not_terminating, "alone, and terminating", id="not terminating"),
        pytest.param(_foreign, "not a role for artifacts: 'firmware'", id="another kind of role"),
        pytest.param(_bins, "hash bins", id="hash bins"),
        pytest.param(_crowd, f"of which {MOST_GROUPS} are allowed", id="too many groups"),
    ],
)
def test_a_delegation_that_is_none_of_ours_refuses_the_listing(
    repository: Repository, reading: Reading, change: Callable[[Repository], None], words: str
) -> None:
    change(repository)
    repository.signs_targets()

    assert words in reading.refused_all()


def test_a_role_that_counts_one_key_twice_is_refused(repository: Repository, reading: Reading) -> None:
    _one_key_twice(repository)
    repository.signs_targets()

    assert "counts one key under two ids" in reading.refused()


def test_a_group_is_not_signed_for_by_others(repository: Repository, reading: Reading) -> None:
    repository.signers[ROLE] = repository.signers["timestamp"]
    repository.lists("plugs", plug_2=PLUG)

    assert "was signed by 0/1 keys" in reading.refused()


def test_a_role_whose_time_is_over_is_refused(repository: Repository, reading: Reading) -> None:
    reading.takes()
    repository.now += 91 * DAY
    repository.publishes(POLICY)
    reading.now = repository.now

    assert reading.refused() == f"New {ROLE} is expired"


def test_a_role_that_is_not_there_is_refused(repository: Repository, reading: Reading) -> None:
    repository.file(f"2.{ROLE}").unlink()

    assert f"2.{ROLE}.json" in reading.refused()


@pytest.mark.threat("T8")
def test_parts_of_two_publications_are_refused(repository: Repository, reading: Reading) -> None:
    older = repository.file(f"1.{ROLE}").read_bytes()
    repository.file(f"2.{ROLE}").write_bytes(older)

    assert "expected" in reading.refused()


# Going back.


@pytest.mark.threat("T6")
def test_a_role_does_not_go_back_though_the_snapshot_is_signed_anew(
    repository: Repository, reading: Reading
) -> None:
    repository.lists("plugs", plug_1=PLUG, plug_2=PLUG)
    reading.takes()
    # The thief has the online key, and an old file of the group's.
    repository.rotates("snapshot", "timestamp")
    old = json.loads(repository.file(f"2.{ROLE}").read_bytes())
    repository.delegated[ROLE].version = old["signed"]["version"] - 1
    repository.lists("plugs", plug_1=PLUG)

    assert reading.refused() == f"{ROLE} 2 is older than 3"


@pytest.mark.threat("T6")
def test_one_version_of_a_role_has_one_content(repository: Repository, reading: Reading) -> None:
    reading.takes()
    repository.delegated[ROLE].version -= 1
    repository.lists("plugs", plug_9=PLUG)

    assert reading.refused() == f"{ROLE} 2 is signed with two contents"


@pytest.mark.threat("T7")
def test_after_a_fast_forward_other_keys_begin_anew(repository: Repository, reading: Reading) -> None:
    repository.delegated[ROLE].version = 2**53
    repository.lists("plugs", plug_1=PLUG)
    assert reading.lists().groups["plugs"][0].signed.version == 2**53 + 1
    # Other keys for the group; and of the snapshot, which remembers how far the group had counted.
    repository.delegated[ROLE].version = 1
    repository.rotates("snapshot", "timestamp")
    repository.delegates("plugs")
    repository.lists("plugs", plug_2=PLUG)

    found = reading.lists()

    assert named(found) == {"plug-2": "plugs"}
    assert found.anew == {"plugs"}
