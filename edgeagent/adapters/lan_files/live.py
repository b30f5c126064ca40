"""Offers that stand: whose they are, how much of them may still be fetched, and what came of them.

    standing --until is reached, the agent stops--> over --withdrawn--> gone

A descriptor stays open until the last who reads from it has stopped.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from hmac import compare_digest
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from edgeagent.adapters.lan_files.ranges import Stretch
from edgeagent.errors import SuspiciousError, TransientError
from edgeagent.ports.artifact_site import Content, Offer, Progress

MOST_FETCHES: Final = 6
"""How often the bytes of an offer may be sent: Tasmota tries five times."""
MOST_AT_ONCE: Final = 2
"""How many may fetch of one offer at once: a device that reconnects may overtake its former connection."""
LEAST_CHARGE: Final = 1024
"""What a request costs at least, in bytes, so that empty ones are bounded as well."""
_LEAST_BUDGET: Final = 64 * 1024

Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class Opened:
    """A file of an offer, and the descriptor to read it from."""

    content: Content
    handle: int


@dataclass(slots=True, kw_only=True)
class Live:
    """An offer and what came of it.

    Attributes:
        offer: what was offered.
        token: what has to be in the path.
        files: by name.
        address: who may fetch; None until the first has.
        readers: the connections of those who fetch now.
        budget: bytes that may still be sent.
        over: whether nothing more may be fetched.
    """

    offer: Offer
    token: str
    files: Mapping[str, Opened]
    address: Address | None = None
    readers: set[asyncio.Transport] = field(default_factory=set)
    budget: int = 0
    over: bool = False
    name: str = ""
    place: int = 0
    sent: int = 0
    fetches: int = 0
    finished: set[str] = field(default_factory=set)
    last_activity: timedelta | None = None

    def is_over(self, now: timedelta) -> bool:
        """Whether nothing more may be fetched of it."""
        return self.over or now >= self.offer.until

    def is_for(self, address: Address) -> bool:
        """Whether this address may fetch."""
        return self.address in {None, address}

    def takes(self, length: int, address: Address) -> bool:
        """Charge a request of so many bytes, and bind the offer to who makes it; whether that may be."""
        charge = max(LEAST_CHARGE, length)
        if charge > self.budget or len(self.readers) >= MOST_AT_ONCE:
            return False
        self.budget -= charge
        self.address = address
        return True

    def begins(self, name: str, stretch: Stretch, reader: asyncio.Transport) -> None:
        """Note that a fetch has begun."""
        self.readers.add(reader)
        self.fetches += 1
        self.name, self.place = name, stretch.first

    def moves(self, name: str, place: int, length: int, now: timedelta) -> None:
        """Note that bytes were taken, up to a place of a file."""
        self.name, self.place = name, place
        self.sent += length
        self.last_activity = now
        if place == self.files[name].content.size:
            self.finished.add(name)

    def ends(self, charged: int, sent: int, reader: asyncio.Transport) -> None:
        """Note that a fetch has ended; what was not sent of it was not fetched."""
        self.budget += max(LEAST_CHARGE, charged) - max(LEAST_CHARGE, sent)
        self.readers.discard(reader)
        self._close_when_unread()

    def is_ended(self) -> None:
        """Let nothing more be fetched, and cut off whoever does."""
        if not self.over:
            self.over = True
            for reader in self.readers:
                reader.abort()
            self._close_when_unread()

    def progress(self) -> Progress:
        """What came of it."""
        return Progress(
            name=self.name,
            place=self.place,
            sent=self.sent,
            fetches=self.fetches,
            finished=frozenset(self.finished),
            last_activity=self.last_activity,
            over=self.over,
        )

    def _close_when_unread(self) -> None:
        if self.over and not self.readers:
            close_all(self.files)


def budget_of(contents: Sequence[Content]) -> int:
    """How many bytes of an offer may be sent in all."""
    return MOST_FETCHES * max(_LEAST_BUDGET, sum(content.size for content in contents))


def open_all(contents: Sequence[Content]) -> dict[str, Opened]:
    """Open the files of an offer; all or none. Blocks.

    Raises:
        TransientError: one cannot be opened.
        SuspiciousError: one is not as long as it was.
    """
    files: dict[str, Opened] = {}
    try:
        for content in contents:
            files[content.name] = Opened(content, content.open_file())
            _check_length(files[content.name])
    except OSError as why:
        close_all(files)
        raise TransientError(f"a verified file cannot be opened: {why.strerror}") from why
    except BaseException:
        close_all(files)
        raise
    return files


def _check_length(opened: Opened) -> None:
    if os.fstat(opened.handle).st_size != opened.content.size:
        raise SuspiciousError(f"a verified file is not {opened.content.size} bytes long any more")


def close_all(files: Mapping[str, Opened]) -> None:
    """Close the descriptors of an offer."""
    for opened in files.values():
        os.close(opened.handle)


def found(offers: Sequence[Live], token: str) -> Live | None:
    """The offer of a token. How long it takes does not tell how much of one was right."""
    match: Live | None = None
    for each in offers:
        if compare_digest(each.token.encode(), token.encode()) and not each.over:
            match = each
    return match
