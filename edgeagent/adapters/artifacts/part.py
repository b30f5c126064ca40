"""What has come of a file so far: one open file that this process adds to.

It never grows beyond the signed length, and never takes the last of the disk.
"""

import errno
import os
import stat
from types import TracebackType
from typing import Final, Self

from edgeagent.contracts.fetching import FetchTrouble
from edgeagent.ports.artifacts import FetchError

_LOOK_EVERY: Final = 8 * 1024 * 1024
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Part:
    """The part of a file that lies here; use it as a context manager.

    Args:
        handle: it, opened for reading and writing; closed at the end of the context.
        length: of the whole file.
        reserve: bytes of the disk that stay free.
        tag: what the server called the version that it comes from; empty for not known.

    Raises:
        FetchError: it is no file.
    """

    def __init__(self, handle: int, length: int, reserve: int, tag: str = "") -> None:
        self._handle = handle
        self._length = length
        self._reserve = reserve
        self.tag = tag
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise FetchError(FetchTrouble.FAILED, "what it is to go into is no file")
        self.size = found.st_size
        self._looked_at = 0
        if self.size > length:
            self.begin_anew()
        os.lseek(handle, self.size, os.SEEK_SET)

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
