"""The key pairs of RFC 8032 section 7.1: whatever is signed with them has the same bytes anywhere.

Everybody has these private keys. They sign test vectors and the example in ``docs/protocol.md``.
"""

from dataclasses import dataclass, field
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from edgeagent.contracts.policy import id_of_key
from edgeagent.ids import KeyId


@dataclass(frozen=True, slots=True)
class PublishedKey:
    """A ``Signer`` with a key that is no secret.

    Attributes:
        seed: the private key of the RFC, in hexadecimal.
        public: the 32 raw bytes of its public key.
    """

    seed: str
    public: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "public", self._private.public_key().public_bytes_raw())

    @property
    def id(self) -> KeyId:
        """The sha256 of the public key."""
        return id_of_key(self.public)

    def sign(self, message: bytes) -> bytes:
        """The 64 bytes of a signature over ``message``."""
        return self._private.sign(message)

    @property
    def _private(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(self.seed))


TEST_1: Final = PublishedKey("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
TEST_2: Final = PublishedKey("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
TEST_3: Final = PublishedKey("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7")
TEST_1024: Final = PublishedKey("f5e5767cf153319517630f226876b86c8160cc583bc013744c6bf255f5cc0ee5")
TEST_SHA_ABC: Final = PublishedKey("833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42")
