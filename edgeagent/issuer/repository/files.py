"""The repository as files, in the layout that hubs read (TUF specification 1.0, consistent snapshots).

    metadata/1.root.json  2.root.json ...       every root there ever was
    metadata/7.snapshot.json  4.targets.json    by version; earlier ones stay for whoever reads them
    metadata/timestamp.json                     the only file that is ever replaced
    metadata/3.artifacts-plugs.json             what signs for artifacts, by group of models
    targets/<sha256>.policy.json                the policy, plain JSON
    targets/artifacts/plugs/<sha256>.plug-1.4.2 an artifact

A file appears whole or not at all: it is written beside its place, synced, and renamed. Nothing refers to
a version before ``timestamp.json`` does, so that it is the last to be written.
"""

import os
import re
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import IO, Final

from edgeagent.contracts.artifact import ARTIFACT_BYTES, path_of_artifact
from edgeagent.contracts.policy import POLICY_BYTES
from edgeagent.errors import ConfigurationError, MalformedError, RejectedError
from edgeagent.ids import Digest, artifact_id, digest
from edgeagent.store.files import sync_folder

METADATA_BYTES: Final = 512 * 1024
"""The most bytes of one file of metadata; an ordinary one has 2,000."""
POLICY_TARGET: Final = "policy.json"
"""The policy's name among the targets."""
TIMESTAMP: Final = "timestamp.json"
_CHUNK: Final = 1024 * 1024

_METADATA_NAME: Final = re.compile(
    r"timestamp\.json|[1-9][0-9]{0,14}\.(?:root|snapshot|targets|artifacts-[a-z0-9][a-z0-9_-]{0,31})\.json",
    re.ASCII,
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

    def artifact(self, group: str, name: str) -> Path:
        """The file of an artifact, by its group and the name of its file.

        Raises:
            MissingFileError: there is none, or these are no such names.
        """
        digits, _, artifact = name.partition(".")
        try:
            path = self._place(path_of_artifact(group, artifact_id(artifact)), digest(digits))
        except MalformedError as why:
            raise MissingFileError(f"{name!r} is no name of an artifact") from why
        if path.is_symlink() or not path.is_file():
            raise MissingFileError(f"{name}: there is no such file")
        return path

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

    def write_artifact(self, path: str, file: Path, sha256: Digest) -> None:
        """Copy a file to where hubs read an artifact.

        Args:
            path: among the targets.
            file: to be read once, from its beginning to its end.
            sha256: what was signed for.

        Raises:
            RejectedError: it is another file meanwhile.
            ConfigurationError: it cannot be read, or the disk does not take it.
        """
        place = self._place(path, sha256)
        try:
            place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            with file.open("rb") as source, tempfile.NamedTemporaryFile(dir=place.parent, prefix=".") as part:
                if measured(source, part)[0] != sha256:
                    raise RejectedError(f"{file} has changed while it was read")
                part.flush()
                os.fchmod(part.fileno(), 0o644)
                os.fsync(part.fileno())
                if not place.exists():
                    os.link(part.name, place)
            sync_folder(place.parent)
        except OSError as why:
            raise ConfigurationError(f"{why.filename or file}: {why.strerror}") from why

    def remove_artifact(self, path: str, sha256: Digest) -> None:
        """Remove a file that nobody signs for any more.

        Raises:
            ConfigurationError: it cannot be removed.
        """
        place = self._place(path, sha256)
        try:
            place.unlink(missing_ok=True)
        except OSError as why:
            raise ConfigurationError(f"{place}: {why.strerror}") from why

    def _place(self, path: str, sha256: Digest) -> Path:
        group, _, name = path.rpartition("/")
        return self._folder / "targets" / group / f"{sha256}.{name}"


def measured(source: IO[bytes], into: IO[bytes] | None = None) -> tuple[Digest, int]:
    """The sha256 and the length of an artifact's bytes, which are read in pieces.

    Args:
        source: where they come from.
        into: where a copy goes.

    Raises:
        RejectedError: there are none, or more than of any artifact.
        OSError: they cannot be read.
    """
    hashed, length = sha256(), 0
    while chunk := source.read(_CHUNK):
        length += len(chunk)
        if length > ARTIFACT_BYTES:
            raise RejectedError(f"more than {ARTIFACT_BYTES} bytes, which is no artifact")
        hashed.update(chunk)
        if into is not None:
            into.write(chunk)
    if not length:
        raise RejectedError("an empty file is no artifact")
    return digest(hashed.hexdigest()), length


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
