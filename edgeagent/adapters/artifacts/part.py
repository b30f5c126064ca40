"""What has come of a file so far: one regular file that one process at a time adds to.

It never grows beyond the signed length, and never takes the last of the disk.
"""

import errno
import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from edgeagent.contracts.fetching import FetchTrouble
from edgeagent.ports.artifacts import FetchError

_PRIVATE: Final = 0o600
_OURS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TAG: Final = b"user.edgeagent.etag"
_LOOK_EVERY: Final = 8 * 1024 * 1024
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Part:
    """The part of a file that lies here; use it as a context manager.

    Args:
        path: where it lies; made where there is none.
        length: of the whole file.
        reserve: bytes of the disk that stay free.

    Raises:
        FetchError: it is no file of ours, or another process adds to it.
    """

    def __init__(self, path: Path, length: int, reserve: int) -> None:
        self._length = length
        self._reserve = reserve
        try:
            self._handle = os.open(path, _OURS, _PRIVATE)
        except OSError as why:
            raise FetchError(FetchTrouble.FAILED, f"cannot write to {path}: {why.strerror}") from why
        try:
            found = _claimed(self._handle, path)
        except FetchError:
            os.close(self._handle)
            raise
        self.size = found.st_size
        self._looked_at = 0
        if self.size > length:
            self.begin_anew()
        os.lseek(self._handle, self.size, os.SEEK_SET)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._handle)

    @property
    def is_whole(self) -> bool:
        """Whether all of it has come."""
        return self.size == self._length

    def begin_anew(self) -> None:
        """Forget what has come."""
        os.ftruncate(self._handle, 0)
        os.lseek(self._handle, 0, os.SEEK_SET)
        self.size = self._looked_at = 0

    def check_space(self) -> None:
        """Look whether the disk has room for what is missing.

        Raises:
            FetchError: it has not.
        """
        disk = os.fstatvfs(self._handle)
        spare = disk.f_bavail * disk.f_frsize - (self._length - self.size)
        if spare < self._reserve:
            raise FetchError(
                FetchTrouble.NO_SPACE,
                f"{self._length - self.size} bytes are missing of it, and the disk would keep less than "
                f"{self._reserve} free",
            )
        self._looked_at = self.size

    def append(self, chunk: bytes) -> None:
        """Add to it.

        Raises:
            FetchError: it would be longer than was signed, or the disk is full.
        """
        if self.size + len(chunk) > self._length:
            raise FetchError(
                FetchTrouble.BROKEN_ANSWER, f"it is longer than the {self._length} bytes that were signed"
            )
        rest = memoryview(chunk)
        try:
            while rest:
                written = os.write(self._handle, rest)
                self.size, rest = self.size + written, rest[written:]
        except OSError as why:
            if why.errno in _FULL:
                # What the disk has left is for what the hub has to record.
                self.begin_anew()
                raise FetchError(FetchTrouble.NO_SPACE, f"the disk is full: {why.strerror}") from why
            raise FetchError(FetchTrouble.FAILED, f"the disk fails: {why.strerror}") from why
        if self.size - self._looked_at >= _LOOK_EVERY:
            self.check_space()

    @property
    def tag(self) -> str:
        """What the server called the version that it comes from (RFC 9110 section 8.8.3); empty for none."""
        try:
            return os.getxattr(self._handle, _TAG).decode("ascii")
        except (OSError, ValueError):
            return ""

    def note_tag(self, tag: str) -> None:
        """Remember that; a file system that cannot does no harm, since the whole is verified."""
        with suppress(OSError):
            os.setxattr(self._handle, _TAG, tag.encode("ascii", "ignore"))


def _claimed(handle: int, path: Path) -> os.stat_result:
    """See that it is a file of its own, and that nobody else adds to it."""
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        raise FetchError(FetchTrouble.FAILED, f"{path} is not a file of its own: remove it")
    try:
        # One that a killed agent has started may still be there.
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as why:
        raise FetchError(FetchTrouble.BUSY, "an earlier fetch of it is not over yet") from why
    return os.fstat(handle)
