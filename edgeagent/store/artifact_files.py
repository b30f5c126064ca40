"""Files for devices on the hub's disk, by the sha256 of their bytes (SPEC F2).

    artifacts/<sha256>        whole and verified; nobody may write to it (mode 0400)
             /part/<sha256>   what has come of it so far

A part becomes a file in one step, after its bytes were made durable and verified through the handle that
was opened for it: what is linked is that very inode, whatever has become of its name meanwhile. So a slot
is absent, or whole by its digest, at every moment of a power cut (SPEC R1). A file is used through the handle
that was verified; its name is looked up again for each use, and its bytes are verified again unless it is
the inode of before, unchanged.

No name here comes from outside: a digest is 64 hexadecimal digits. Everything here blocks.
"""

import errno
import fcntl
import os
import signal
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from edgeagent.errors import MalformedError, RejectedError, StorageError, UnknownError
from edgeagent.ids import Digest, digest
from edgeagent.store.files import sync_folder
from edgeagent.values import dataclass

_FOLDER: Final = 0o700
_SEALED: Final = 0o400
_ADDED_TO: Final = 0o600
_CHUNK: Final = 1024 * 1024
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class WrongBytesError(RejectedError):
    """What lies there is not the file that was signed; it was removed."""


class StillWrittenError(StorageError):
    """Somebody can still write to it."""


class _Seal(NamedTuple):
    """What is the same as long as nobody has touched an inode."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int


@dataclass(frozen=True, slots=True)
class Lying:
    """A file that lies here.

    Attributes:
        sha256: of what it is, or is to become.
        size: how many bytes lie there.
        used: seconds since 1970 at which it was fetched or used last, or was last added to.
        is_part: whether it is not whole.
    """

    sha256: Digest
    size: int
    used: float
    is_part: bool


class ArtifactFiles:
    """The files below one folder, which is nobody else's.

    Args:
        folder: is made when it is needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._parts = folder / "part"
        self._seals: dict[Digest, _Seal] = {}

    def part(self, sha256_: Digest) -> Path:
        """Where what has come of a file lies; it can be added to.

        Raises:
            StorageError: there can be no such place.
        """
        part = self._place_of_part(sha256_)
        _unseal(part)
        return part

    def _place_of_part(self, sha256_: Digest) -> Path:
        try:
            for folder in (self._folder, self._parts):
                folder.mkdir(mode=_FOLDER, exist_ok=True)
                if folder.is_symlink():
                    raise StorageError(f"{folder} is a link: remove it")
        except OSError as why:
            raise StorageError(f"cannot make {self._parts}: {why.strerror}") from why
        return self._parts / sha256_

    def take(self, sha256_: Digest, length: int, now: datetime) -> None:
        """Verify what has come of a file, and have it be one from now on.

        Args:
            sha256_: that it was signed with.
            length: that it was signed with.
            now: for its age.

        Raises:
            WrongBytesError: it is not that file; it is gone.
            StillWrittenError: somebody has it open and could change it.
            StorageError: the disk does not do it now.
        """
        part, file = self._place_of_part(sha256_), self._folder / sha256_
        try:
            with _opened(part) as handle:
                os.fchmod(handle, _SEALED)
                _refuse_writers(handle, part)
                os.fsync(handle)
                if not _is_right(handle, sha256_, length):
                    part.unlink(missing_ok=True)
                    raise WrongBytesError("what came is not the file that was signed; it was removed")
                os.utime(handle, (now.timestamp(), now.timestamp()))
                self._link(handle, file)
                part.unlink(missing_ok=True)
                sync_folder(self._parts)
                self._seals[sha256_] = _seal(os.fstat(handle))
        except FileNotFoundError as why:
            raise StorageError(f"{part} is gone") from why
        except OSError as why:
            raise StorageError(f"cannot keep {file}: {why.strerror}") from why

    def _link(self, handle: int, file: Path) -> None:
        """Give the inode that was verified its name, durably, in the place of whatever bears it."""
        new = file.with_name(f"{file.name}.new")
        new.unlink(missing_ok=True)
        above = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            # Not by the part's name, which may mean another inode by now. With a folder's handle Python asks
            # the kernel to follow the link (linkat(2), AT_SYMLINK_FOLLOW); without one it does not.
            os.link(f"/proc/self/fd/{handle}", new.name, dst_dir_fd=above, follow_symlinks=True)
        finally:
            os.close(above)
        new.rename(file)
        sync_folder(self._folder)

    def open(self, sha256_: Digest, length: int, now: datetime) -> int:
        """Open a file to be used.

        Returns:
            A handle of verified bytes, at their beginning; the caller closes it.

        Raises:
            UnknownError: there is none.
            WrongBytesError: it is damaged, and gone; or it is whole and not as long as it is said to be.
            StorageError: it cannot be read now.
        """
        file = self._folder / sha256_
        try:
            handle = os.open(file, _READ)
        except FileNotFoundError as why:
            raise UnknownError(f"{sha256_[:12]}… is not here") from why
        except OSError as why:
            if why.errno != errno.ELOOP:
                raise StorageError(f"cannot read {file}: {why.strerror}") from why
            self.remove(sha256_)
            raise WrongBytesError(f"{file} was a link; it was removed") from why
        try:
            self._verify(handle, sha256_, length)
            self._touch(handle, sha256_, now)
        except OSError as why:
            os.close(handle)
            raise StorageError(f"cannot read {file}: {why.strerror}") from why
        except BaseException:
            os.close(handle)
            raise
        return handle

    def _verify(self, handle: int, sha256_: Digest, length: int) -> None:
        found = os.fstat(handle)
        if self._seals.get(sha256_) == _seal(found) and found.st_size == length:
            return
        size = found.st_size
        # Whoever signs another length of the same bytes takes them from nobody who signs the true one.
        if stat.S_ISREG(found.st_mode) and size != length and _is_right(handle, sha256_, size):
            raise WrongBytesError(f"{sha256_[:12]}… has {size} bytes, and {length} are signed for")
        if not stat.S_ISREG(found.st_mode) or not _is_right(handle, sha256_, length):
            self.remove(sha256_)
            raise WrongBytesError(f"{sha256_[:12]}… was damaged on the disk; it was removed")

    def _touch(self, handle: int, sha256_: Digest, now: datetime) -> None:
        """Have it be young again; its bytes stay, so its seal is made anew."""
        os.utime(handle, (now.timestamp(), now.timestamp()))
        self._seals[sha256_] = _seal(os.fstat(handle))
        os.lseek(handle, 0, os.SEEK_SET)

    def is_whole(self, sha256_: Digest, length: int) -> bool | None:
        """Whether a file is what is signed for; None where there is none. Reads all of it; changes nothing.

        Raises:
            StorageError: it cannot be read now.
        """
        file = self._folder / sha256_
        try:
            with _opened(file) as handle:
                return _is_right(handle, sha256_, length)
        except WrongBytesError:
            return False
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as why:
            if why.errno == errno.ELOOP:
                return False
            raise StorageError(f"cannot read {file}: {why.strerror}") from why

    def part_size(self, sha256_: Digest) -> int:
        """How many bytes have come of a file that is not whole; 0 for none."""
        try:
            return (self._parts / sha256_).lstat().st_size
        except OSError:
            return 0

    def note_part(self, sha256_: Digest, now: datetime) -> None:
        """Have a part be as old as that; the kernel's clock, by which it was written, may be wrong."""
        with suppress(OSError):
            os.utime(self._parts / sha256_, (now.timestamp(), now.timestamp()), follow_symlinks=False)

    def all(self) -> list[Lying]:
        """Everything that lies here, least recently used first.

        Raises:
            StorageError: it cannot be read now.
        """
        found = [*_lying(self._folder, is_part=False), *_lying(self._parts, is_part=True)]
        return sorted(found, key=lambda each: each.used)

    def remove(self, sha256_: Digest, *, is_part: bool = False) -> None:
        """Have it be gone; who has it open may read on.

        Raises:
            StorageError: the disk does not do it now.
        """
        folder = self._parts if is_part else self._folder
        if not is_part:
            self._seals.pop(sha256_, None)
        try:
            (folder / sha256_).unlink(missing_ok=True)
        except OSError as why:
            raise StorageError(f"cannot remove {folder / sha256_}: {why.strerror}") from why

    def clear_strangers(self, but: Collection[Digest]) -> None:
        """Remove what a killed agent has left between two steps.

        Args:
            but: those that are on their way now, whose steps are ours.

        Raises:
            StorageError: it cannot be read now.
        """
        try:
            for file in self._folder.glob("*.new"):
                if file.stem not in but:
                    file.unlink(missing_ok=True)
        except OSError as why:
            raise StorageError(f"cannot clear {self._folder}: {why.strerror}") from why


