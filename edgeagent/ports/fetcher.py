"""Who goes and fetches: a process of its own, that the agent does not trust."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from pathlib import Path
from typing import Protocol

from edgeagent.contracts.fetching import (
    AUTHORITIES,
    AUTHORITIES_BYTES,
    Enclosure,
    FetchLine,
    FetchTrouble,
    FileErrand,
    PolicyErrand,
)
from edgeagent.ports.artifacts import FetchError
from edgeagent.values import dataclass

Lines = AsyncIterator[tuple[FetchLine, bytes]]
"""What the process says, each line with the piece of a file that came with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """An errand with what goes along.

    Attributes:
        errand: what is to be fetched.
        files: those that ``errand.enclosed`` names, in that order.
        handle: an open file that the process may write to; None for none. It stays the caller's.
    """

    errand: PolicyErrand | FileErrand
    files: tuple[bytes, ...] = field(default=(), repr=False)
    handle: int | None = None


class Fetcher(Protocol):
    """Sends a process on an errand."""

    def sent(self, parcel: Parcel) -> AbstractAsyncContextManager[Lines]:
        """Send one, and hear what it says to its last line; at the end of the context it is no more.

        What it says is checked for its form and its size alone.

        Raises:
            FetchError: on the way, for whatever goes wrong between it and us; what the process itself has
                to say of trouble stands in its last line.
        """
        ...


def enclosures(files: dict[str, bytes]) -> tuple[Enclosure, ...]:
    """What an errand says of the files that go with it."""
    return tuple(Enclosure(name=name, size=len(raw)) for name, raw in files.items())


def authorities(file: Path | None) -> dict[str, bytes]:
    """The file of the authorities that count, to go along: it is read anew each time.

    Raises:
        FetchError: it cannot be read.
    """
    if file is None:
        return {}
    try:
        with file.open("rb") as text:
            raw = text.read(AUTHORITIES_BYTES + 1)
    except OSError as why:
        raise FetchError(FetchTrouble.TLS, f"cannot read the authorities in {file}: {why.strerror}") from why
    if len(raw) > AUTHORITIES_BYTES:
        raise FetchError(FetchTrouble.TLS, f"{file} has more than {AUTHORITIES_BYTES} bytes")
    return {AUTHORITIES: raw}
