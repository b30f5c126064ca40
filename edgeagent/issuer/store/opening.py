"""Opening the queue server's database, and the time that its rows are written with."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Final

from edgeagent.clock import EPOCH, BootId, Clock
from edgeagent.contracts.scalars import timestamp_text
from edgeagent.errors import ConfigurationError
from edgeagent.store.database import Database
from edgeagent.store.files import check_file
from edgeagent.values import dataclass

_MILLISECOND: Final = timedelta(milliseconds=1)
_KIND: Final = (
    "SELECT count(*), coalesce(sum(name = 'deliveries'), 0) FROM sqlite_schema WHERE type = 'table'"
)


@dataclass(frozen=True, slots=True)
class Instant:
    """The present, in the forms that rows hold.

    Attributes:
        wall: the time of day, by the server's own clock.
        boot_id: which boot ``boot`` counts in.
        boot: milliseconds since boot; loans are measured on it (SPEC L5).
    """

    wall: datetime
    boot_id: BootId
    boot: int

    @classmethod
    def of(cls, clock: Clock) -> "Instant":
        """The present by a clock."""
        return cls(clock.wall().best, clock.boot_id, clock.boot() // _MILLISECOND)

    @property
    def text(self) -> str:
        """``wall`` as RFC 3339."""
        return timestamp_text(self.wall)

    @property
    def milliseconds(self) -> int:
        """``wall`` in milliseconds since 1970."""
        return milliseconds_of(self.wall)


def milliseconds_of(moment: datetime) -> int:
    """An instant in milliseconds since 1970."""
    return (moment - EPOCH) // _MILLISECOND


def moment_of(milliseconds: int) -> datetime:
    """The instant that so many milliseconds since 1970 are."""
    return (EPOCH + milliseconds * _MILLISECOND).astimezone(UTC)


async def open_queue(path: Path) -> Database:
    """Open the queue's database, or make it.

    Raises:
        DamagedFileError: it is no whole database.
        ConfigurationError: it is a hub's, of a newer edgeagent, or of another program.
    """
    # Before it is opened: the migrations of a queue must not run on a hub's file.
    await asyncio.to_thread(_check_kind, path)
    return await Database.open(path, files("edgeagent.issuer.store").joinpath("migrations"))


def _check_kind(path: Path) -> None:
    check_file(path)
    if not path.exists():
        return
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        tables, queue = connection.execute(_KIND).fetchone()
    if tables and not queue:
        raise ConfigurationError(f"{path} is a database of edgeagent, but not of a queue server")