def _unseal(part: Path) -> None:
    """Have a part be added to, that was sealed when an agent was killed or the disk failed."""
    with suppress(OSError, WrongBytesError), _opened(part) as handle:
        found = os.fstat(handle)
        # With a second name it is a file already, or about to be.
        if stat.S_IMODE(found.st_mode) == _SEALED and found.st_nlink == 1:
            os.fchmod(handle, _ADDED_TO)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    handle = os.open(path, _READ)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise WrongBytesError(f"{path} is no file")
        yield handle
    finally:
        os.close(handle)


def _refuse_writers(handle: int, path: Path) -> None:
    """Look whether anybody has a file open and could write to it.

    A lease to read is given only where nobody can write (fcntl(2), F_SETLEASE). It is given back at once; who
    opens the file in between is kept waiting, and the signal that tells us of it is one that does no harm.
    """
    try:
        fcntl.fcntl(handle, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError as why:
        raise StillWrittenError(f"{path} is open to somebody who could change it") from why
    except OSError:
        return  # a file system without leases; the seal tells what is changed later


def _is_right(handle: int, sha256_: Digest, length: int) -> bool:
    """Whether the bytes behind a handle are those that were signed; reads no more than that many."""
    if os.fstat(handle).st_size != length:
        return False
    os.lseek(handle, 0, os.SEEK_SET)
    counted, left = sha256(), length
    while left and (chunk := os.read(handle, min(_CHUNK, left))):
        counted.update(chunk)
        left -= len(chunk)
    return left == 0 and counted.hexdigest() == sha256_


def _seal(found: os.stat_result) -> _Seal:
    return _Seal(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _lying(folder: Path, *, is_part: bool) -> Iterator[Lying]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    name, found = digest(entry.name), entry.stat(follow_symlinks=False)
                except (MalformedError, FileNotFoundError):
                    continue
                yield Lying(name, found.st_size, found.st_mtime, is_part)
    except FileNotFoundError:
        return
    except OSError as why:
        raise StorageError(f"cannot look into {folder}: {why.strerror}") from why
