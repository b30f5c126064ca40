"""Telling systemd how we are (sd_notify(3)): ready, status for people, alive.

Does nothing where no service manager asked (``$NOTIFY_SOCKET``).
"""

import os
import socket
from datetime import timedelta
from typing import Final

_MICROSECOND: Final = timedelta(microseconds=1)
_DIGITS: Final = 18


class ServiceManager:
    """The other end of ``$NOTIFY_SOCKET``."""

    def __init__(self, address: str | None, watchdog: timedelta | None) -> None:
        self._address = address
        self.watchdog = watchdog

    @classmethod
    def from_environment(cls) -> "ServiceManager":
        """The one that started this process, if any."""
        usec = os.environ.get("WATCHDOG_USEC", "")
        mine = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        # sd_watchdog_enabled(3) takes a time that is neither 0 nor beyond 64 bits.
        told = int(usec) if usec.isascii() and usec.isdigit() and len(usec) <= _DIGITS else 0
        return cls(os.environ.get("NOTIFY_SOCKET"), told * _MICROSECOND if told and mine else None)

    def ready(self) -> None:
        """The service works."""
        self._send("READY=1")

    def stopping(self) -> None:
        """The service ends in order."""
        self._send("STOPPING=1")

    def status(self, line: str) -> None:
        """A line for ``systemctl status``."""
        self._send(f"STATUS={line.splitlines()[0] if line else ''}")

    def alive(self) -> None:
        """Feed the watchdog; only from work that moves (SPEC R6)."""
        self._send("WATCHDOG=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        # A leading @ stands for the NUL of an abstract socket.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            try:
                channel.connect(address)
                channel.sendall(message.encode())
            except OSError:
                # A service manager that does not listen is no reason to stop.
                return
