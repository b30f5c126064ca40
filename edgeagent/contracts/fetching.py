"""What the agent and the process that fetches for it say to each other, and how a fetch fails.

    agent ──> errand, the files that go with it ──> process          once
    agent <── line, line, ..., the last line    <── process          each with a piece of a file or without

Each is JSON with its length before it (``adapters/fetcher/wire``). The process deals with strangers' bytes,
so that what it says is taken in as a stranger's would be.
"""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from edgeagent.contracts.door import Contract
from edgeagent.contracts.scalars import ArtifactIdField, DigestField, Duration, Timestamp

LINE_BYTES: Final = 4096
"""The most bytes of one line."""
PIECE_BYTES: Final = 64 * 1024
"""The most bytes of a file that come with one line."""
ERRAND_BYTES: Final = 16 * 1024
"""The most bytes of an errand, without the files that go with it."""
FILE_BYTES: Final = 2**40
"""The most bytes of a file."""
WHOLE_BYTES: Final = 32 * 1024 * 1024
"""The most bytes of one refresh, either way: some hundred roots and everything else."""
AUTHORITIES: Final = "authorities.pem"
"""The file that names the authorities that count; the system's do where it does not go along."""
AUTHORITIES_BYTES: Final = 1024 * 1024
"""The most bytes of it: all that a distribution trusts are a quarter of that."""


class FetchTrouble(StrEnum):
    """Why a file did not come."""

    UNREACHABLE = "unreachable"
    """No address, no route, refused, or no answer in time."""
    FORBIDDEN_ADDRESS = "forbidden_address"
    """The name leads to this machine or its neighbourhood, where no repository is."""
    TLS = "tls"
    """The certificate or the handshake is not in order."""
    LOGIN = "login"
    """The server or the proxy wants another login."""
    CAPTIVE_PORTAL = "captive_portal"
    """Something else answers in its place."""
    BUSY = "busy"
    """It asked us to come later."""
    MISSING = "missing"
    """The repository has no such file."""
    BROKEN_ANSWER = "broken_answer"
    """What came is cut, too long, or not what was asked."""
    TOO_SLOW = "too_slow"
    """It comes too slowly, or nothing more does."""
    NO_SPACE = "no_space"
    """The disk has no room for it, or would have too little left."""
    WRONG_BYTES = "wrong_bytes"
    """It is whole, and not the file that was signed."""
    STOPPED = "stopped"
    """Somebody stopped it, or the agent stops."""
    NO_FETCHER = "no_fetcher"
    """Nobody answers who would fetch it."""
    FAILED = "failed"
    """The fetching process did not work."""


Text = Annotated[str, Field(max_length=2048)]


class Bounds(Contract):
    """How long a fetch may take, and what it leaves of the disk.

    Attributes:
        connect: for name, route and handshake together.
        idle: the longest time without a byte.
        whole: for all of it.
        window: over which the least rate is measured.
        least_rate: bytes a second, on average over each window.
        reserve: bytes of the disk that stay free.
    """

    connect: Duration = timedelta(seconds=20)
    idle: Duration = timedelta(seconds=30)
    whole: Duration = timedelta(hours=1)
    window: Duration = timedelta(seconds=60)
    least_rate: Annotated[int, Field(ge=0)] = 512
    reserve: Annotated[int, Field(ge=0, le=2**60)] = 128 * 1024 * 1024


class Enclosure(Contract):
    """A file that goes with an errand.

    Attributes:
        name: what it is called; it leads nowhere.
        size: how many bytes it has.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,79}$")]
    size: Annotated[int, Field(ge=0, le=AUTHORITIES_BYTES)]


class Errand(Contract):
    """What every errand says.

    Attributes:
        place: the repository: an address, or the path of a folder.
        proxy: to go through on the way to an ``https`` address.
        enclosed: the files that follow, one after the other.
    """

    place: Text
    proxy: Annotated[Text | None, Field(repr=False)] = None  # it may hold a password
    enclosed: Annotated[tuple[Enclosure, ...], Field(max_length=64)] = ()

    @property
    def is_web(self) -> bool:
        """Whether it is about a web server."""
        return self.place.startswith(("https://", "http://"))


class PolicyErrand(Errand):
    """Fetch the metadata of a repository, with the policy: what is trusted already goes along.

    Attributes:
        kind: of errand.
        now: a moment that is certainly past.
    """

    kind: Literal["policy"] = "policy"
    now: Timestamp


class FileErrand(Errand):
    """Fetch what is missing of a file for devices: the part that came so far goes along, opened.

    Attributes:
        kind: of errand.
        artifact, sha256, length, path: as the signed metadata name it.
        tag: what the server called the version that the part comes from; empty for not known.
        bounds: what the fetch is held to.
    """

    kind: Literal["file"] = "file"
    artifact: ArtifactIdField
    sha256: DigestField
    length: Annotated[int, Field(ge=1, le=FILE_BYTES)]
    path: Text
    tag: Annotated[str, Field(max_length=200)] = ""
    bounds: Bounds = Bounds()


class Request(Contract):
    """The one thing that is asked of a fetching process."""

    errand: Annotated[PolicyErrand | FileErrand, Field(discriminator="kind")]


class FetchLine(Contract):
    """One line of the process.

    Attributes:
        bytes: how many lie there, or have come.
        began_at: how many lay there before; on the first line alone.
        tag: what the server calls the version that follows.
        name: the file of the repository that begins with this piece; without it the piece goes on with the
            one before.
        piece: how many bytes of a file follow this line.
        is_last: whether it is all.
        trouble: why no more comes; on the last line alone.
        why: the same in words.
        retry_after: how many seconds the server asked us to wait.
    """

    bytes: Annotated[int, Field(ge=0, le=FILE_BYTES)]
    began_at: Annotated[int, Field(ge=0, le=FILE_BYTES)] | None = None
    tag: Annotated[str, Field(max_length=200)] | None = None
    name: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    piece: Annotated[int, Field(ge=0, le=PIECE_BYTES)] = 0
    is_last: bool = False
    trouble: FetchTrouble | None = Field(default=None, strict=False)
    why: Annotated[str, Field(max_length=1000)] = ""
    retry_after: Annotated[float, Field(ge=0, le=3600)] | None = None
