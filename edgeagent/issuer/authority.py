"""The small authority of the reference cloud: certificates for hubs and for the queue itself.

    root.pem  root.key         the root, its key encrypted: to be locked away, needed every few years
    issuing.pem  issuing.key   what signs hubs and servers; mode 0600, lies where the queue runs
    server.pem  server.key     the queue's own, with what lies between it and the root
    next.key                   while another issuing key takes the place of the present one

No key is ever overwritten, but the issuing one by the one that ``rotate`` has made. Whoever has
``issuing.key`` can pass for the queue and can still make no hub act: commands and policies are signed by
other keys (docs/security.md).
"""

import os
import stat
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from edgeagent.core.certificates import (
    MOST_RETIRED,
    RETIRED,
    UnprovenCertificateError,
    key_id,
    pem_of,
    public_key_of,
    read_chain,
    retired_by,
    retired_value,
)
from edgeagent.errors import ConfigurationError
from edgeagent.issuer.certifying import BACKDATED, SHORTEST, Authority, names_of, of_authority
from edgeagent.issuer.repository.files import write_whole
from edgeagent.values import dataclass

ROOT_LIFETIME: Final = timedelta(days=20 * 365)
ISSUING_LIFETIME: Final = timedelta(days=10 * 365)

_KEY_BYTES: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class AuthorityFolder:
    """Where an authority's files lie."""

    path: Path

    @property
    def root(self) -> Path:
        """What whoever believes the authority trusts."""
        return self.path / "root.pem"

    @property
    def server(self) -> tuple[Path, Path]:
        """The queue's own chain, and its key."""
        return self.path / "server.pem", self.path / "server.key"

    def found(self, name: str, now: datetime, *, passphrase: bytes) -> Authority:
        """Make the authority.

        Args:
            name: for people; stands in its certificates.
            now: the present.
            passphrase: of the root's key.

        Raises:
            ConfigurationError: there is one already, or it cannot be written.
        """
        for file in (self.root, self.path / "root.key", self.path / "issuing.key"):
            if file.exists():
                raise ConfigurationError(f"{file} exists; an authority is made once, and left as it is")
        root_key, key = _new_key(), _new_key()
        root = of_authority(f"{name} root", None, root_key.public_key(), now, ROOT_LIFETIME).sign(
            root_key, hashes.SHA256()
        )
        issuing = of_authority(f"{name} issuing", root, key.public_key(), now, ISSUING_LIFETIME).sign(
            root_key, hashes.SHA256()
        )
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as why:
            raise ConfigurationError(f"{self.path}: {why.strerror}") from why
        _save_key(self.path / "root.key", root_key, passphrase)
        _save_key(self.path / "issuing.key", key, None)
        write_whole(self.path / "issuing.pem", pem_of([issuing]))
        # The last one: with it the authority is whole.
        write_whole(self.root, pem_of([root]))
        return Authority(root, issuing, key)

    def load(self) -> Authority:
        """Read what signs.

        Raises:
            ConfigurationError: a file is missing, is none, or others may read the key.
        """
        root, issuing = self.read_root(), _certificate_in(self.path / "issuing.pem")
        key = load_tls_key(self.path / "issuing.key")
        if not _is_of(issuing, key) and self._next.exists():
            # A rotation was cut off before its last step.
            key = load_tls_key(self._next)
        if not _is_of(issuing, key):
            raise ConfigurationError(f"{self.path}: issuing.pem and issuing.key do not belong together")
        return Authority(root, issuing, key)

    @property
    def marks(self) -> tuple[tuple[int, int], ...]:
        """What changes with what signs. Raises ConfigurationError: a file is missing."""
        try:
            stats = [(self.path / name).stat() for name in ("issuing.pem", "issuing.key")]
        except OSError as why:
            raise ConfigurationError(f"{self.path}: {why.strerror}") from why
        return tuple((stat.st_ino, stat.st_mtime_ns) for stat in stats)

    @property
    def _next(self) -> Path:
        return self.path / "next.key"

    def rotate(self, now: datetime, *, passphrase: bytes) -> Authority:
        """Put another issuing key in the place of the present one, and certify the queue's key by it.

        The root stays, and with it whatever hubs and claim codes trust. Cut off anywhere, what there is goes
        on, and the same again makes it whole.

        Raises:
            ConfigurationError: the root's key cannot be read, or the disk does not take it.
        """
        present = self.load()
        root_key = load_tls_key(self.path / "root.key", passphrase=passphrase)
        if not _is_of(present.root, root_key):
            raise ConfigurationError(f"{self.path}: root.pem and root.key do not belong together")
        self._finish(present.issuing)
        key = _new_key()
        retired = (key_id(present.issuing), *retired_by(present.issuing))[:MOST_RETIRED]
        name = present.issuing.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
        issuing = (
            of_authority(str(name), present.root, key.public_key(), now, ISSUING_LIFETIME)
            .add_extension(x509.UnrecognizedExtension(RETIRED, retired_value(retired)), critical=False)
            .sign(root_key, hashes.SHA256())
        )
        made = Authority(present.root, issuing, key)
        # Whoever has a certificate of the new key believes the old one no more: the queue has its own first.
        self._certify_server_anew(made, now)
        _save_key(self._next, key, None)
        write_whole(self.path / "issuing.pem", pem_of([issuing]))
        self._finish(issuing)
        return made

    def _certify_server_anew(self, by: Authority, now: datetime) -> None:
        chain_file, key_file = self.server
        if not chain_file.exists():
            return
        present = _certificate_in(chain_file, of=2)
        names = names_of(present)
        lifetime = present.not_valid_after_utc - present.not_valid_before_utc - BACKDATED
        public = load_tls_key(key_file).public_key()
        write_whole(chain_file, pem_of(by.certify_server(names, public, now, max(lifetime, SHORTEST))))

    def _finish(self, issuing: x509.Certificate) -> None:
        """Make the next key the issuing one, if its certificate is in place; the earlier key is gone then."""
        if self._next.exists() and _is_of(issuing, load_tls_key(self._next)):
            self._next.replace(self.path / "issuing.key")

    def read_root(self) -> x509.Certificate:
        """The root certificate. Raises ConfigurationError: it cannot be read."""
        return _certificate_in(self.root)

    def certificates(self) -> dict[str, x509.Certificate]:
        """All certificates, by name. Raises ConfigurationError: one cannot be read."""
        found = {"root": self.read_root(), "issuing": _certificate_in(self.path / "issuing.pem")}
        chain, _ = self.server
        return found | ({"server": _certificate_in(chain, of=2)} if chain.exists() else {})

    def certify_server(self, names: Sequence[str], now: datetime, lifetime: timedelta) -> x509.Certificate:
        """Make the queue's certificate and key, or renew the certificate for the key that there is.

        Raises:
            ConfigurationError: a file cannot be read or written.
        """
        authority = self.load()
        chain_file, key_file = self.server
        if not key_file.exists():
            _save_key(key_file, _new_key(), None)
        public = load_tls_key(key_file).public_key()
        chain = authority.certify_server(names, public, now, lifetime)
        write_whole(chain_file, pem_of(chain))
        return chain[0]


