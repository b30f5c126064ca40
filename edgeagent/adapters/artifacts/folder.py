"""A file of a repository that is a folder, such as a stick: regular files only, and through no link."""

import os
import stat
from pathlib import Path
from typing import Final

from edgeagent.adapters.artifacts.errand import Errand
from edgeagent.adapters.artifacts.part import Part
from edgeagent.contracts.fetching import FetchTrouble
from edgeagent.ports.artifacts import FetchError

_CHUNK: Final = 1024 * 1024
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# Without O_NONBLOCK a pipe of that name would hold us for ever.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def copy(errand: Errand, part: Part) -> None:
    """Add what is missing from the folder.

    Raises:
        FetchError: not all of it is there.
    """
    try:
        handle = _opened(Path(errand.place), errand.file.place)
    except FileNotFoundError as why:
        raise FetchError(FetchTrouble.MISSING, f"there is no {errand.file.path} in {errand.place}") from why
    except OSError as why:
        raise FetchError(
            FetchTrouble.UNREACHABLE, f"cannot read {errand.file.path} in {errand.place}: {why.strerror}"
        ) from why
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise FetchError(FetchTrouble.BROKEN_ANSWER, f"{errand.file.path} is no file")
        if found.st_size != errand.file.length:
            raise FetchError(FetchTrouble.BROKEN_ANSWER, f"it has {found.st_size} bytes, not those signed")
        part.check_space()
        os.lseek(handle, part.size, os.SEEK_SET)
        while not part.is_whole and (chunk := os.read(handle, _CHUNK)):
            part.append(chunk)
            errand.tell(part.size)
    except OSError as why:
        raise FetchError(FetchTrouble.BROKEN_ANSWER, f"it cannot be read on: {why.strerror}") from why
    finally:
        os.close(handle)


def _opened(folder: Path, place: tuple[str, ...]) -> int:
    """Open a file below a folder, step by step: none of the steps may be a link."""
    *folders, name = place
    above = os.open(folder, _FOLDER)
    try:
        for step in folders:
            below = os.open(step, _FOLDER | os.O_NOFOLLOW, dir_fd=above)
            os.close(above)
            above = below
        return os.open(name, _FILE, dir_fd=above)
    finally:
        os.close(above)
