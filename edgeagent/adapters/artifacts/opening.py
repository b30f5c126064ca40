"""The part of a file that the agent hands to the process that adds to it: opened, and claimed for it.

What the server called the version of its bytes is noted beside it, by the agent: whoever only holds a handle
of another user's file may not (xattr(7)).
"""

import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from edgeagent.contracts.fetching import FetchTrouble
from edgeagent.ports.artifacts import FetchError

_PRIVATE: Final = 0o600
_OURS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TAG: Final = b"user.edgeagent.etag"


def opened(path: Path) -> int:
    """Open a part, made where there is none; it is claimed until nobody has it open any more.

    Raises:
        FetchError: it is no file of its own, or an earlier process still adds to it.
    """
    try:
        handle = os.open(path, _OURS, _PRIVATE)
    except OSError as why:
        raise FetchError(FetchTrouble.FAILED, f"cannot write to {path}: {why.strerror}") from why
    try:
        _claim(handle, path)
    except FetchError:
        os.close(handle)
        raise
    return handle


def _claim(handle: int, path: Path) -> None:
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        raise FetchError(FetchTrouble.FAILED, f"{path} is not a file of its own: remove it")
    try:
        # The process that a killed agent has sent may still be there.
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as why:
        raise FetchError(FetchTrouble.BUSY, "an earlier fetch of it is not over yet") from why


def tag_of(handle: int) -> str:
    """What the server called the version that it comes from (RFC 9110 section 8.8.3); empty for none."""
    try:
        return os.getxattr(handle, _TAG).decode("ascii")
    except (OSError, ValueError):
        return ""


def note_tag(handle: int, tag: str) -> None:
    """Remember that; a file system that cannot does no harm, since the whole is verified."""
    with suppress(OSError):
        os.setxattr(handle, _TAG, tag.encode("ascii", "ignore"))
