"""What may be set about the listener for devices."""

from datetime import timedelta
from typing import Final

from edgeagent.values import dataclass

PIECE: Final = 128 * 1024
"""Bytes that are read and sent at once, and that the kernel may keep unsent of each connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LanFilesSettings:
    """Where it listens, and how patient it is.

    Attributes:
        host: the address that it listens on.
        port: its port; 0 for any that is free.
        public: the name or address of the hub in URLs, an IPv6 address in brackets.
        first_word: within what time a request has to be there whole.
        patience: within what time a piece has to be taken: 128 KiB a minute are 2 KiB/s, also for one who
            pauses to write its flash.
    """

    host: str
    port: int
    public: str
    first_word: timedelta = timedelta(seconds=5)
    patience: timedelta = timedelta(minutes=1)
