"""A service manager's end of ``$NOTIFY_SOCKET``: what it was told, word by word."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from edgeagent.adapters.systemd import ServiceManager

_LONGEST = 2048


class Notified:
    """What a service manager has heard."""

    def __init__(self, channel: socket.socket, manager: ServiceManager) -> None:
        self._channel = channel
        self.manager = manager

    def heard(self) -> list[str]:
        """Everything since the last call."""
        words = []
        while True:
            try:
                words.append(self._channel.recv(_LONGEST, socket.MSG_DONTWAIT).decode())
            except BlockingIOError:
                return words


@contextmanager
def notified(folder: Path, watchdog: timedelta | None = timedelta(milliseconds=30)) -> Iterator[Notified]:
    """A service manager that listens in a folder, and wants to hear so often that we live."""
    path = folder / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(path))
        yield Notified(channel, ServiceManager(str(path), watchdog))
