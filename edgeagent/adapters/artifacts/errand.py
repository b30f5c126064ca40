"""What one fetch is about, and the bounds that it is held to."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from edgeagent.ports.artifacts import SignedFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How long a fetch may take, and what it leaves of the disk.

    Attributes:
        connect: for name, route and handshake together.
        idle: the longest time without a byte.
        whole: for all of it.
        window: over which the least rate is measured.
        least_rate: bytes a second, on average over each window.
        reserve: bytes of the disk that stay free.
    """

    connect: timedelta = timedelta(seconds=20)
    idle: timedelta = timedelta(seconds=30)
    whole: timedelta = timedelta(hours=1)
    window: timedelta = timedelta(seconds=60)
    least_rate: int = 512
    reserve: int = 128 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """One fetch.

    Attributes:
        place: the repository: an address, or the path of a folder.
        file: which.
        tell: is told how many bytes lie there.
        bounds: what it is held to.
        ca_file: the authorities that count, PEM; the system's where absent.
        proxy: to go through on the way to an ``https`` address.
    """

    place: str
    file: SignedFile
    tell: Callable[[int], None]
    bounds: Bounds = field(default_factory=Bounds)
    ca_file: Path | None = None
    proxy: str | None = field(default=None, repr=False)  # it may hold a password

    @property
    def is_web(self) -> bool:
        """Whether it comes from a web server."""
        return self.place.startswith(("https://", "http://"))
