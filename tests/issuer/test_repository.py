"""The repository of policies: what is published verifies for the standard's own client, at every moment."""

import json
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from tuf.api.exceptions import RepositoryError
from typing_extensions import override

from edgeagent.contracts.policy import id_of_key
from edgeagent.errors import ConfigurationError, MalformedError, RejectedError
from edgeagent.issuer.keys import PrivateKey, load_key, load_public_key
from edgeagent.issuer.repository.files import RepositoryFiles
from edgeagent.issuer.repository.folder import IssuerFolder, tuf_key
from edgeagent.issuer.repository.founding import Plan, found
from edgeagent.issuer.repository.policy_keys import key_named, lost_roles, with_key, without_key
from edgeagent.issuer.repository.publishing import KEPT_SNAPSHOTS, Publisher
from edgeagent.issuer.repository.signing import Lifetimes, MissingKeysError
from edgeagent.issuer.repository.trusted import DamagedRepositoryError, read_trusted
from tests.issuer.building import ManualClock
from tests.issuer.publishing import PASSPHRASE, POLICY, TODAY, Issuing, Reader, days, issuing, opened


def repository(issuer: Issuing) -> Path:
    """Where hubs read."""
    return issuer.home / "venue" / "repository"


def first_root(issuer: Issuing) -> Path:
    """What hubs are given by hand."""
    return repository(issuer) / "metadata" / "1.root.json"


