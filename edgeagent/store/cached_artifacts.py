"""Files of artifacts that lie at the hub: ``<state dir>/artifacts/<sha256>``, looked at, never believed."""

import os
import stat
from hashlib import file_digest
from pathlib import Path
from typing import Final

from edgeagent.errors import StorageError
from edgeagent.ids import Digest

ARTIFACTS: Final = "artifacts"
"""The folder below the state folder."""


def is_whole(folder: Path, sha256: Digest, length: int) -> bool | None:
    """Whether a file is what is signed for; None where there is none. Reads all of it.

    Args:
        folder: of the files.
        sha256: of its bytes, and its name.
        length: in bytes.

    Raises:
        StorageError: it cannot be read.
    """
    path = folder / sha256
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb", buffering=0) as file:  # noqa: PTH123 - a handle, not a path
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_size != length:
                return False
            return file_digest(file, "sha256").hexdigest() == sha256
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as why:
        raise StorageError(f"{path}: {why.strerror}") from why
