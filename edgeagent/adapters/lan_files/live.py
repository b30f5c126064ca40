"""Offers that stand: whose they are, how much of them may still be fetched, and what came of them.

    standing --until is reached, the agent stops--> over --withdrawn--> gone

A descriptor stays open until the last who reads from it has stopped.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import timedelta
from hmac import compare_digest
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from edgeagent.adapters.lan_files.opened import Opened, close_all
from edgeagent.adapters.lan_files.ranges import Stretch
from edgeagent.ports.artifact_site import Content, Offer, Progress
from edgeagent.values import dataclass

MOST_FETCHES: Final = 6
"""How often the bytes of an offer may be sent to an address: Tasmota tries five times."""
MOST_AT_ONCE: Final = 2
"""How many of an address may fetch of one offer at once: a device that reconnects may overtake its former
connection."""
MOST_ADDRESSES: Final = 4
"""From how many addresses an offer may be fetched, where nobody knows the device's: who has overheard the URL
may be quicker than the device, and takes nothing of its measure."""
LEAST_CHARGE: Final = 1024
"""What a request costs at least, in bytes, so that empty ones are bounded as well."""
_LEAST_BUDGET: Final = 64 * 1024

Address = IPv4Address | IPv6Address


@dataclass(slots=True, kw_only=True)
class Live:
    """An offer and what came of it.

    Attributes:
        offer: what was offered.
        token: what has to be in the path.
        files: by name.
        address: who may fetch; None for whoever knows the token.
        readers: the connections of those who fetch now, with their addresses.
        budget: bytes that may be sent to an address.
        spent: bytes that were, with those that are promised.
        over: whether nothing more may be fetched.
    """

    offer: Offer
    token: str
    files: Mapping[str, Opened]
    address: Address | None = None
    readers: dict[asyncio.Transport, Address] = field(default_factory=dict)
    budget: int = 0
    spent: dict[Address, int] = field(default_factory=dict)
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

    def expects(self, address: Address) -> bool:
        """Whether it is for this address, or was asked for from there."""
        return not self.over and (self.address == address or address in self.spent)

    def takes(self, length: int, address: Address) -> bool:
        """Charge a request of so many bytes to who makes it; whether that may be."""
        if address not in self.spent and len(self.spent) >= MOST_ADDRESSES:
            return False
        spent = self.spent.get(address, 0) + max(LEAST_CHARGE, length)
        at_once = sum(each == address for each in self.readers.values())
        if spent > self.budget or at_once >= MOST_AT_ONCE:
            return False
        self.spent[address] = spent
        return True

    def begins(self, name: str, stretch: Stretch, reader: asyncio.Transport, address: Address) -> None:
        """Note that a fetch has begun."""
        self.readers[reader] = address
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
        address = self.readers.pop(reader)
        self.spent[address] -= max(LEAST_CHARGE, charged) - max(LEAST_CHARGE, sent)
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
    """How many bytes of an offer may be sent to an address."""
    return MOST_FETCHES * max(_LEAST_BUDGET, sum(content.size for content in contents))


def found(offers: Sequence[Live], token: str) -> Live | None:
    """The offer of a token. How long it takes does not tell how much of one was right."""
    match: Live | None = None
    for each in offers:
        if compare_digest(each.token.encode(), token.encode()) and not each.over:
            match = each
    return match
