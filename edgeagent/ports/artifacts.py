"""Files for devices: which there are, and who brings their bytes (SPEC F2)."""

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final, Protocol

from edgeagent.contracts.fetching import FILE_BYTES, FetchTrouble
from edgeagent.errors import MalformedError, TransientError
from edgeagent.ids import ArtifactId, Digest
from edgeagent.values import dataclass

# What is a file's name on every system, and needs no escape in an address.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_DEEPEST: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedFile:
    """A file as its signed metadata name it.

    Attributes:
        artifact: its id.
        sha256: of its bytes.
        length: how many these are.
        path: of the target, below ``targets/`` of the repository.

    Raises:
        MalformedError: the path could lead elsewhere, or the length is none.
    """

    artifact: ArtifactId
    sha256: Digest
    length: int
    path: str

    def __post_init__(self) -> None:
        parts = self.path.split("/")
        if len(parts) > _DEEPEST or not all(_NAME.fullmatch(part) for part in parts):
            raise MalformedError(f"no path of a target: {self.path[:80]!r}")
        if not 0 < self.length <= FILE_BYTES:
            raise MalformedError(f"no length of a file: {self.length}")

    @property
    def place(self) -> tuple[str, ...]:
        """Where a repository keeps it: folders and name, with its digest (TUF, consistent snapshots)."""
        *folders, name = self.path.split("/")
        return ("targets", *folders, f"{self.sha256}.{name}")


class FetchError(TransientError):
    """A file did not come this time.

    Attributes:
        trouble: what kind.
        retry_after: how long the server asked us to wait; None when it did not say.
    """

    def __init__(self, trouble: FetchTrouble, why: str, retry_after: timedelta | None = None) -> None:
        super().__init__(why)
        self.trouble = trouble
        self.retry_after = retry_after


class SignedFiles(Protocol):
    """Which files are signed for now."""

    async def file(self, artifact: ArtifactId) -> SignedFile:
        """The file of an artifact.

        Raises:
            UnknownError: nothing is called so.
            RejectedError: it was revoked, or its signature's time is over; says so.
            StorageError: it cannot be read now.
        """
        ...


class ArtifactSource(Protocol):
    """Who brings the bytes of files."""

    async def bring(self, file: SignedFile, part: Path, tell: Callable[[int], None]) -> int:
        """Have what is missing of a file written behind what lies in ``part``.

        Nothing of it is verified; when cancelled, what has come stays.

        Args:
            file: which.
            part: where what has come of it lies; it is made where there is none.
            tell: is told how many bytes lie there, from time to time.

        Returns:
            How many bytes were there before; 0 where the source began anew.

        Raises:
            FetchError: not all of it is there.
        """
        ...
