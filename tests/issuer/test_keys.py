"""Signing keys and their files."""

import stat
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from edgeagent.contracts.policy import id_of_key
from edgeagent.core.envelope import sign, verify
from edgeagent.errors import ConfigurationError
from edgeagent.issuer.keys import (
    PrivateKey,
    load_key,
    load_public_key,
    save_key,
    save_public_key,
)


@pytest.mark.requirement("P1", "T1")
def test_a_saved_key_is_the_same_key_again_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    key = PrivateKey.new()

    save_key(key, tmp_path / "desk.pem")

    again = load_key(tmp_path / "desk.pem")
    envelope = sign(b"payload", "kind", [again])
    assert verify(envelope, {key.id: key.public}, "kind", limit=1000).signers == (key.id,)
    assert stat.S_IMODE((tmp_path / "desk.pem").stat().st_mode) == 0o600


@pytest.mark.requirement("P1")
def test_a_key_with_a_passphrase_opens_with_that_one_only(tmp_path: Path) -> None:
    key, path = PrivateKey.new(), tmp_path / "desk.pem"
    save_key(key, path, passphrase=b"open sesame")

    assert load_key(path, passphrase=b"open sesame").id == key.id

    for wrong in (None, b"", b"open barley"):
        with pytest.raises(ConfigurationError, match="passphrase"):
            load_key(path, passphrase=wrong)


def test_a_passphrase_for_a_key_that_has_none_is_told(tmp_path: Path) -> None:
    save_key(PrivateKey.new(), tmp_path / "desk.pem")

    with pytest.raises(ConfigurationError, match="no passphrase"):
        load_key(tmp_path / "desk.pem", passphrase=b"open sesame")


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    first, path = PrivateKey.new(), tmp_path / "desk.pem"
    save_key(first, path)

    with pytest.raises(ConfigurationError, match="exists"):
        save_key(PrivateKey.new(), path)

    assert load_key(path).id == first.id


def test_a_link_in_the_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "desk.pem").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(ConfigurationError):
        save_key(PrivateKey.new(), tmp_path / "desk.pem")

    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.requirement("W3")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660], ids=oct)
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    save_key(PrivateKey.new(), tmp_path / "desk.pem")
    (tmp_path / "desk.pem").chmod(mode)

    with pytest.raises(ConfigurationError, match="others can read"):
        load_key(tmp_path / "desk.pem")


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\0" * 300, id="zeros"),
        pytest.param(b"-----BEGIN PRIVATE KEY-----\nMC4C\n-----END PRIVATE KEY-----\n", id="cut"),
        pytest.param(
            generate_private_key(SECP256R1()).private_bytes(
                Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
            ),
            id="another kind of key",
        ),
    ],
)
def test_a_file_that_is_no_ed25519_key_is_refused_without_showing_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "desk.pem"
    path.write_bytes(content)
    path.chmod(0o600)

    with pytest.raises(ConfigurationError) as refused:
        load_key(path)

    assert "MC4C" not in str(refused.value)


def test_a_missing_file_is_told_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="missing\\.pem: No such file"):
        load_key(tmp_path / "missing.pem")


@pytest.mark.requirement("T1")
def test_a_public_key_travels_as_pem(tmp_path: Path) -> None:
    key = PrivateKey.new()

    save_public_key(key.public, tmp_path / "desk.pub.pem")

    assert load_public_key(tmp_path / "desk.pub.pem") == key.public
    assert key.id == id_of_key(key.public)


def test_a_private_key_is_no_public_one(tmp_path: Path) -> None:
    save_key(PrivateKey.new(), tmp_path / "desk.pem")

    with pytest.raises(ConfigurationError, match="no public key"):
        load_public_key(tmp_path / "desk.pem")


@pytest.mark.requirement("A2")
def test_a_key_does_not_print_itself() -> None:
    key = PrivateKey.new()

    shown = f"{key!r} {key}"

    assert key.pem().decode() not in shown
    assert len(shown) < 80


@pytest.mark.requirement("P1")
def test_openssl_reads_our_keys_and_verifies_our_signatures(tmp_path: Path) -> None:
    key = PrivateKey.new()
    save_public_key(key.public, tmp_path / "pub.pem")
    (tmp_path / "message").write_bytes(b"on")
    (tmp_path / "signature").write_bytes(key.sign(b"on"))

    checked = subprocess.run(
        ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "pub.pem"]  # noqa: RUF005 - command, then files
        + ["-rawin", "-in", "message", "-sigfile", "signature"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stderr
