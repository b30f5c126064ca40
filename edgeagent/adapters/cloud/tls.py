"""Whom we believe to be the queue: certificates, read anew when they change.

A certificate is renewed while the agent runs. The files are looked at before each exchange; when one
has changed, a new context is made, and with it new connections. Verification cannot be switched off.

A hub whose own certificate is of a later key of the authority believes none of the keys before that.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path

from typing_extensions import override

from edgeagent.adapters.cloud.settings import CloudSettings
from edgeagent.clock import EPOCH
from edgeagent.ports.authorities import believing
from edgeagent.ports.links import LinkError, Trouble

Marks = tuple[tuple[int, int, int], ...]


class Trust:
    """The TLS context of the moment.

    Attributes:
        shown_until: when the certificate ends that was shown and believed last; None where none was.
    """

    def __init__(self, settings: CloudSettings) -> None:
        self.shown_until: datetime | None = None
        self._settings = settings
        self._lock = asyncio.Lock()
        self._marks: Marks = ()
        self._context: ssl.SSLContext | None = None

    async def context(self) -> ssl.SSLContext:
        """The context made of the files as they are now.

        Raises:
            LinkError: a file is missing or unusable; it may be in the middle of its renewal.
        """
        # One at a time: two contexts of the same files would not share connections.
        async with self._lock:
            try:
                marks = tuple(_mark(path) for path in self._files())
                if self._context is None or marks != self._marks:
                    self._context = await asyncio.to_thread(self._load)
                    self._marks = marks
            except (OSError, ValueError) as why:  # an ssl.SSLError is an OSError
                raise LinkError(Trouble.TLS, f"the certificate files are not usable: {why}") from why
            return self._context

    def _files(self) -> list[Path]:
        settings = self._settings
        system = ssl.get_default_verify_paths().cafile
        authorities = settings.ca_file or (Path(system) if system else None)
        return [path for path in (authorities, settings.certificate, settings.key) if path is not None]

    def _load(self) -> ssl.SSLContext:
        settings = self._settings
        context = believing(file=settings.ca_file)
        retired = frozenset[bytes]() if settings.certificate is None else _retired(settings.certificate)
        context.sslobject_class = _noting(self._note, retired)
        if settings.certificate is not None:
            # An empty passphrase: without one OpenSSL would ask the terminal.
            context.load_cert_chain(settings.certificate, settings.key, password="")
        return context

    def _note(self, certificate: Mapping[str, object]) -> None:
        until = certificate.get("notAfter")
        if isinstance(until, str):
            self.shown_until = EPOCH + timedelta(seconds=ssl.cert_time_to_seconds(until))


def _noting(note: Callable[[Mapping[str, object]], None], retired: frozenset[bytes]) -> type[ssl.SSLObject]:
    """Connections that tell of the certificate that they were shown, once it is believed.

    Args:
        note: told of it.
        retired: keys of the authority that are believed no more.
    """

    class Noting(ssl.SSLObject):
        @override
        def do_handshake(self) -> None:
            super().do_handshake()
            if retired and _signer(self.getpeercert(binary_form=True)) in retired:
                raise ssl.SSLError(ssl.SSL_ERROR_SSL, "its certificate is of a key that was replaced")
            note(self.getpeercert() or {})

    return Noting


def _retired(certificate: Path) -> frozenset[bytes]:
    """The keys whose place the one has taken that our own certificate is of; none where it does not say."""
    # With what reads certificates, which a hub without one has no need of.
    from edgeagent.core.certificates import UnprovenCertificateError, read_chain, retired_by

    try:
        between = read_chain(certificate.read_bytes())[1:]
        return frozenset(key for each in between for key in retired_by(each))
    except UnprovenCertificateError:
        # Whether it can be shown at all is OpenSSL's to say.
        return frozenset()


def _signer(der: bytes | None) -> bytes | None:
    """The identifier of the key that has signed a certificate; None where it does not say."""
    from cryptography import x509

    from edgeagent.core.certificates import signer_id

    return None if der is None else signer_id(x509.load_der_x509_certificate(der))


def _mark(path: Path) -> tuple[int, int, int]:
    """What changes when a file is written or replaced."""
    stat = path.stat()
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
