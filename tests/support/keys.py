"""Keys that exist as long as their test."""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from edgeagent.contracts.policy import id_of_key
from edgeagent.ids import KeyId


class MemoryKey:
    """An Ed25519 key made at run time. A ``Signer``."""

    def __init__(self) -> None:
        self._private = Ed25519PrivateKey.generate()

    @property
    def public(self) -> bytes:
        """The 32 raw bytes of the public key."""
        return self._private.public_key().public_bytes_raw()

    @property
    def private(self) -> Ed25519PrivateKey:
        """The key itself, for other programs that are to sign with it."""
        return self._private

    @property
    def id(self) -> KeyId:
        """The sha256 of the public key."""
        return id_of_key(self.public)

    def sign(self, message: bytes) -> bytes:
        """The 64 bytes of a signature over ``message``."""
        return self._private.sign(message)


def keyring_of(*keys: MemoryKey) -> dict[KeyId, bytes]:
    """The public keys by their id."""
    return {key.id: key.public for key in keys}
