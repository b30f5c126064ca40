"""What keeps the store from writing: named by what people do about it (SPEC R2)."""

import sqlite3
from enum import StrEnum
from typing import Final

from edgeagent.store.files import DamagedFileError
from edgeagent.values import dataclass


class Fault(StrEnum):
    """What is wrong with the disk or file."""

    FULL = "full"
    """No space is left, or a quota is reached."""
    READ_ONLY = "read_only"
    """The file system or file takes no writes: the kernel does that itself after an error."""
    FAILED_SYNC = "failed_sync"
    """The kernel could not bring to the disk what it had taken."""
    IO = "io"
    """Reading or writing fails."""
    DAMAGED = "damaged"
    """The pages of the file do not hang together."""
    BUSY = "busy"
    """Another program holds the file."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Writes fail.

    Attributes:
        fault: what the last one that failed told.
        why: the same in words.
        failures: how many commits have failed since the last good one.
    """

    fault: Fault
    why: str
    failures: int


_SYNCS: Final = frozenset({sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC})
_PRIMARY: Final = {
    sqlite3.SQLITE_FULL: Fault.FULL,
    sqlite3.SQLITE_READONLY: Fault.READ_ONLY,
    sqlite3.SQLITE_CORRUPT: Fault.DAMAGED,
    sqlite3.SQLITE_NOTADB: Fault.DAMAGED,
    sqlite3.SQLITE_BUSY: Fault.BUSY,
    sqlite3.SQLITE_LOCKED: Fault.BUSY,
}
# After any other the connection goes on: SQLite has rolled back, and what the disk holds is known.
_POISON: Final = frozenset(
    {
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        # A connection that was opened while the file system was read-only stays so for ever.
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
    }
)


def fault_of(why: Exception) -> Fault:
    """What an error says of the disk; what it does not say is an I/O error."""
    if isinstance(why, DamagedFileError):
        return Fault.DAMAGED
    code = getattr(why, "sqlite_errorcode", None)
    if code is None:
        return Fault.IO
    return Fault.FAILED_SYNC if code in _SYNCS else _PRIMARY.get(code & 0xFF, Fault.IO)


def is_poison(why: sqlite3.Error) -> bool:
    """Whether an error leaves unknown what the connection is good for: it is opened anew then."""
    code = getattr(why, "sqlite_errorcode", None)
    return code is not None and (code & 0xFF) in _POISON
