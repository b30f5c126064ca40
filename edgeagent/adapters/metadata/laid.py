"""How metadata lie in folders: what is trusted already, and what a repository has.

Nothing here reads any, so that whoever only moves them does without what can: a quarter of a second of each
start, and 3 MiB.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from edgeagent.errors import MalformedError
from edgeagent.ports.policy_source import Held

BOOTSTRAP: Final = "bootstrap.json"
"""The root that trust begins with, among what is trusted already."""


def trusted_files(bootstrap: bytes, held: Held | None) -> Mapping[str, bytes]:
    """What is trusted already, by the names that the library knows; the root to begin with beside it."""
    files = {BOOTSTRAP: bootstrap}
    if held is not None:
        files["timestamp.json"] = held.metadata.timestamp
        files["snapshot.json"] = held.metadata.snapshot
        files["targets.json"] = held.metadata.targets
        files |= {f"{role}.json": raw for role, raw in held.metadata.delegated.items()}
    return files


def lay_out(folder: Path, files: Mapping[str, bytes]) -> None:
    """Put that into a new folder."""
    folder.mkdir(mode=0o700)
    for name, raw in files.items():
        (folder / name).write_bytes(raw)


def below(folder: Path, name: str) -> Path:
    """Where a name lies below a folder; names stand in metadata that nobody has verified yet.

    Raises:
        MalformedError: it leads elsewhere.
    """
    parts = name.split("/")
    if any(part in {"", ".", ".."} or "\x00" in part for part in parts):
        raise MalformedError("a name that leads elsewhere")
    return folder.joinpath(*parts)
