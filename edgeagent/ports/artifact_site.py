"""Where a device fetches verified bytes from, on the LAN (SPEC F3).

An *offer* is for one device and one job: an address that nobody can guess, under which a file or two lie
until a moment of boot time, or until it is withdrawn. What is sent is read from the descriptor that was
verified, never from a path, and each piece of it is verified again. Nothing listens while there is no offer.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import field
from datetime import timedelta
from ipaddress import IPv4Address, IPv6Address
from typing import Final, Protocol

from edgeagent.contracts.serving import Ended, Turned
from edgeagent.errors import RejectedError
from edgeagent.ids import DeviceId, Digest
from edgeagent.values import dataclass

LONGEST_URL: Final = 100
"""Characters that Tasmota's ``OtaUrl`` takes."""
MOST_FILES: Final = 4
"""How many files an offer has at most: an image, and the minimal one that comes before it."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A file that a device may fetch.

    Attributes:
        name: what the device asks for, such as ``tasmota.bin``; a label, never a path.
        digest: the sha256 of its bytes.
        size: how many there are.
        open_file: gives a descriptor of the verified file, which whoever called it closes. May block.

    Raises:
        RejectedError: no such name or size can be offered.
    """

    name: str
    digest: Digest
    size: int
    open_file: Callable[[], int]

    def __post_init__(self) -> None:
        if _NAME.fullmatch(self.name) is None:
            raise RejectedError(f"no name that a device can ask for: {self.name[:60]!r}")
        if self.size < 1:
            raise RejectedError("an empty file is no artifact")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a device was offered.

    Attributes:
        number: of this start's offers.
        device: for whom.
        url: of the first file; the others lie beside it under their names. Not for logs.
        until: boot time at which it ends.
    """

    number: int
    device: DeviceId
    url: str = field(repr=False)
    until: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What came of an offer so far.

    Attributes:
        name: the file that was asked for last; empty before the first fetch.
        place: how far into that file the latest fetch has come, in bytes.
        sent: bytes sent in all, those sent twice included.
        fetches: how many were begun.
        finished: the files whose last byte was sent. It says nothing of what the device made of them.
        last_activity: boot time at which bytes were last taken; None before the first.
        over: whether nothing more can be fetched: its time is over.
    """

    name: str
    place: int
    sent: int
    fetches: int
    finished: frozenset[str]
    last_activity: timedelta | None
    over: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """A fetch that is over.

    Attributes:
        device: whose offer.
        digest: of the file.
        address: of who fetched.
        sent: bytes.
        ended: how.
    """

    device: DeviceId
    digest: Digest
    address: str
    sent: int
    ended: Ended


class SiteWitness(Protocol):
    """Told of what happens at the site; never fails, never waits."""

    def served(self, fetch: Fetch) -> None:
        """Note a fetch that is over."""
        ...

    def turned_away(self, why: Turned, address: str) -> None:
        """Note that somebody was turned away."""
        ...

    def standing(self, offers: int) -> None:
        """Note how many offers there are now."""
        ...


class ArtifactSite(Protocol):
    """Where devices fetch from."""

    async def offer(
        self,
        device: DeviceId,
        contents: Sequence[Content],
        *,
        until: timedelta,
        address: IPv4Address | IPv6Address | None = None,
        token: str | None = None,
    ) -> Offer:
        """Offer files to a device, for one job.

        Args:
            device: to whom.
            contents: one to four files of different names; the URL is that of the first.
            until: boot time at which it ends by itself.
            address: the device's address; None where it is not known: then whoever knows the URL may fetch,
                from a few addresses, each with a measure of its own.
            token: what in the URL cannot be guessed: 22 letters and digits of base64url, from 128 bits of
                chance or what was made of them; None for a new one. Given again, the URL is the same, as long
                as the port is. Not for logs.

        Raises:
            RejectedError: it cannot be offered so: no file or too many, its time is over, its address is
                longer than a device takes, its token is none or that of another offer.
            SuspiciousError: a file is not any more what it was when it was verified.
            TransientError: it cannot be offered now: a file cannot be opened, nothing can be listened to,
                there are too many offers, or the agent stops.
        """
        ...

    async def withdraw(self, offer: Offer) -> None:
        """End an offer and whatever is being fetched of it. One that is gone is none."""
        ...

    def progress(self, offer: Offer) -> Progress:
        """What came of it so far, also when its time is over.

        Raises:
            UnknownError: it was withdrawn.
        """
        ...