def content(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# The beginning.


@pytest.mark.requirement("P1", "P2", "T2")
def test_a_new_issuer_has_keys_apart_and_a_policy_in_force(tmp_path: Path) -> None:
    issuer = issuing(tmp_path)

    assert Reader.new(tmp_path / "hub", first_root(issuer)).read(repository(issuer)) == issuer.policy(1)
    root = json.loads(first_root(issuer).read_bytes())["signed"]
    assert (len(root["roles"]["root"]["keyids"]), root["roles"]["root"]["threshold"]) == (3, 2)
    ids = [frozenset(root["roles"][role]["keyids"]) for role in ("root", "targets", "snapshot")]
    assert not ids[0] & ids[1]
    assert not ids[1] & ids[2]
    assert root["roles"]["snapshot"]["keyids"] == root["roles"]["timestamp"]["keyids"]
    assert issuer.made.trusted.expiries == {
        "root": TODAY + days(730),
        "targets": TODAY + days(365),
        "snapshot": TODAY + days(30),
        "timestamp": TODAY + days(30),
        "policy": TODAY + days(365),
    }


@pytest.mark.requirement("P1", "A2")
def test_offline_keys_are_encrypted_and_no_key_is_for_others_to_read(tmp_path: Path) -> None:
    issuing(tmp_path)

    private = sorted(tmp_path.rglob("*.pem"))
    assert [str(path.relative_to(tmp_path)) for path in private] == [
        "keys/clock.pem", "keys/desk.pem", "keys/till.pem",
        "venue/offline/policy-1.pem",
        "venue/offline/root-1.pem", "venue/offline/root-2.pem", "venue/offline/root-3.pem",
        "venue/online/online-1.pem",
    ]  # fmt: skip
    for path in private:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        offline = "offline" in path.parts
        assert (b"ENCRYPTED" in path.read_bytes()) is offline
        load_key(path, passphrase=PASSPHRASE if offline else None)


@pytest.mark.requirement("P1")
def test_a_second_beginning_touches_nothing(tmp_path: Path) -> None:
    issuing(tmp_path)
    before = content(tmp_path)

    with pytest.raises(ConfigurationError, match="offline exists"):
        issuing(tmp_path)

    assert content(tmp_path) == before


@pytest.mark.requirement("T2")
@pytest.mark.parametrize(
    ("text", "place"),
    [
        pytest.param(POLICY.replace('keys = ["clock"]', 'keys = ["nobody"]'), "role clocks names", id="role"),
        pytest.param(POLICY.replace('tier = "low"', 'tier = "lowest"'), "actions.power.tier", id="tier"),
        pytest.param(POLICY.replace("version = {version}", "version = 0"), "version", id="version"),
        pytest.param(POLICY + "[", "not TOML", id="no TOML"),
    ],
)
def test_a_policy_that_is_none_is_refused_with_its_place_and_nothing_is_made(
    tmp_path: Path, text: str, place: str
) -> None:
    (tmp_path / "policy.toml").write_text(text.format(version=1))

    with pytest.raises(MalformedError, match=place):
        found(opened(tmp_path), Plan(policy=tmp_path / "policy.toml"), ManualClock(TODAY))

    assert list(content(tmp_path)) == ["policy.toml"]


@pytest.mark.parametrize(("keys", "threshold"), [(1, 2), (3, 0), (17, 2), (0, 0)])
def test_a_threshold_that_cannot_be_reached_is_refused(tmp_path: Path, keys: int, threshold: int) -> None:
    with pytest.raises(RejectedError, match="a root has 1 to 16 keys"):
        issuing(tmp_path, root_keys=keys, threshold=threshold)

    assert list(content(tmp_path)) == ["policy.toml"]


# Publishing.


@pytest.mark.requirement("T2", "P2")
def test_a_policy_of_a_higher_version_is_in_force_for_whoever_reads(tmp_path: Path) -> None:
    issuer = issuing(tmp_path)
    hub = Reader.new(tmp_path / "hub", first_root(issuer))
    hub.read(repository(issuer))

    issuer.publisher.publish(issuer.policy(7))

    assert hub.read(repository(issuer)).version == 7


@pytest.mark.requirement("T2")
@pytest.mark.parametrize("version", [1, 2])
def test_a_version_that_does_not_grow_is_refused(tmp_path: Path, version: int) -> None:
    issuer = issuing(tmp_path)
    issuer.publisher.publish(issuer.policy(2))
    before = content(repository(issuer))

    with pytest.raises(RejectedError, match=f"version: {version} does not follow 2"):
        issuer.publisher.publish(issuer.policy(version))

    assert content(repository(issuer)) == before


@pytest.mark.requirement("P2")
def test_the_online_key_alone_renews_the_timestamp(tmp_path: Path) -> None:
    issuer = issuing(tmp_path)
    shutil.rmtree(tmp_path / "venue" / "offline")
    issuer.clock.passes(days(20))

    trusted = issuer.publisher.refresh()

    assert trusted.expiries["timestamp"] == TODAY + days(50)
    assert trusted.expiries["targets"] == TODAY + days(365)
    assert Reader.new(tmp_path / "hub", first_root(issuer)).read(repository(issuer)).version == 1
    with pytest.raises(MissingKeysError, match="1 of the 1 keys of targets are needed; 0 at hand"):
        issuer.publisher.publish(issuer.policy(2))
    with pytest.raises(MissingKeysError, match="keys of targets are needed; 0 at hand"):
        issuer.publisher.renew()
    assert read_trusted(issuer.folder.files).policy.version == 1


@pytest.mark.requirement("P2")
def test_root_and_policy_are_renewed_by_two_of_three_root_keys(tmp_path: Path) -> None:
    issuer = issuing(tmp_path)
    hub = Reader.new(tmp_path / "hub", first_root(issuer))
    hub.read(repository(issuer))
    (tmp_path / "venue" / "offline" / "root-2.pem").unlink()
    issuer.clock.passes(days(300))

    trusted = issuer.publisher.renew()

    assert trusted.root.signed.version == 2
    assert trusted.expiries["root"] == TODAY + days(1030)
    assert trusted.expiries["targets"] == TODAY + days(665)
    assert hub.read(repository(issuer)).version == 1


@pytest.mark.requirement("P2", "R7")
def test_what_is_renewed_daily_does_not_fill_the_disk(tmp_path: Path) -> None:
    issuer = issuing(tmp_path)
    for _ in range(KEPT_SNAPSHOTS + 20):
        issuer.publisher.refresh()

    snapshots = list((repository(issuer) / "metadata").glob("*.snapshot.json"))
    assert len(snapshots) == KEPT_SNAPSHOTS + 1
    assert Reader.new(tmp_path / "hub", first_root(issuer)).read(repository(issuer)).version == 1


def test_a_wrong_passphrase_changes_nothing(tmp_path: Path) -> None:
    issuer = issuing(tmp_path)
    before = content(repository(issuer))
    stranger = opened(tmp_path, passphrase=lambda: b"another passphrase")

    with pytest.raises(ConfigurationError, match="another passphrase"):
        Publisher(stranger, issuer.clock, Lifetimes()).publish(issuer.policy(2))

    assert content(repository(issuer)) == before


# Keys that change.


def rotated_root(issuer: Issuing) -> None:
    key = issuer.folder.new_key("root")
    gone = issuer.publisher.read().root.signed.roles["root"].keyids[0]
    issuer.publisher.replace_root_keys(add=[key.public], remove=[gone])


def rotated_policy_key(issuer: Issuing) -> None:
    folder = issuer.folder
    Publisher(folder, issuer.clock, Lifetimes()).replace_role_key(["targets"], folder.new_key("policy"))


def rotated_online_key(issuer: Issuing) -> None:
    folder = issuer.folder
    new = folder.new_key("online")
    Publisher(folder, issuer.clock, Lifetimes()).replace_role_key(["snapshot", "timestamp"], new)


CHANGES = [
    pytest.param(lambda issuer: issuer.publisher.publish(issuer.policy(2)), id="publish"),
    pytest.param(lambda issuer: issuer.publisher.refresh(), id="refresh"),
    pytest.param(lambda issuer: issuer.publisher.renew(), id="renew"),
    pytest.param(rotated_root, id="a root key"),
    pytest.param(rotated_policy_key, id="the policy key"),
    pytest.param(rotated_online_key, id="the online key"),
]


@pytest.mark.requirement("P2", "T2")
def test_after_months_offline_and_many_changes_of_keys_a_hub_follows(tmp_path: Path) -> None:
    issuer = issuing(tmp_path)
    hub = Reader.new(tmp_path / "hub", first_root(issuer))
    hub.read(repository(issuer))

    for change in (rotated_root, rotated_policy_key, rotated_online_key, rotated_root, rotated_online_key):
        change(issuer)
    issuer.publisher.publish(issuer.policy(2))

    assert hub.read(repository(issuer)).version == 2
    root = read_trusted(issuer.folder.files).root.signed
    assert root.version == 9
    names = {issuer.folder.known()[keyid].name for keyid in root.keys}
    assert names == {"root-3", "root-4", "root-5", "policy-2", "online-3"}


@pytest.mark.requirement("P2")
def test_what_was_signed_with_a_key_that_is_gone_is_not_believed(tmp_path: Path) -> None:
    issuer = issuing(tmp_path)
    hub = Reader.new(tmp_path / "hub", first_root(issuer))
    stolen = issuer.folder.signer(issuer.made.trusted.root.signed.roles["timestamp"].keyids[0])
    assert stolen is not None
    rotated_online_key(issuer)
    hub.read(repository(issuer))

    forged = json.loads((repository(issuer) / "metadata" / "timestamp.json").read_bytes())
    assert len(forged["signatures"]) == 2, "the earlier key's as well, for whoever had read the earlier root"
    forged["signatures"] = [
        one for one in forged["signatures"] if one["keyid"] == tuf_key(stolen.public).keyid
    ]
    (repository(issuer) / "metadata" / "timestamp.json").write_text(json.dumps(forged))

    with pytest.raises(DamagedRepositoryError, match=r"timestamp\.json: not signed by enough keys"):
        read_trusted(issuer.folder.files)


@pytest.mark.requirement("P2")
def test_a_lost_online_key_can_be_replaced(tmp_path: Path) -> None:
    issuer = issuing(tmp_path)
    hub = Reader.new(tmp_path / "hub", first_root(issuer))
    hub.read(repository(issuer))
    (tmp_path / "venue" / "online" / "online-1.pem").unlink()

    rotated_online_key(issuer)

    assert hub.read(repository(issuer)).version == 1


def test_root_keys_below_the_threshold_are_refused(tmp_path: Path) -> None:
    issuer = issuing(tmp_path, root_keys=2)
    before = content(repository(issuer))
    gone = next(keyid for keyid, known in issuer.folder.known().items() if known.name == "root-1")

    with pytest.raises(RejectedError, match="2 root keys are needed"):
        issuer.publisher.replace_root_keys(add=[], remove=[gone])

    assert content(repository(issuer)) == before


# Keys within the policy.


@pytest.mark.requirement("T2", "P2")
def test_a_command_key_that_is_revoked_is_in_no_policy_again(tmp_path: Path) -> None:
    issuer = issuing(tmp_path)
    public = load_public_key(tmp_path / "keys" / "desk.pem.pub")

    issuer.folder.revoke(public, "desk")
    trusted = issuer.publisher.publish(without_key(issuer.policy(1), "desk", now=issuer.clock.wall().best))

    assert trusted.policy.version == 2
    assert set(trusted.policy.keys) == {"till", "clock"}
    assert trusted.policy.roles["operators"].keys == {"till"}
    with pytest.raises(RejectedError, match=r"keys\.desk: this key was revoked"):
        issuer.publisher.publish(issuer.policy(3))
    assert read_trusted(issuer.folder.files).policy.version == 2


def test_a_role_that_only_a_revoked_key_held_goes_with_it(tmp_path: Path) -> None:
    policy = issuing(tmp_path).policy(1)

    later = without_key(policy, "clock", now=TODAY)

    assert lost_roles(policy, later) == ["clocks"]


def test_a_name_gets_another_key(tmp_path: Path) -> None:
    policy, new = issuing(tmp_path).policy(1), PrivateKey.new()

    later = with_key(policy, "desk", new.public, now=TODAY)

    assert (later.version, later.keys["desk"]) == (2, new.public.hex())
    assert later.roles == policy.roles
    with pytest.raises(MalformedError, match="one public key has two names"):
        with_key(later, "till", new.public, now=TODAY)
    with pytest.raises(RejectedError, match="own time is over"):
        with_key(policy, "desk", new.public, now=TODAY + days(365))


def test_a_key_is_meant_by_its_name_or_the_beginning_of_its_id(tmp_path: Path) -> None:
    policy = issuing(tmp_path).policy(1)
    of_desk = id_of_key(bytes.fromhex(policy.keys["desk"]))

    assert key_named(policy, "desk") == "desk"
    assert key_named(policy, of_desk[:8]) == "desk"
    assert key_named(policy, of_desk[:7]) is None
    assert key_named(policy, "nobody") is None


# Whoever reads in the middle, and whoever dies there.


class CutShort(RepositoryFiles):
    """Files of a disk that takes so many writes and then no more, as after a power cut."""

    def __init__(self, folder: Path, writes: int) -> None:
        super().__init__(folder)
        self._left = writes
        self.cut = False

    @override
    def write_metadata(self, name: str, content: bytes) -> None:
        self._count()
        super().write_metadata(name, content)

    @override
    def write_target(self, name: str, content: bytes) -> None:
        self._count()
        super().write_target(name, content)

    def _count(self) -> None:
        if self._left == 0:
            self.cut = True
            raise ConfigurationError("power cut")
        self._left -= 1


@pytest.mark.requirement("P2", "R1")
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_ends_anywhere_leaves_the_old_or_the_new_and_can_be_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Issuing], object]
) -> None:
    original = tmp_path / "original"
    original.mkdir()
    issuer = issuing(original)
    for writes in range(20):
        home = tmp_path / f"after-{writes}"
        shutil.copytree(original, home)
        again = Issuing(home, issuer.clock, issuer.made)
        disk = CutShort(home / "venue" / "repository", writes)
        hub = Reader.new(tmp_path / f"hub-{writes}", first_root(again))
        hub.read(repository(again))

        with monkeypatch.context() as patched:
            patched.setattr(IssuerFolder, "files", disk)
            try:
                change(again)
            except ConfigurationError:
                assert disk.cut

        assert hub.read(repository(again)).version in {1, 2}
        read_trusted(again.folder.files)
        if not disk.cut:
            assert writes > 0
            return
        if hub.read(repository(again)).version == 1:
            change(again)
        hub.read(repository(again))
    raise AssertionError("the change never ends")


