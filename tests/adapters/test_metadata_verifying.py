"""A policy's metadata, verified from bytes: what is taken, what is refused, and what outlives the files."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from edgeagent.adapters.metadata.reading import FolderReader
from edgeagent.adapters.metadata.verifying import check_root, published, stands_behind
from edgeagent.contracts.policy import POLICY_BYTES
from edgeagent.errors import MalformedError
from edgeagent.ids import Digest
from edgeagent.ports.links import LinkError
from edgeagent.ports.policy_source import Held, Published, UnprovenMetadataError
from tests.support.clocks import NOON
from tests.support.tuf_repository import DAY, Repository, new_signer

pytestmark = pytest.mark.requirement("T2", "C5")

POLICY = b'{"version":1}'
NEWER = b'{"version":2}'


class Reading:
    """Somebody who reads a repository again and again, and holds what was published last.

    Attributes:
        held: that.
        now: a moment that is certainly past.
    """

    def __init__(self, repository: Repository, now: datetime = NOON) -> None:
        self._repository = repository
        self._root = repository.first_root
        self.held: Held | None = None
        self.now = now

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

    def refused(self) -> UnprovenMetadataError:
        """Read what is to be refused."""
        with pytest.raises(UnprovenMetadataError) as caught:
            self.looks()
        return caught.value


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repository", now=NOON)
    made.publishes(POLICY)
    return made


@pytest.fixture
def reading(repository: Repository) -> Reading:
    return Reading(repository)


def test_what_is_published_is_taken_with_all_that_stands_behind_it(
    repository: Repository, reading: Reading
) -> None:
    found = reading.takes()

    assert found.held.policy == POLICY
    assert found.held.metadata.root == repository.first_root
    assert found.held.metadata.timestamp == repository.file("timestamp").read_bytes()
    assert found.held.metadata.snapshot == repository.file("1.snapshot").read_bytes()
    assert found.held.metadata.targets == repository.file("1.targets").read_bytes()
    assert found.expires_at == NOON + 7 * DAY
    assert not found.is_anew


def test_the_earliest_end_of_the_three_counts(repository: Repository, reading: Reading) -> None:
    repository.lasts["targets"] = 2 * DAY
    repository.publishes(POLICY)

    assert reading.takes().expires_at == NOON + 2 * DAY


def test_a_newer_one_takes_its_place(repository: Repository, reading: Reading) -> None:
    reading.takes()
    repository.publishes(NEWER)

    found = reading.takes()

    assert found.held.policy == NEWER
    assert (found.versions.targets, found.versions.snapshot, found.versions.timestamp) == (2, 2, 2)


def test_after_months_offline_any_number_of_roots_is_followed(
    repository: Repository, reading: Reading
) -> None:
    reading.takes()
    for month in range(1, 6):
        repository.now = NOON + month * 30 * DAY
        repository.rotates("root", "timestamp", "snapshot", "targets")
    repository.publishes(NEWER)
    reading.now = repository.now

    found = reading.takes()

    assert found.held.policy == NEWER
    assert found.versions.root == 6


# What a mirror, a thief of a key, or somebody on the way can do.


def freezes(repository: Repository, reading: Reading) -> None:
    reading.now = repository.now + 8 * DAY


def rolls_the_timestamp_back(repository: Repository, reading: Reading) -> None:
    old = repository.file("timestamp").read_bytes()
    repository.publishes(NEWER)
    reading.takes()
    repository.file("timestamp").write_bytes(old)


def rolls_the_snapshot_back(repository: Repository, reading: Reading) -> None:
    repository.publishes(NEWER)
    reading.takes()
    repository.snapshot.version = 0
    repository.snapshot.meta["targets.json"].version = 1
    repository.signs_snapshot()


def rolls_the_targets_back(repository: Repository, reading: Reading) -> None:
    old = repository.snapshot.meta["targets.json"]
    repository.publishes(NEWER)
    reading.takes()
    repository.snapshot.meta["targets.json"] = old
    repository.signs_snapshot()


def mixes_an_old_snapshot_in(repository: Repository, _reading: Reading) -> None:
    old = repository.file("1.snapshot").read_bytes()
    repository.publishes(NEWER)
    repository.file("2.snapshot").write_bytes(old)


def mixes_old_targets_in(repository: Repository, _reading: Reading) -> None:
    old = repository.file("1.targets").read_bytes()
    repository.publishes(NEWER)
    repository.file("2.targets").write_bytes(old)


def changes_the_policy(repository: Repository, _reading: Reading) -> None:
    repository.publishes(NEWER)
    target = repository.folder / f"targets/{sha256(NEWER).hexdigest()}.policy.json"
    target.write_bytes(NEWER.replace(b"2", b"3"))


def cuts_the_policy(repository: Repository, _reading: Reading) -> None:
    repository.publishes(NEWER)
    target = repository.folder / f"targets/{sha256(NEWER).hexdigest()}.policy.json"
    target.write_bytes(NEWER[:-1])


def lengthens_the_policy(repository: Repository, _reading: Reading) -> None:
    repository.publishes(NEWER)
    target = repository.folder / f"targets/{sha256(NEWER).hexdigest()}.policy.json"
    target.write_bytes(NEWER + b" ")


def sends_an_endless_timestamp(repository: Repository, _reading: Reading) -> None:
    repository.file("timestamp").write_bytes(b" " * 1_000_000)


def sends_an_endless_root(repository: Repository, _reading: Reading) -> None:
    repository.file("2.root").write_bytes(b"{" * 1_000_000)


def names_a_huge_policy(repository: Repository, _reading: Reading) -> None:
    repository.publishes(b" " * (POLICY_BYTES + 1))


def names_no_policy(repository: Repository, _reading: Reading) -> None:
    repository.targets.targets = {}
    repository.signs_targets()


def signs_with_another_key(repository: Repository, _reading: Reading) -> None:
    repository.signers["timestamp"] = [new_signer()]
    repository.signs_timestamp()


def signs_the_root_with_its_own_key_only(repository: Repository, _reading: Reading) -> None:
    thief = new_signer()
    repository.root.roles["root"].keyids = []
    repository.root.add_key(thief.public_key, "root")
    repository.root.version = 2
    repository.writes_root([thief])


def skips_a_root(repository: Repository, _reading: Reading) -> None:
    repository.rotates("root")
    repository.rotates("root")
    repository.file("3.root").replace(repository.file("2.root"))


def counts_one_key_twice(repository: Repository, _reading: Reading) -> None:
    signer = repository.signers["timestamp"][0]
    key = signer.public_key
    again = type(key).from_dict("ab" * 32, key.to_dict())
    repository.root.add_key(again, "timestamp")
    repository.root.version = 2
    repository.writes_root(repository.signers["root"])


def lists_a_signature_twice(repository: Repository, _reading: Reading) -> None:
    repository.signs_timestamp()
    fields = json.loads(repository.file("timestamp").read_bytes())
    fields["signatures"] *= 2
    repository.file("timestamp").write_bytes(json.dumps(fields).encode())


def writes_a_key_of_json_twice(repository: Repository, _reading: Reading) -> None:
    repository.signs_timestamp()
    raw = repository.file("timestamp").read_bytes()
    repository.file("timestamp").write_bytes(raw.replace(b"{", b'{"signatures":[],', 1))


def nests_deeply(repository: Repository, _reading: Reading) -> None:
    repository.file("timestamp").write_bytes(b"[" * 8000)


def sends_no_json(repository: Repository, _reading: Reading) -> None:
    repository.file("timestamp").write_bytes(b"<html>log in</html>")


def sends_another_role(repository: Repository, _reading: Reading) -> None:
    repository.file("timestamp").write_bytes(repository.file("1.snapshot").read_bytes())


def lets_the_root_end(repository: Repository, reading: Reading) -> None:
    repository.lasts["root"] = DAY
    repository.rotates("root")
    reading.now = NOON + 2 * DAY


Attack = Callable[[Repository, Reading], None]
ATTACKS: dict[Attack, str] = {
    freezes: "timestamp.json is expired",
    rolls_the_timestamp_back: "New timestamp version 1 must be >= 2",
    rolls_the_snapshot_back: "New snapshot version must be >= 2",
    rolls_the_targets_back: "Expected targets.json version",
    mixes_an_old_snapshot_in: "does not match expected hash",
    mixes_old_targets_in: "does not match expected hash",
    changes_the_policy: "does not match expected hash",
    cuts_the_policy: "Observed length 12",
    lengthens_the_policy: "exceeding the maximum allowed length of 13",
    sends_an_endless_timestamp: "exceeding the maximum allowed length",
    sends_an_endless_root: "exceeding the maximum allowed length",
    names_a_huge_policy: "at most 262144 bytes",
    names_no_policy: "name no policy.json",
    signs_with_another_key: "timestamp was signed by 0/1 keys",
    signs_the_root_with_its_own_key_only: "root was signed by 0/1 keys",
    skips_a_root: "root was signed by 0/1 keys",
    counts_one_key_twice: "one key under two ids",
    lists_a_signature_twice: "deserialize",
    writes_a_key_of_json_twice: "a key stands twice",
    nests_deeply: "nested deeper",
    sends_no_json: "not JSON",
    sends_another_role: "Expected 'timestamp'",
    lets_the_root_end: "Final root.json is expired",
}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
@pytest.mark.parametrize("is_first", [True, False], ids=["at first", "later"])
def test_an_attack_is_refused_in_printable_words(
    repository: Repository,
    reading: Reading,
    attack: Attack,
    is_first: bool,  # noqa: FBT001 - a column of the table
) -> None:
    if not is_first:
        reading.takes()
    attack(repository, reading)

    why = reading.refused()

    assert ATTACKS[attack] in str(why)
    assert str(why).isprintable()


def test_the_attacks_are_refused_for_themselves(repository: Repository, reading: Reading) -> None:
    """What every attack begins with is in order."""
    reading.takes()
    repository.publishes(NEWER)

    assert reading.takes().held.policy == NEWER


def test_a_later_root_that_verifies_is_told_though_the_rest_is_refused(
    repository: Repository, reading: Reading
) -> None:
    reading.takes()
    repository.rotates("timestamp")  # and its new key signs nothing yet

    why = reading.refused()

    assert why.root == (2, repository.file("2.root").read_bytes())


def test_what_is_missing_is_no_attack(repository: Repository, reading: Reading) -> None:
    repository.file("timestamp").unlink()

    with pytest.raises(LinkError, match=r"timestamp\.json"):
        reading.looks()


@pytest.mark.parametrize("role", ["timestamp", "snapshot"])
def test_a_fast_forward_is_recovered_from_by_other_keys(
    repository: Repository, reading: Reading, role: str
) -> None:
    """A thief's version of 2**53 must not lock newer ones out for good (TUF 5.3.11)."""
    signed = repository.timestamp if role == "timestamp" else repository.snapshot
    signed.version = 2**53
    repository.signs_snapshot() if role == "snapshot" else repository.signs_timestamp()
    reading.takes()
    signed.version = 1
    repository.signs_snapshot()
    reading.refused()

    repository.rotates("timestamp", "snapshot")
    signed.version = 1
    repository.publishes(NEWER)

    assert reading.takes().held.policy == NEWER


