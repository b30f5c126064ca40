"""The repository as files, in the layout that hubs read (TUF specification 1.0, consistent snapshots).

    metadata/1.root.json  2.root.json ...       every root there ever was
    metadata/7.snapshot.json  4.targets.json    by version; earlier ones stay for whoever reads them
    metadata/timestamp.json                     the only file that is ever replaced
    targets/<sha256>.policy.json                the policy, plain JSON

A file appears whole or not at all: it is written beside its place, synced, and renamed. Nothing refers to
a version before ``timestamp.json`` does, so that it is the last to be written.
"""

import os
import re
import tempfile
from pathlib import Path
from typing import Final

from edgeagent.contracts.policy import POLICY_BYTES
from edgeagent.errors import ConfigurationError, RejectedError
from edgeagent.store.files import sync_folder

METADATA_BYTES: Final = 512 * 1024
"""The most bytes of one file of metadata; an ordinary one has 2,000."""
POLICY_TARGET: Final = "policy.json"
"""The policy's name among the targets."""
TIMESTAMP: Final = "timestamp.json"

_METADATA_NAME: Final = re.compile(
    r"timestamp\.json|[1-9][0-9]{0,14}\.(?:root|snapshot|targets)\.json", re.ASCII
)
_TARGET_NAME: Final = re.compile(r"[0-9a-f]{64}\.policy\.json", re.ASCII)


class MissingFileError(RejectedError):
    """There is no such file in the repository."""


class RepositoryFiles:
    """The files below one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def folder(self) -> Path:
        """Where they are."""
        return self._folder

    def mark(self) -> tuple[int, int, int]:
        """Something that differs after each change of the repository.

        Raises:
            MissingFileError: there is no repository.
        """
        try:
            stat = (self._folder / "metadata" / TIMESTAMP).stat()
        except OSError as why:
            raise MissingFileError(f"{self._folder}: no repository: {why.strerror}") from why
        return (stat.st_ino, stat.st_mtime_ns, stat.st_size)

    def metadata(self, name: str) -> bytes:
        """Read a file of metadata.

        Raises:
            MissingFileError: there is none of that name, or it is no name of metadata.
            ConfigurationError: it cannot be read, or is larger than any metadata.
        """
        if _METADATA_NAME.fullmatch(name) is None:
            raise MissingFileError(f"{name!r} is no name of metadata")
        return _read(self._folder / "metadata" / name, METADATA_BYTES)

    def target(self, name: str) -> bytes:
        """Read a policy by the name of its file. Raises as ``metadata``."""
        if _TARGET_NAME.fullmatch(name) is None:
            raise MissingFileError(f"{name!r} is no name of a target")
        return _read(self._folder / "targets" / name, POLICY_BYTES)

    def has_metadata(self, name: str) -> bool:
        """Whether there is a file of metadata of that name."""
        return (self._folder / "metadata" / name).exists()

    def make(self) -> None:
        """Make the folders.

        Raises:
            ConfigurationError: one exists, or cannot be made.
        """
        for folder in (self._folder, self._folder / "metadata", self._folder / "targets"):
            make_folder(folder, mode=0o755)

    def write_metadata(self, name: str, content: bytes) -> None:
        """Put a file of metadata in its place.

        Raises:
            ConfigurationError: the disk does not take it; what was there is as it was.
        """
        write_whole(self._folder / "metadata" / name, content)

    def forget_snapshots(self, *, before: int) -> None:
        """Remove snapshots below a version: each renewal makes one, and nobody reads the old ones.

        Raises:
            ConfigurationError: one cannot be removed.
        """
        for path in (self._folder / "metadata").glob("*.snapshot.json"):
            version = path.name.partition(".")[0]
            if version.isdigit() and int(version) < before:
                try:
                    path.unlink(missing_ok=True)
                except OSError as why:
                    raise ConfigurationError(f"{path}: {why.strerror}") from why

    def write_target(self, name: str, content: bytes) -> None:
        """Put a policy in its place. Raises as ``write_metadata``."""
        write_whole(self._folder / "targets" / name, content)


def make_folder(path: Path, *, mode: int) -> None:
    """Make a folder that does not exist yet.

    Raises:
        ConfigurationError: it exists, or cannot be made.
    """
    try:
        path.mkdir(mode=mode)
    except FileExistsError as why:
        raise ConfigurationError(f"{path} exists; it is left as it is") from why
    except OSError as why:
        raise ConfigurationError(f"{path}: {why.strerror}") from why


def write_whole(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Write a file so that whoever looks, also after a power cut, sees all of it or what was there before.

    Raises:
        ConfigurationError: it cannot be written.
    """
    try:
        handle, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                os.fchmod(file.fileno(), mode)
                file.flush()
                os.fsync(file.fileno())
            Path(beside).replace(path)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    except OSError as why:
        raise ConfigurationError(f"{path}: {why.strerror}") from why


def _read(path: Path, limit: int) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except FileNotFoundError as why:
        raise MissingFileError(f"{path.name}: there is no such file") from why
    except OSError as why:
        raise ConfigurationError(f"{path}: {why.strerror}") from why
    if len(content) > limit:
        raise ConfigurationError(f"{path}: more than {limit} bytes")
    return content
