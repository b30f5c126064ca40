"""The TLS of the queue server: its own certificate, read anew when it changes, and those of hubs.

A hub may show a certificate; whoever has a token need not. What does not go back to the authority ends the
handshake. When a certificate is over is not judged here but where it is known who asks what (``logins.py``):
a hub that was away for long has only one that is over, and renews by it.
"""

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Final

from edgeagent.errors import ConfigurationError
from edgeagent.issuer.authority import AuthorityFolder
from edgeagent.issuer.settings import ServerSettings

log: Final = logging.getLogger(__name__)

_LOOK_EVERY: Final = 5.0
# X509_V_FLAG_NO_CHECK_TIME (openssl/x509_vfy.h); Python has no name for it.
_LEAVE_TIMES_TO_US: Final = 0x200000

Marks = tuple[tuple[int, int], ...]


class ServerTls:
    """The context of the server, and its files."""

    def __init__(self, certificate: Path, key: Path | None, clients: Path | None) -> None:
        self._files = (certificate, key)
        self._marks: Marks = ()
        self._told = ""
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._load()
        if clients is not None:
            self.context.verify_mode = ssl.CERT_OPTIONAL
            self.context.load_verify_locations(clients)
            self.context.verify_flags |= ssl.VerifyFlags(_LEAVE_TIMES_TO_US)

    async def follow(self) -> None:
        """Use a renewed certificate for connections from then on; ends only by cancellation."""
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            try:
                self.look_again()
            except ConfigurationError:
                # In the middle of its renewal; the earlier one goes on.
                continue

    def look_again(self) -> None:
        """Use a renewed certificate from the next connection on.

        Raises:
            ConfigurationError: it is unusable; the earlier one goes on.
        """
        try:
            if self._marks != self._look():
                self._load()
        except ConfigurationError as why:
            if self._told != str(why):
                self._told = str(why)
                log.warning("the earlier certificate goes on", extra={"why": self._told})
            raise
        self._told = ""

    def _load(self) -> None:
        certificate, key = self._files
        marks = self._look()
        try:
            # A context takes the certificate before it finds that the key is another's, and then has neither.
            for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self.context):
                context.load_cert_chain(certificate, key, password="")
        except OSError as why:  # an ssl.SSLError is one
            raise ConfigurationError(f"{certificate}: not usable: {why}") from why
        self._marks = marks

    def _look(self) -> Marks:
        try:
            stats = [file.stat() for file in self._files if file is not None]
        except OSError as why:
            raise ConfigurationError(f"{self._files[0]}: {why.strerror}") from why
        return tuple((stat.st_ino, stat.st_mtime_ns) for stat in stats)


def server_tls(settings: ServerSettings) -> ServerTls | None:
    """The TLS that the settings ask for; None for none.

    Raises:
        ConfigurationError: a file is missing or unusable.
    """
    certificate, key, clients = settings.certificate, settings.key, None
    if settings.authority is not None:
        folder = AuthorityFolder(settings.authority)
        folder.read_root()
        clients = folder.root
        if certificate is None:
            certificate, key = folder.server
            if not certificate.exists():
                raise ConfigurationError(
                    f"{certificate} is missing: edgeagent issuer ca server NAME --folder {settings.authority}"
                )
    return None if certificate is None else ServerTls(certificate, key, clients)
