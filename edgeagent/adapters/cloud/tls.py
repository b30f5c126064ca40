"""Whom we believe to be the queue: certificates, read anew when they change.

A certificate is renewed while the agent runs. The files are looked at before each exchange; when one
has changed, a new context is made, and with it new connections. Verification cannot be switched off.
"""

import asyncio
import ssl
from pathlib import Path

from edgeagent.adapters.cloud.settings import CloudSettings
from edgeagent.ports.links import LinkError, Trouble

Marks = tuple[tuple[int, int, int], ...]


class Trust:
    """The TLS context of the moment."""

    def __init__(self, settings: CloudSettings) -> None:
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
        context = ssl.create_default_context(cafile=settings.ca_file)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if settings.certificate is not None:
            # An empty passphrase: without one OpenSSL would ask the terminal.
            context.load_cert_chain(settings.certificate, settings.key, password="")
        return context


def _mark(path: Path) -> tuple[int, int, int]:
    """What changes when a file is written or replaced."""
    stat = path.stat()
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
