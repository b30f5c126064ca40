"""The hub's own key: made at the first start, kept in a file that only the agent may read.

It signs commands typed at this hub. What it may do is the policy's word (role ``local_operator``, SPEC V6).
"""

import os
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from edgeagent.errors import ConfigurationError
from edgeagent.store.whole_file import write_whole

_SEED_BYTES: Final = 32


class HubKey:
    """An Ed25519 key; a ``Signer``. It never prints."""

    __slots__ = ("_private", "public")

    def __init__(self, seed: bytes) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(seed)
        self.public = self._private.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """Sign (RFC 8032)."""
        return self._private.sign(message)


def hub_key(path: Path) -> HubKey:
    """Load the hub's key, or make it.

    Raises:
        ConfigurationError: the file is not a key, others may read it, or it can be neither read nor made.
    """
    try:
        seed = path.read_bytes()
        mode = path.stat().st_mode
    except FileNotFoundError:
        return HubKey(_make(path))
    except OSError as why:
        raise ConfigurationError(f"cannot read the hub's key {path}: {why.strerror}") from why
    if mode & 0o077:
        raise ConfigurationError(f"others may read the hub's key: chmod 600 {path}")
    if len(seed) != _SEED_BYTES or not any(seed):
        raise ConfigurationError(
            f"the hub's key {path} is damaged: move it away, and a new one is made at the next start"
        )
    return HubKey(seed)


def public_half(path: Path) -> bytes:
    """The public half of the hub's key, for whoever looks while the agent is down; nothing is made.

    Raises:
        ConfigurationError: there is none that can be read.
    """
    if not path.exists():
        raise ConfigurationError(f"there is no hub's key {path}")
    return hub_key(path).public


def _make(path: Path) -> bytes:
    """Write a new key so that a power cut leaves it whole or absent."""
    seed = os.urandom(_SEED_BYTES)
    try:
        write_whole(path, seed, mode=0o600)
    except OSError as why:
        raise ConfigurationError(f"cannot make the hub's key {path}: {why.strerror}") from why
    return seed
