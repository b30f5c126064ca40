"""An issuer's folder: what is locked away, what stays at hand, and what hubs read.

    offline/root-1.pem ...     encrypted; to be carried off and fetched for each change of keys
    offline/policy-1.pem       encrypted; signs policies
    online/online-1.pem        renews the timestamp without anybody's help
    repository/                the files that hubs read
    offline/artifacts-plugs-1.pem   encrypted; signs for the artifacts of a group of models
    revoked                    keys that no policy may list again, one a line
    revoked-artifacts          artifacts whose id is given to no file again, one a line

Beside each private key lies its public half, ``.pub``, which tells whose key it is without a passphrase.
No file of a key is ever overwritten or deleted.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from securesystemslib.signer import SSlibKey  # type: ignore[attr-defined]  # it has no __all__
from tuf.api.metadata import Key

from edgeagent.contracts.policy import id_of_key
from edgeagent.core.envelope import Signer
from edgeagent.errors import ConfigurationError
from edgeagent.ids import ArtifactId, KeyId
from edgeagent.issuer.keys import (
    PrivateKey,
    is_encrypted,
    load_key,
    load_public_key,
    save_key,
    save_public_key,
)
from edgeagent.issuer.repository.files import RepositoryFiles, write_whole
from edgeagent.store.files import sole_owner
from edgeagent.values import dataclass

ROOT_KEYS: Final = "root"
POLICY_KEYS: Final = "policy"
ONLINE_KEYS: Final = "online"

_REVOKED_BYTES: Final = 1024 * 1024
_ID_SIGNS: Final = 64


def tuf_key(public: bytes) -> Key:
    """A public key as root metadata lists it; its id there is the standard's, not ours."""
    key: Key = SSlibKey.from_crypto(Ed25519PublicKey.from_public_bytes(public))
    return key


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A key whose public half lies in the folder.

    Attributes:
        name: its file's, without the ending.
        public: the 32 raw bytes.
        file: its private half, which may be somewhere else.
    """

    name: str
    public: bytes
    file: Path


@dataclass(frozen=True, kw_only=True)
class IssuerFolder:
    """One issuer's folder.

    Attributes:
        path: where it is.
        passphrase: asked for at most once, when an encrypted key is needed.
        offline: where the offline keys are, if they are elsewhere; on a stick, for one.
        external: signers that are no files.
    """

    path: Path
    passphrase: Callable[[], bytes]
    offline: Path | None = None
    external: Sequence[Signer] = ()
    _loaded: dict[str, Signer] = field(default_factory=dict)

    @property
    def files(self) -> RepositoryFiles:
        """What hubs read."""
        return RepositoryFiles(self.path / "repository")

    def alone(self) -> AbstractContextManager[None]:
        """Keep a second change apart.

        Raises:
            ConfigurationError: one is under way, or the folder is none of an issuer.
        """
        if not (self.path / "repository").is_dir():
            raise ConfigurationError(f"{self.path}: no issuer's folder; make one by: edgeagent issuer init")
        return sole_owner(self.path / ".lock")

    def folder_of(self, kind: str) -> Path:
        """Where keys of a kind are."""
        if kind == ONLINE_KEYS:
            return self.path / "online"
        return self.offline or self.path / "offline"

    def known(self) -> Mapping[str, KnownKey]:
        """Every key whose public half lies here, by its id in metadata."""
        found: dict[str, KnownKey] = {}
        for folder in (self.folder_of(ROOT_KEYS), self.folder_of(ONLINE_KEYS)):
            for file in sorted(folder.glob("*.pem.pub")):
                private = file.with_suffix("")
                public = load_public_key(file)
                found[tuf_key(public).keyid] = KnownKey(private.stem, public, private)
        return found

    def signer(self, keyid: str) -> Signer | None:
        """Who signs with a key, by its id in metadata; None when it is not at hand.

        Raises:
            ConfigurationError: its file is there and cannot be used.
        """
        for signer in self.external:
            if tuf_key(signer.public).keyid == keyid:
                return signer
        if keyid not in self._loaded:
            known = self.known().get(keyid)
            if known is None or not known.file.exists():
                return None
            passphrase = self.passphrase() if is_encrypted(known.file) else None
            self._loaded[keyid] = load_key(known.file, passphrase=passphrase)
        return self._loaded[keyid]

    def new_key(self, kind: str) -> PrivateKey:
        """Make the next key of a kind, and its files.

        Raises:
            ConfigurationError: they cannot be written.
        """
        folder = self.folder_of(kind)
        number = 1
        while (file := folder / f"{kind}-{number}.pem").exists() or file.with_suffix(".pem.pub").exists():
            number += 1
        key = PrivateKey.new()
        save_pair(key, file, passphrase=None if kind == ONLINE_KEYS else self.passphrase())
        self._loaded[tuf_key(key.public).keyid] = key
        return key

    def revoked(self) -> frozenset[KeyId]:
        """Keys that no policy may list again.

        Raises:
            ConfigurationError: the list cannot be read.
        """
        return frozenset(KeyId(line[:_ID_SIGNS]) for line in self._revoked_text().splitlines() if line)

    def revoke(self, public: bytes, name: str) -> None:
        """Add a key to the list of those that no policy may list again.

        Raises:
            ConfigurationError: the list cannot be written.
        """
        key = id_of_key(public)
        if key not in self.revoked():
            write_whole(self.path / "revoked", f"{self._revoked_text()}{key} {name}\n".encode())

    def revoked_artifacts(self) -> frozenset[ArtifactId]:
        """Artifacts whose id is given to no file again.

        Raises:
            ConfigurationError: the list cannot be read.
        """
        lines = self._revoked_text("revoked-artifacts").splitlines()
        return frozenset(ArtifactId(line) for line in lines if line)

    def revoke_artifact(self, artifact: ArtifactId) -> None:
        """Add an artifact to that list.

        Raises:
            ConfigurationError: it cannot be written.
        """
        if artifact not in self.revoked_artifacts():
            text = f"{self._revoked_text('revoked-artifacts')}{artifact}\n"
            write_whole(self.path / "revoked-artifacts", text.encode())

    def _revoked_text(self, name: str = "revoked") -> str:
        try:
            with (self.path / name).open("rb") as file:
                return file.read(_REVOKED_BYTES).decode("ascii")
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as why:
            raise ConfigurationError(f"{self.path / name}: it cannot be read") from why


def save_pair(key: PrivateKey, file: Path, *, passphrase: bytes | None) -> None:
    """Write a key and, beside it, its public half. Raises as ``save_key``."""
    save_key(key, file, passphrase=passphrase)
    save_public_key(key.public, file.with_name(file.name + ".pub"))
