"""Writing a file whole: whoever looks, also after a power cut, sees all of it or what was there before."""

import os
from pathlib import Path

from edgeagent.store.files import sync_folder


def write_whole(path: Path, content: bytes, *, mode: int, owner: tuple[int, int] | None = None) -> None:
    """Write a file beside its place and, when the disk has it, move it there.

    Args:
        path: its place, in a folder where only we write.
        content: all of it.
        mode: its rights, whatever the umask.
        owner: numbers of user and group, each -1 for as we are; None for both.

    Raises:
        OSError: it cannot be written; what was there before still is, and nothing lies beside it. Or it is
            there, and a power cut may yet bring back what was (its folder cannot be synced).
    """
    beside = path.with_name(f".{path.name}.new")
    # One that a cut has left would keep whatever rights it has.
    beside.unlink(missing_ok=True)
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            if owner is not None:  # the agent's unit lets nobody even ask
                os.fchown(file.fileno(), *owner)
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
