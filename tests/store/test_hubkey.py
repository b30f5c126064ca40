"""The hub's own key: made once, kept for itself, never replaced by itself."""

import os
import stat
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from edgeagent.errors import ConfigurationError
from edgeagent.store.hubkey import HubKey, hub_key

pytestmark = pytest.mark.requirement("V6", "W3")


def verifies(key: HubKey, signature: bytes, message: bytes) -> bool:
    """Whether a signature is good (RFC 8032)."""
    try:
        Ed25519PublicKey.from_public_bytes(key.public).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def test_a_key_is_made_at_the_first_start_and_loaded_at_every_other(tmp_path: Path) -> None:
    path = tmp_path / "hub.key"

    first, second = hub_key(path), hub_key(path)

    assert first.public == second.public
    assert verifies(second, first.sign(b"hello"), b"hello")
    assert not verifies(second, first.sign(b"hello"), b"hallo")
    assert len(path.read_bytes()) == 32


def test_two_hubs_have_two_keys(tmp_path: Path) -> None:
    assert hub_key(tmp_path / "a.key").public != hub_key(tmp_path / "b.key").public


def test_only_the_agent_may_read_it_whatever_its_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        hub_key(tmp_path / "hub.key")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "hub.key").stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["hub.key"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_one_that_others_may_read_is_not_used(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "hub.key"
    hub_key(path)
    path.chmod(mode)
    before = path.read_bytes()

    with pytest.raises(ConfigurationError, match="chmod 600"):
        hub_key(path)

    assert path.read_bytes() == before


@pytest.mark.requirement("R3")
@pytest.mark.parametrize(
    "damaged",
    [b"", b"\x00" * 32, b"x" * 31, b"x" * 33, b"x" * 4096],
    ids=["empty", "zeros", "cut", "long", "page"],
)
def test_a_damaged_one_is_neither_used_nor_replaced(tmp_path: Path, damaged: bytes) -> None:
    """A power cut may leave zeros; a key that is made anew in silence would lock people out."""
    path = tmp_path / "hub.key"
    path.write_bytes(damaged)
    path.chmod(0o600)

    with pytest.raises(ConfigurationError, match="damaged"):
        hub_key(path)

    assert path.read_bytes() == damaged


@pytest.mark.requirement("R5")
def test_what_a_cut_has_left_of_a_new_one_is_written_over(tmp_path: Path) -> None:
    half = tmp_path / ".hub.key.new"
    half.write_bytes(b"half")
    half.chmod(0o644)

    hub_key(tmp_path / "hub.key")

    assert stat.S_IMODE((tmp_path / "hub.key").stat().st_mode) == 0o600
    assert len(hub_key(tmp_path / "hub.key").public) == 32
    assert not half.exists()


@pytest.mark.parametrize("place", ["folder/hub.key", "hub.key/"], ids=["no folder", "a folder in its place"])
def test_one_that_cannot_be_made_or_read_is_the_operators_to_mend(tmp_path: Path, place: str) -> None:
    if place.endswith("/"):
        (tmp_path / place).mkdir()

    with pytest.raises(ConfigurationError, match="the hub's key"):
        hub_key(tmp_path / place)


@pytest.mark.requirement("A2")
def test_it_never_prints(tmp_path: Path) -> None:
    key = hub_key(tmp_path / "hub.key")
    seed = (tmp_path / "hub.key").read_bytes()

    shown = f"{key} {key!r}"

    assert seed.hex() not in shown
    assert repr(seed) not in shown
