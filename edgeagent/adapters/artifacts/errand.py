"""What one fetch of a file is about, and the bounds that it is held to."""

from collections.abc import Callable
from dataclasses import field

from edgeagent.contracts.fetching import Bounds
from edgeagent.ports.artifacts import SignedFile
from edgeagent.values import dataclass


def _unheard(_tag: str) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """One fetch.

    Attributes:
        place: the repository: an address, or the path of a folder.
        file: which.
        tell: is told how many bytes lie there.
        bounds: what it is held to.
        tell_tag: is told what the server calls the version that comes.
        authorities: those that count, PEM; the system's where absent.
        proxy: to go through on the way to an ``https`` address.
    """

    place: str
    file: SignedFile
    tell: Callable[[int], None]
    bounds: Bounds = field(default_factory=Bounds)
    tell_tag: Callable[[str], None] = _unheard
    authorities: bytes | None = field(default=None, repr=False)
    proxy: str | None = field(default=None, repr=False)  # it may hold a password

    @property
    def is_web(self) -> bool:
        """Whether it comes from a web server."""
        return self.place.startswith(("https://", "http://"))