@pytest.mark.requirement("P2")
@pytest.mark.parametrize("change", CHANGES)
def test_a_hub_that_has_read_half_before_a_change_can_read_on_after_it(
    tmp_path: Path, change: Callable[[Issuing], object]
) -> None:
    """What it has read names files by version; they are still there, as they were."""
    issuer = issuing(tmp_path)
    before = content(repository(issuer))

    change(issuer)

    after = content(repository(issuer))
    replaced = {name for name in before if after.get(name) != before[name]}
    assert replaced <= {"metadata/timestamp.json"}


@pytest.mark.parametrize(
    ("name", "harm", "words"),
    [
        ("timestamp.json", lambda raw: raw.replace(b'"version":1', b'"version":2'), "not signed by enough"),
        ("1.snapshot.json", lambda raw: raw.replace(b"targets", b"Targets"), "."),
        ("1.targets.json", lambda raw: raw[:-1], "no metadata"),
        ("1.root.json", lambda raw: raw.replace(b'"threshold":2', b'"threshold":1'), "not signed by enough"),
        ("1.root.json", lambda _raw: b"[]", "no metadata"),
    ],
)
def test_a_file_that_was_changed_is_named_and_nothing_is_built_on_it(
    tmp_path: Path, name: str, harm: Callable[[bytes], bytes], words: str
) -> None:
    issuer = issuing(tmp_path)
    path = repository(issuer) / "metadata" / name
    path.write_bytes(harm(path.read_bytes()))
    before = content(repository(issuer))

    with pytest.raises(DamagedRepositoryError, match=words) as told:
        issuer.publisher.publish(issuer.policy(2))

    assert name in str(told.value)
    assert content(repository(issuer)) == before


def test_a_policy_whose_bytes_were_changed_is_named(tmp_path: Path) -> None:
    issuer = issuing(tmp_path)
    [path] = (repository(issuer) / "targets").iterdir()
    path.write_bytes(path.read_bytes().replace(b'"low"', b'"mid"'))

    with pytest.raises(DamagedRepositoryError, match="not the bytes that are signed for"):
        issuer.publisher.refresh()
    with pytest.raises(RepositoryError):
        Reader.new(tmp_path / "hub", first_root(issuer)).read(repository(issuer))


def test_two_changes_at_once_are_kept_apart(tmp_path: Path) -> None:
    issuer = issuing(tmp_path)

    with (
        issuer.folder.alone(),
        pytest.raises(ConfigurationError, match="another edgeagent"),
        issuer.folder.alone(),
    ):
        raise AssertionError("both were let in")
