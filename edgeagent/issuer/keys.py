"""Signing keys: Ed25519 in PEM files that only their owner can read.

A private key is PKCS #8 (RFC 5958), with or without a passphrase; a public one is SubjectPublicKeyInfo
(RFC 8410). Both are what ``openssl pkey`` reads and writes. An existing file is never overwritten.
"""

import os
import stat
from pathlib import Path
from typing import Final, Self

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from typing_extensions import override

from edgeagent.contracts.policy import id_of_key
from edgeagent.errors import ConfigurationError
from edgeagent.ids import KeyId

_KEY_BYTES: Final = 16 * 1024


class PrivateKey:
    """A key that signs; a ``core.envelope.Signer``. It never prints."""

    __slots__ = ("_key", "_public")

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self._public = key.public_key().public_bytes_raw()

    @classmethod
    def new(cls) -> Self:
        """Make a key from the system's chance."""
        return cls(Ed25519PrivateKey.generate())

    @override
    def __repr__(self) -> str:
        return f"PrivateKey({self.id[:16]}...)"

    @property
    def id(self) -> KeyId:
        """The key's id."""
        return id_of_key(self._public)

    @property
    def public(self) -> bytes:
        """The 32 raw bytes of the public key."""
        return self._public

    def sign(self, message: bytes) -> bytes:
        """The 64 bytes of a signature over ``message`` (RFC 8032, pure Ed25519)."""
        return self._key.sign(message)

    def pem(self, passphrase: bytes | None = None) -> bytes:
        """The key as PKCS #8 PEM, encrypted where a passphrase is given."""
        how: KeySerializationEncryption = (
            NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase)
        )
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)


def save_key(key: PrivateKey, path: Path, *, passphrase: bytes | None = None) -> None:
    """Write a private key to a new file of mode 0600, synced to the disk.

    Raises:
        ConfigurationError: the file exists, or cannot be written.
    """
    _write_new(path, key.pem(passphrase), mode=0o600)


def is_encrypted(path: Path) -> bool:
    """Whether a private key asks for a passphrase; a file that cannot be read does not."""
    try:
        with path.open("rb") as file:
            return b"-----BEGIN ENCRYPTED PRIVATE KEY-----" in file.read(_KEY_BYTES)
    except OSError:
        return False


def load_key(path: Path, *, passphrase: bytes | None = None) -> PrivateKey:
    """Read a private key.

    Raises:
        ConfigurationError: no such file, others can read it, the passphrase is wrong or missing, or it
            is no Ed25519 key. The message shows nothing of the file.
    """
    try:
        with path.open("rb") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise ConfigurationError(f"{path}: others can read this key; chmod 600 it")
            pem = file.read(_KEY_BYTES)
    except OSError as why:
        raise ConfigurationError(f"{path}: {why.strerror}") from why
    try:
        key = load_pem_private_key(pem, passphrase)
    except TypeError as why:
        wanted = "is encrypted: a passphrase is needed" if passphrase is None else "has no passphrase"
        raise ConfigurationError(f"{path}: the key {wanted}") from why
    except (ValueError, UnsupportedAlgorithm) as why:
        # Without the cause: the library's message may repeat the file.
        wrong = "no private key in PEM" if passphrase is None else "no private key, or another passphrase"
        raise ConfigurationError(f"{path}: {wrong}") from why
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigurationError(f"{path}: not an Ed25519 key")
    return PrivateKey(key)


def save_public_key(public: bytes, path: Path) -> None:
    """Write a public key (32 raw bytes) to a new PEM file.

    Raises:
        ConfigurationError: the file exists, or cannot be written.
    """
    key = Ed25519PublicKey.from_public_bytes(public)
    _write_new(path, key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo), mode=0o644)


def load_public_key(path: Path) -> bytes:
    """Read the 32 raw bytes of a public key.

    Raises:
        ConfigurationError: no such file, or no Ed25519 public key in PEM.
    """
    try:
        with path.open("rb") as file:
            key = load_pem_public_key(file.read(_KEY_BYTES))
    except OSError as why:
        raise ConfigurationError(f"{path}: {why.strerror}") from why
    except (ValueError, UnsupportedAlgorithm) as why:
        raise ConfigurationError(f"{path}: no public key in PEM") from why
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigurationError(f"{path}: not an Ed25519 key")
    return key.public_bytes_raw()


def _write_new(path: Path, content: bytes, *, mode: int) -> None:
    try:
        # The mode counts from the first byte on: chmod afterwards would come too late.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    except FileExistsError as why:
        raise ConfigurationError(f"{path} exists; it is left as it is") from why
    except OSError as why:
        raise ConfigurationError(f"{path}: {why.strerror}") from why
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
