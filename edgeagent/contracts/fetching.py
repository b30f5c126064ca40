"""What the fetching process says of a file, line by line, and how a fetch fails.

The process deals with strangers' bytes, so that what it says is taken in as a stranger's would be.
"""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from edgeagent.contracts.door import Contract

LINE_BYTES: Final = 4096
"""The most bytes of one line."""
FILE_BYTES: Final = 2**40
"""The most bytes of a file."""


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
    FAILED = "failed"
    """The fetching process did not work."""


class FetchLine(Contract):
    """One line.

    Attributes:
        bytes: how many lie there.
        began_at: how many lay there before; on the first line alone.
        trouble: why no more comes; on the last line alone.
        why: the same in words.
        retry_after: how many seconds the server asked us to wait.
    """

    bytes: Annotated[int, Field(ge=0, le=FILE_BYTES)]
    began_at: Annotated[int, Field(ge=0, le=FILE_BYTES)] | None = None
    trouble: FetchTrouble | None = Field(default=None, strict=False)
    why: Annotated[str, Field(max_length=1000)] = ""
    retry_after: Annotated[float, Field(ge=0, le=3600)] | None = None
