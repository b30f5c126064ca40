"""The hub's identity: a key that never leaves it, and certificates for it, in two slots.

    a.pem  b.pem     a key, its certificate, and what lies between it and the root; mode 0600
    current.pem      a link to the one that is shown
    next.key         a key that is to be certified; it outlives a lost answer and a power cut
    authority.pem    the root that the queue's certificate goes back to
    claim            the sha256 of the secret of the claim code that was used last, and the number of the
                     certificate that was given for it

Whatever is written is written beside its place, synced and renamed. A new certificate goes into the slot that
is not shown; only when the queue has taken it is the link moved, in one step. So at every moment one slot is
whole and known to work, and a death in between is made good by doing the same again.
"""

import os
import stat
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from edgeagent.core.certificates import (
    CHAIN_BYTES,
    UnprovenCertificateError,
    hub_of,
    key_digest,
    pem_of,
    public_key_of,
    read_chain,
    urn_of,
)
from edgeagent.errors import ConfigurationError, StorageError
from edgeagent.ids import HubId
from edgeagent.store.files import sync_folder
from edgeagent.store.identity_folder import IdentityFolder
from edgeagent.store.whole_file import write_whole
from edgeagent.values import dataclass

_SLOTS: Final = ("a.pem", "b.pem")
_OTHERS: Final = 0o077


class UnusableSlotError(ConfigurationError):
    """A slot holds no key with its certificate, or others may read it."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What one slot holds.

    Attributes:
        file: the slot.
        certificate: the hub's.
        hub: whom it names.
    """

    file: Path
    certificate: x509.Certificate
    hub: HubId


class IdentitySlots(IdentityFolder):
    """The folder of the hub's identity.

    Args:
        folder: made where it is missing, by whoever writes.
    """

    def load(self) -> Identity:
        """What is shown.

        Raises:
            UnusableSlotError: nothing, or not what it has to be.
        """
        try:
            name = self.current.readlink().name
        except OSError as why:
            raise UnusableSlotError(f"{self.current}: this hub is not enrolled") from why
        return self.read(self.folder / name)

    def other(self) -> Path:
        """The slot that is not shown."""
        try:
            shown = self.current.readlink().name
        except OSError:
            shown = _SLOTS[1]
        return self.folder / (_SLOTS[1] if shown == _SLOTS[0] else _SLOTS[0])

    def read(self, slot: Path) -> Identity:
        """What a slot holds.

        Raises:
            UnusableSlotError: nothing, or not what it has to be; says what.
        """
        try:
            with slot.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                pem = file.read(2 * CHAIN_BYTES)
            if stat.S_IMODE(mode) & _OTHERS:
                raise UnusableSlotError(f"others may use the hub's identity: chmod 600 {slot}")
            chain = read_chain(pem)
            key = _key_of(pem)
            if key_digest(public_key_of(chain[0])) != key_digest(key.public_key()):
                raise UnusableSlotError(f"{slot}: its key and its certificate do not belong together")
            return Identity(slot, chain[0], hub_of(chain[0]))
        except OSError as why:
            raise UnusableSlotError(f"cannot read the hub's identity {slot}: {why.strerror}") from why
        except (UnprovenCertificateError, ValueError, TypeError) as why:
            raise UnusableSlotError(f"the hub's identity {slot} is damaged: {why}") from why

    def request(self, hub: HubId) -> x509.CertificateSigningRequest:
        """A request for a certificate for the next key, which is made where there is none.

        Raises:
            StorageError: the disk does not take it.
        """
        names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(urn_of(hub))])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hub)])
        builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
        return builder.add_extension(names, critical=False).sign(self._next_key(), hashes.SHA256())

    def put(self, chain: tuple[x509.Certificate, ...]) -> Identity:
        """Put the next key with its certificate into the slot that is not shown.

        Raises:
            UnprovenCertificateError: the certificate is for another key.
            StorageError: the disk does not take it.
        """
        key, slot = self._next_key(), self.other()
        if key_digest(public_key_of(chain[0])) != key_digest(key.public_key()):
            raise UnprovenCertificateError("the certificate that came is for another key")
        self.write(slot, _pem(key) + pem_of(chain), mode=0o600)
        return Identity(slot, chain[0], hub_of(chain[0]))

    def show(self, slot: Path) -> None:
        """Show this slot from now on, and forget the key that is in it as one to come.

        Raises:
            StorageError: the disk does not take it; what was shown before still is.
        """
        beside = self.folder / ".current.new"
        try:
            beside.unlink(missing_ok=True)
            beside.symlink_to(slot.name)
            beside.replace(self.current)
            sync_folder(self.folder)
            (self.folder / "next.key").unlink(missing_ok=True)
        except OSError as why:
            raise StorageError(f"cannot write {self.current}: {why.strerror}") from why

    def drop(self, slot: Path) -> None:
        """Forget a slot that the queue does not take, and the key in it; never the one that is shown.

        A set-up may have put another certificate there meanwhile.
        """
        if slot != self.other():
            return
        try:
            slot.unlink(missing_ok=True)
            (self.folder / "next.key").unlink(missing_ok=True)
        except OSError as why:
            raise StorageError(f"cannot remove {slot}: {why.strerror}") from why

    def write(self, path: Path, content: bytes, *, mode: int) -> None:
        """Write a file of the folder so that a power cut leaves it whole or as it was.

        Raises:
            StorageError: the disk does not take it.
        """
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            write_whole(path, content, mode=mode)
        except OSError as why:
            raise StorageError(f"cannot write {path}: {why.strerror}") from why

    def waiting(self) -> Identity | None:
        """A certificate for the next key, which a death has kept from being tried or shown; None for none."""
        key = self._stored_key()
        try:
            other = self.read(self.other())
        except UnusableSlotError:
            return None
        if key is None or key_digest(public_key_of(other.certificate)) != key_digest(key.public_key()):
            return None
        return other

    def _next_key(self) -> ec.EllipticCurvePrivateKey:
        key = self._stored_key()
        if key is None:
            key = ec.generate_private_key(ec.SECP256R1())
            self.write(self.folder / "next.key", _pem(key), mode=0o600)
        return key

    def _stored_key(self) -> ec.EllipticCurvePrivateKey | None:
        """The next key; None where there is none, or none that is of use."""
        try:
            key = _key_of((self.folder / "next.key").read_bytes())
        except (OSError, ValueError, TypeError):
            # None yet, or one that a power cut has damaged: nobody has certified it.
            return None
        try:
            shown = key_digest(public_key_of(self.load().certificate))
        except UnusableSlotError:
            return key
        # A power cut may bring a file back whose removal was not synced.
        return None if shown == key_digest(key.public_key()) else key


def _key_of(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError("a key that is not on P-256")
    return key


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
