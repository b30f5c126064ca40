"""``edgeagent issuer init | refresh | repository | keys rotate, revoke | policy publish``, as typed."""

import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from edgeagent.contracts.policy import RoleKind
from edgeagent.issuer.keys import PrivateKey, load_public_key, save_key, save_public_key
from edgeagent.issuer.policies import load_policy
from edgeagent.issuer.repository.files import RepositoryFiles
from edgeagent.issuer.repository.trusted import Trusted, read_trusted
from edgeagent.issuer.wire import RefusalsAnswer
from tests.cli.building import Said, typed
from tests.issuer.publishing import Reader
from tests.issuer.test_signers import TOOL
from tests.support.private import write_private
from tests.support.queue_server import QueueServer


class Desk:
    """Somebody with a policy's file, a passphrase and an issuer's folder."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.policy = home / "policy.toml"
        self.venue = home / "venue"
        self._passphrase = home / "passphrase"
        write_private(self._passphrase, "correct horse battery\n")
        self.policy.write_text(typed("issuer", "policy", "sample").out)

    def types(self, *words: str | Path) -> Said:
        """Type a command with the passphrase at hand."""
        return typed("issuer", *map(str, words), "--passphrase-file", str(self._passphrase))

    def changes(self, *words: str | Path) -> Said:
        """Type a command about the folder."""
        return self.types(*words, "--folder", self.venue)

    def version(self, number: int) -> None:
        """Write another version into the policy's file."""
        text = re.sub(r"^version = \d+", f"version = {number}", self.policy.read_text(), flags=re.MULTILINE)
        self.policy.write_text(text)

    @property
    def trusted(self) -> Trusted:
        """What is in force."""
        return read_trusted(RepositoryFiles(self.venue / "repository"))

    def everything(self) -> dict[Path, bytes]:
        """All that hubs read."""
        return {path: path.read_bytes() for path in (self.venue / "repository").rglob("*") if path.is_file()}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A desk at which an issuer was made."""
    desk = Desk(tmp_path)
    said = desk.types("init", desk.venue, "--policy", desk.policy)
    assert (said.status, said.err) == (0, "")
    return desk


@pytest.mark.requirement("P1", "P2")
def test_init_says_what_to_lock_away_and_what_a_hub_needs(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    said = desk.types("init", desk.venue, "--policy", desk.policy)

    assert said.status == 0
    assert f"lock away {desk.venue / 'offline'}" in said.out
    assert f"copy {desk.venue / 'repository/metadata/1.root.json'} by hand" in said.out
    for name in ("backend", "duty", "security", "clock"):
        assert f"made      {tmp_path / 'keys' / name}.pem" in said.out
    assert desk.types("init", desk.venue, "--policy", desk.policy).status == 78


@pytest.mark.requirement("P1", "T2")
def test_the_sample_is_a_policy_of_every_kind_of_role(desk: Desk) -> None:
    policy = load_policy(desk.policy, now=datetime.now(UTC))

    assert {role.kind for role in policy.roles.values()} == set(RoleKind)
    assert desk.trusted.policy.keys == policy.keys


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--threshold", "4"], "a root has 1 to 16 keys"),
        (["--signer", "sign"], "--signer and --signer-public belong together"),
    ],
)
def test_an_init_that_cannot_be_makes_nothing(tmp_path: Path, words: list[str], why: str) -> None:
    desk = Desk(tmp_path)

    said = desk.types("init", desk.venue, "--policy", desk.policy, *words)

    assert said.status in {1, 78}
    assert why in said.err
    assert not desk.venue.exists()
    assert not (tmp_path / "keys").exists()


def test_a_short_passphrase_is_refused(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (tmp_path / "passphrase").write_text("short")

    said = desk.types("init", desk.venue, "--policy", desk.policy)

    assert (said.status, "at least 12" in said.err) == (78, True)
    assert not desk.venue.exists()


def test_a_passphrase_that_others_may_read_is_refused(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (tmp_path / "passphrase").chmod(0o644)

    said = desk.types("init", desk.venue, "--policy", desk.policy)

    assert (said.status, f"chmod 600 {tmp_path / 'passphrase'}" in said.err) == (78, True)
    assert not desk.venue.exists()


def test_without_a_terminal_a_passphrase_has_to_be_in_a_file(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    done = subprocess.run(
        [sys.executable, "-m", "edgeagent", "issuer", "init", desk.venue, "--policy", desk.policy],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, "name a --passphrase-file" in done.stderr) == (78, True)
    assert not desk.venue.exists()


@pytest.mark.requirement("T2")
def test_publish_puts_the_next_version_in_force_and_no_other(desk: Desk) -> None:
    desk.version(2)
    assert desk.changes("policy", "publish", desk.policy).status == 0
    before = desk.everything()

    again = desk.changes("policy", "publish", desk.policy)

    assert (again.status, "version: 2 does not follow 2" in again.err) == (1, True)
    assert desk.everything() == before


@pytest.mark.requirement("T2")
def test_a_policy_that_contradicts_itself_is_refused_with_its_place(desk: Desk) -> None:
    before = desk.everything()
    desk.policy.write_text(desk.policy.read_text().replace('keys = ["duty"]', 'keys = ["nobody"]'))

    said = desk.changes("policy", "publish", desk.policy)

    assert (said.status, "role duty names a key that is not listed" in said.err) == (1, True)
    assert desk.everything() == before


@pytest.mark.requirement("P1")
def test_a_policy_is_published_by_a_command_that_signs(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    key = typed("issuer", "keys", "new", str(tmp_path / "hsm.pem"))
    assert key.status == 0
    signer = f"{sys.executable} -c '{TOOL}' {tmp_path / 'hsm.pem'}"
    words = ("--signer", signer, "--signer-public", tmp_path / "hsm.pem.pub")
    assert desk.types("init", desk.venue, "--policy", desk.policy, *words).status == 0
    desk.version(2)

    assert desk.changes("policy", "publish", desk.policy, *words).status == 0

    assert desk.trusted.policy.version == 2
    assert not list((desk.venue / "offline").glob("policy*"))
    desk.version(3)
    without = desk.changes("policy", "publish", desk.policy)
    assert (without.status, "1 of the 1 keys of targets are needed; 0 at hand" in without.err) == (1, True)
    assert desk.trusted.policy.version == 2


@pytest.mark.requirement("P2")
def test_refresh_needs_the_online_key_only(desk: Desk) -> None:
    (desk.venue / "offline").rename(desk.home / "safe")

    said = typed("issuer", "refresh", "--folder", str(desk.venue))

    assert (said.status, said.err) == (0, "")
    assert re.search(r"^timestamp until \d{4}-\d\d-\d\d \d\d:\d\d UTC$", said.out, re.MULTILINE)
    assert desk.trusted.timestamp.signed.version == 2


@pytest.mark.requirement("P2")
def test_what_ends_soon_is_told_with_what_to_do(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    short = ("--targets-lifetime", "20d", "--online-lifetime", "2d")
    assert desk.types("init", desk.venue, "--policy", desk.policy, *short).status == 0

    checked = typed("issuer", "repository", "check", "--folder", str(desk.venue))
    assert checked.status == 1
    assert "targets ends soon" in checked.err
    assert "timestamp ends soon" in checked.err
    assert "next: edgeagent issuer refresh --offline-keys" in checked.err

    refreshed = typed("issuer", "refresh", "--folder", str(desk.venue), "--online-lifetime", "2d")
    assert refreshed.status == 1
    assert "targets ends soon" in refreshed.err
    assert "timestamp" not in refreshed.err, "it was asked to be that short"

    assert desk.changes("refresh", "--offline-keys").status == 0
    assert typed("issuer", "repository", "check", "--folder", str(desk.venue)).status == 0


@pytest.mark.requirement("P2", "T2")
def test_every_kind_of_key_is_rotated_and_a_hub_follows(desk: Desk) -> None:
    hub = Reader.new(desk.home / "hub", desk.venue / "repository" / "metadata" / "1.root.json")
    hub.read(desk.venue / "repository")
    before = desk.trusted.policy.keys["backend"]

    for what in ("root-2", "root", "policy", "online"):
        assert desk.changes("keys", "rotate", what).status == 0
    said = desk.changes("keys", "rotate", "backend")

    assert (said.status, said.err) == (0, "")
    policy = hub.read(desk.venue / "repository")
    new = desk.venue / "keys" / "backend-2.pem"
    assert f"backend = {new}.pub" in said.out
    assert policy.keys["backend"] == load_public_key(new.with_suffix(".pem.pub")).hex() != before
    known = {desk.venue / "offline" / f"root-{number}.pem" for number in range(1, 8)}
    assert set((desk.venue / "offline").glob("root-*.pem")) == known, "none was deleted or overwritten"


@pytest.mark.requirement("P2", "T2")
def test_a_key_that_was_revoked_comes_back_with_no_policy(desk: Desk) -> None:
    said = desk.changes("keys", "revoke", "backend")
    assert said.status == 0
    assert "role applications is gone: nobody else held it" in said.out
    assert "backend" not in desk.trusted.policy.keys
    before = desk.everything()
    desk.version(9)

    again = desk.changes("policy", "publish", desk.policy)

    assert (again.status, "keys.backend: this key was revoked" in again.err) == (1, True)
    assert desk.everything() == before


def test_a_name_gets_the_public_key_that_was_named(desk: Desk) -> None:
    key = PrivateKey.new()
    save_public_key(key.public, desk.home / "hsm.pub")

    assert desk.changes("keys", "rotate", "duty", "--public", desk.home / "hsm.pub").status == 0

    assert desk.trusted.policy.keys["duty"] == key.public.hex()
    assert not (desk.venue / "keys").exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("rotate", "nobody"), "'nobody' is no key of the policy (backend, clock, duty, security)"),
        (("revoke", "policy"), "policy: nothing goes on without such a key; rotate it"),
        (("revoke", "abc"), "'abc' is no key of the policy"),
    ],
)
def test_a_change_of_keys_that_cannot_be_is_refused(desk: Desk, words: tuple[str, str], why: str) -> None:
    before = desk.everything()

    said = desk.changes("keys", *words)

    assert (said.status, why in said.err) == (1, True)
    assert desk.everything() == before


def test_a_root_key_is_revoked_while_enough_are_left(desk: Desk) -> None:
    assert desk.changes("keys", "revoke", "root-1").status == 0
    before = desk.everything()

    said = desk.changes("keys", "revoke", "root-2")

    assert (said.status, "2 root keys are needed" in said.err) == (1, True)
    assert desk.everything() == before


def test_a_folder_of_nobody_is_named(tmp_path: Path) -> None:
    said = typed("issuer", "refresh", "--folder", str(tmp_path))

    assert (said.status, "make one by: edgeagent issuer init" in said.err) == (78, True)


@pytest.mark.slow
@pytest.mark.requirement("V7", "V5")
def test_what_the_gate_refused_is_shown_by_origin(tmp_path: Path) -> None:
    with QueueServer(tmp_path) as server:
        hub = server.new_hub()
        write_private(tmp_path / "token", server.issuer_token)
        login = ("--queue", server.url, "--token-file", str(tmp_path / "token"))
        save_key(PrivateKey.new(), tmp_path / "desk.pem")
        signing = ("--key", str(tmp_path / "desk.pem"), "--hub", hub.id, "--epoch", "0123456789abcdef0123")
        signed = typed("issuer", "command", "sign", "tv-1", "power", "on=true", *signing)
        (tmp_path / "command.json").write_text(signed.out)

        sent = typed("issuer", "command", "send", str(tmp_path / "command.json"), *login)
        told = typed("issuer", "refusals", *login)
        as_json = typed("--json", "issuer", "refusals", *login).report(RefusalsAnswer)

    assert (sent.status, "wrong_epoch" in sent.err) == (1, True)
    assert re.search(
        r"^\d{4}-\d\d-\d\d \d\d:\d\d +1 +wrong_epoch +token:desk +[0-9a-f-]+$", told.out, re.MULTILINE
    )
    assert [(row.reason, row.count) for row in as_json.refusals] == [("wrong_epoch", 1)]
    assert as_json.breakers == []
