"""Files for devices: made, signed for in a list, and laid out as a repository has them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Final

from typing_extensions import override

from edgeagent.errors import UnknownError
from edgeagent.ids import ArtifactId, Digest, artifact_id, digest
from edgeagent.ports.artifacts import SignedFile, SignedFiles

ID: Final = artifact_id("plug-fw-2")


def some_bytes(size: int, *, seed: int = 1) -> bytes:
    """Bytes that do not compress, the same each time."""
    return Random(seed).randbytes(size)  # noqa: S311 - no secret


def signed_file(content: bytes, *, artifact: ArtifactId = ID, group: str = "plug") -> SignedFile:
    """What signed metadata say of some bytes."""
    return SignedFile(
        artifact=artifact,
        sha256=sha256_of(content),
        length=len(content),
        path=f"artifacts/{group}/{artifact}",
    )


def sha256_of(content: bytes) -> Digest:
    """Of some bytes."""
    return digest(sha256(content).hexdigest())


def lays_out(folder: Path, file: SignedFile, content: bytes) -> Path:
    """Put a file where a repository keeps it."""
    path = folder.joinpath(*file.place)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@dataclass(slots=True)
class FileList(SignedFiles):
    """Files that are signed for, by their ids."""

    files: Mapping[ArtifactId, SignedFile] = field(default_factory=dict)

    @override
    async def file(self, artifact: ArtifactId) -> SignedFile:
        try:
            return self.files[artifact]
        except KeyError as why:
            raise UnknownError(f"nothing is called {artifact}") from why