def load_tls_key(path: Path, *, passphrase: bytes | None = None) -> ec.EllipticCurvePrivateKey:
    """Read a private key on P-256.

    Args:
        path: its file.
        passphrase: of one that is encrypted; None for one that is not.

    Raises:
        ConfigurationError: there is none, it has another passphrase, or others may read it.
    """
    try:
        with path.open("rb") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise ConfigurationError(f"{path}: others can read this key; chmod 600 it")
            pem = file.read(_KEY_BYTES)
        key = load_pem_private_key(pem, passphrase)
    except OSError as why:
        raise ConfigurationError(f"{path}: {why.strerror}") from why
    except (ValueError, TypeError, UnsupportedAlgorithm) as why:
        wanted = "without a passphrase" if passphrase is None else "with this passphrase"
        raise ConfigurationError(f"{path}: no private key in PEM {wanted}") from why
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ConfigurationError(f"{path}: not a key on P-256")
    return key


def _is_of(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> bool:
    return public_key_of(certificate).public_numbers() == key.public_key().public_numbers()


def _certificate_in(path: Path, *, of: int = 1) -> x509.Certificate:
    """The first certificate of a file that holds so many."""
    try:
        with path.open("rb") as file:
            chain = read_chain(file.read(_KEY_BYTES))
    except OSError as why:
        raise ConfigurationError(f"{path}: {why.strerror}") from why
    except UnprovenCertificateError as why:
        raise ConfigurationError(f"{path}: {why}") from why
    if len(chain) != of:
        raise ConfigurationError(f"{path}: {len(chain)} certificates in PEM, not {of}")
    return chain[0]


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _save_key(path: Path, key: ec.EllipticCurvePrivateKey, passphrase: bytes | None) -> None:
    encryption = NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase)
    write_whole(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption), mode=0o600)
