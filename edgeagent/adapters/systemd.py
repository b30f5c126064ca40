"""Telling systemd how we are (sd_notify(3)): ready, status for people, alive, and that a start takes longer.

Does nothing where no service manager asked (``$NOTIFY_SOCKET``).
"""

import os
import socket
import time
from datetime import timedelta
from typing import Final

_MICROSECOND: Final = timedelta(microseconds=1)
_DIGITS: Final = 18
_STATUS_SIGNS: Final = 400
_PATIENCE: Final = 1.0


class ServiceManager:
    """The other end of ``$NOTIFY_SOCKET``.

    Attributes:
        watchdog: how often it wants to hear that we live; None where it does not.
    """

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

    @property
    def listens(self) -> bool:
        """Whether there is one."""
        return bool(self._address)

    def ready(self) -> None:
        """The service works."""
        self._send("READY=1")

    def reloading(self) -> None:
        """The service reads its configuration again, until it is ready (sd_notify(3))."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """The service ends in order."""
        self._send("STOPPING=1")

    def status(self, line: str) -> None:
        """A line for ``systemctl status``; what would be no line there is cut off or stands as ``?``."""
        first = line.splitlines()[0][:_STATUS_SIGNS] if line else ""
        self._send(f"STATUS={''.join(sign if sign.isprintable() else '?' for sign in first)}")

    def alive(self) -> None:
        """Feed the watchdog; only from work that moves (SPEC R6)."""
        self._send("WATCHDOG=1")

    def extend(self, more: timedelta) -> None:
        """The start takes longer: it is to be given up only when ``more`` is over, unless told again."""
        self._send(f"EXTEND_TIMEOUT_USEC={more // _MICROSECOND}")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        # A leading @ stands for the NUL of an abstract socket.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            # A full queue must not hold up the loop for long.
            channel.settimeout(_PATIENCE)
            try:
                channel.connect(address)
                channel.sendall(message.encode())
            except OSError:
                # A service manager that does not listen is no reason to stop.
                return
