"""A bundle as a file: a tar.gz with a manifest first, its parts in order, for its owner alone.

The file is made anew or not at all, and gets its content whole or is taken away again. Of the same parts it
is the same bytes.
"""

import gzip
import io
import json
import os
import tarfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from edgeagent.contracts.scalars import timestamp_text
from edgeagent.errors import RejectedError
from edgeagent.support.parts import Gathered
from edgeagent.values import dataclass

MANIFEST: Final = "manifest.json"
"""The first file of a bundle."""
LEFT_OUT: Final = (
    "values of readings and arguments of commands",
    "details of the audit trail",
    "tokens, passwords, keys and logins, wherever they were seen",
)
"""What is in no bundle."""
NAMES: Final = "people's names for devices"
"""What is in it if it is wanted."""
_PRIVATE: Final = 0o600


@dataclass(frozen=True, slots=True)
class Heading:
    """Whose bundle it is.

    Attributes:
        hub: its id; empty where the configuration does not say.
        version: of edgeagent.
        at: when it was made, by the machine's clock.
        has_labels: whether people's names for devices are in it; None where they may be: they are not known.
    """

    hub: str
    version: str
    at: datetime
    has_labels: bool | None

    @property
    def folder(self) -> str:
        """The folder in the archive, and the beginning of its file's name."""
        return f"edgeagent-support-{self.hub or 'hub'}-{self.at:%Y%m%dT%H%M%SZ}"

    @property
    def left_out(self) -> Sequence[str]:
        """What is in none of it."""
        return LEFT_OUT if self.has_labels is not False else (*LEFT_OUT, NAMES)

    @property
    def not_looked_for(self) -> Sequence[str]:
        """What may be in it, since it was not known and so not looked for."""
        return () if self.has_labels is not None else (NAMES,)


def manifest(heading: Heading, gathered: Gathered) -> dict[str, JsonValue]:
    """What is in a bundle, and what is not."""
    return {
        "format": 1,
        "hub": heading.hub,
        "version": heading.version,
        "at": timestamp_text(heading.at),
        "parts": [
            {
                "name": part.name,
                "what": part.what,
                "bytes": len(part.content),
                "sha256": part.digest,
                "redacted": part.redacted,
                "cut": part.is_cut,
            }
            for part in gathered.parts
        ],
        "missing": [{"name": each.name, "why": each.why} for each in gathered.missing],
        "left_out": [*heading.left_out],
        "not_looked_for": [*heading.not_looked_for],
    }


def packed(heading: Heading, gathered: Gathered) -> bytes:
    """The bytes of the archive."""
    raw, moment = io.BytesIO(), int(heading.at.timestamp())
    listing = json.dumps(manifest(heading, gathered), indent=2).encode()
    files = [(MANIFEST, listing), *((part.name, part.content) for part in gathered.parts)]
    with (
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=moment) as packed_,
        tarfile.open(fileobj=packed_, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, content in files:
            entry = tarfile.TarInfo(f"{heading.folder}/{name}")
            entry.size, entry.mtime, entry.mode = len(content), moment, _PRIVATE
            tar.addfile(entry, io.BytesIO(content))
    return raw.getvalue()


def write(file: Path, content: bytes) -> None:
    """Write it, for its owner alone.

    Raises:
        RejectedError: it cannot be written; nothing of it is left.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        handle = os.open(file, flags, _PRIVATE)
    except OSError as why:
        raise RejectedError(f"cannot make {file}: {why.strerror}") from why
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
    except OSError as why:
        file.unlink(missing_ok=True)
        raise RejectedError(f"cannot write {file}: {why.strerror}") from why