def test_the_count_of_policies_begins_anew_when_the_targets_keys_are_replaced(
    repository: Repository, reading: Reading
) -> None:
    reading.takes()
    repository.rotates("targets", "snapshot", "timestamp")
    repository.publishes(NEWER)

    assert reading.takes().is_anew


def test_with_a_clock_that_is_not_sure_what_may_have_expired_is_taken(reading: Reading) -> None:
    """The present is a moment that is certainly past, and never the system's own."""
    reading.now = NOON - timedelta(days=1000)

    assert reading.takes().expires_at == NOON + 7 * DAY


def test_an_expired_one_is_renewed_when_a_newer_comes(repository: Repository, reading: Reading) -> None:
    reading.takes()
    repository.now = reading.now = NOON + 20 * DAY
    reading.refused()

    repository.signs_timestamp()

    assert reading.takes().expires_at == NOON + 27 * DAY


def test_a_root_stands_behind_what_its_own_targets_keys_have_signed(
    repository: Repository, reading: Reading, tmp_path: Path
) -> None:
    held = reading.takes().held
    repository.rotates("root")
    stranger = Repository(tmp_path / "other", now=NOON)

    assert stands_behind(repository.file("2.root").read_bytes(), held)
    assert not stands_behind(stranger.first_root, held)
    assert not stands_behind(b"{}", held)


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b"\xff", b"x" * 100])
def test_what_is_no_root_is_named(raw: bytes) -> None:
    with pytest.raises(MalformedError):
        check_root(raw, limit=1000)


def test_a_root_is_known_by_its_own_signature(repository: Repository) -> None:
    raw = repository.first_root

    check_root(raw, limit=100_000)
    with pytest.raises(MalformedError, match="root"):
        check_root(raw.replace(b'"version":1', b'"version":2'), limit=100_000)
    with pytest.raises(MalformedError):
        check_root(raw, limit=100)
