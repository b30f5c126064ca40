"""Where the files of updates come from, and where devices fetch them (SPEC F3, F4)."""

from dataclasses import field
from datetime import timedelta
from ipaddress import IPv4Address, IPv6Address
from typing import Protocol

from edgeagent.ids import ArtifactId, DeviceId, Digest
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A file that may be installed.

    Attributes:
        artifact: its id.
        sha256: of its bytes.
        version: what the device tells once it runs.
    """

    artifact: ArtifactId
    sha256: Digest
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pickup:
    """How a device may fetch what it is to install.

    Attributes:
        ticket: a secret of its run: the address is made of it, the same one after a restart. Not for logs.
        lasts: for how long at most.
        address: the device's, where it is known.
    """

    ticket: str = field(repr=False)
    lasts: timedelta
    address: IPv4Address | IPv6Address | None = None


class Images(Protocol):
    """The files that may be installed on this hub's devices."""

    def find(self, artifact: ArtifactId, sha256: Digest) -> Image:
        """A file that may be installed now.

        Raises:
            RejectedError: it may not be; says why.
        """
        ...

    def earlier(self, device: DeviceId, version: str) -> Image | None:
        """The file that brings a device back to a version; None where none may be installed."""
        ...

    async def serve(self, run: int, device: DeviceId, image: Image, pickup: Pickup) -> str:
        """Have a device be able to fetch a file, for one run; the same again as long as it is served.

        Args:
            run: for which it is.
            device: who fetches it.
            image: which.
            pickup: how.

        Returns:
            The address.

        Raises:
            TransientError: it is not here yet, or cannot be served now.
            RejectedError: it can never be served.
        """
        ...

    async def withdraw(self, run: int) -> None:
        """Serve no file for a run any more; nothing where none was."""
        ...
