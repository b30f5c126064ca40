"""What a process did to its files and said on its connections, in one order; see ``recorder.c``.

    recorder = compiled(tmp_path)
    agent.environment = recorder.environment(agent.state_dir, log)
    ...                                        # the agent does its work
    recording = Recording.load(log, agent.state_dir)

A recording can be cut anywhere: everything before the cut has happened, nothing after it. What the disk
then holds is told by ``replaying``; what the world outside had been told by then, by ``recording_wire``.
"""

import shutil
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Self

import pytest

_SOURCE: Final = Path(__file__).with_name("recorder.c")
_HEAD: Final = struct.Struct("<cHIqq")


class Kind(StrEnum):
    """What was recorded; ``number`` is an inode for files, its own number for a connection."""

    CREATED = "C"
    """A file was made: ``path``, ``number``."""
    WRITTEN = "W"
    """Bytes were written: ``number``, ``offset``, ``data``."""
    CUT = "T"
    """A file has a new length, ``offset``: ``number``."""
    SYNCED = "F"
    """What was written to a file is on the disk: ``number``."""
    FOLDER_SYNCED = "D"
    """The names in a folder are on the disk: ``path``."""
    REMOVED = "U"
    """A name was removed: ``path``."""
    RENAMED = "R"
    """A name was changed: ``path``, ``data`` is the new one."""
    CONNECTED = "O"
    """A connection is being made: ``number``."""
    SENT = "S"
    """Bytes were sent: ``number``, ``data``."""
    RECEIVED = "I"
    """Bytes were received: ``number``, ``data``."""


@dataclass(frozen=True, slots=True)
class Record:
    """One happening; see ``Kind``. A path is relative to the folder that was recorded."""

    kind: Kind
    path: str
    number: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Recorder:
    """The compiled recorder."""

    library: Path

    def environment(self, root: Path, log: Path) -> dict[str, str]:
        """The variables that make a process write down what it does below ``root``."""
        return {"LD_PRELOAD": str(self.library), "RECORDER_ROOT": str(root), "RECORDER_LOG": str(log)}


def compiled(folder: Path) -> Recorder:
    """Compile the recorder; skips the test where there is no C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("the recorder needs a C compiler")
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "recorder.so"
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, "-o", str(library), str(_SOURCE), "-ldl"], check=True)
    return Recorder(library)


@dataclass(frozen=True, slots=True)
class Recording:
    """All that was recorded, in order."""

    records: Sequence[Record]

    @classmethod
    def load(cls, log: Path, root: Path) -> Self:
        """Read a log.

        Args:
            log: written by the recorder.
            root: the folder that was recorded.
        """
        raw, records, place = log.read_bytes(), [], 0
        while place < len(raw):
            kind, path_length, length, number, offset = _HEAD.unpack_from(raw, place)
            place += _HEAD.size
            path, place = raw[place : place + path_length].decode(), place + path_length
            data, place = raw[place : place + length], place + length
            if kind == b"R":
                data = _relative(data.decode(), root).encode()
            records.append(Record(Kind(kind.decode()), _relative(path, root), number, offset, data))
        return cls(records)

    def moved(self, index: int, to: int) -> "Recording":
        """The same with the record at ``index`` put before the one at ``to``, which comes earlier."""
        records = list(self.records)
        records.insert(to, records.pop(index))
        return Recording(records)

    def without(self, kind: Kind) -> "Recording":
        """The same without any record of a kind, as if that had never been done."""
        return Recording([record for record in self.records if record.kind is not kind])


def _relative(path: str, root: Path) -> str:
    return path.removeprefix(str(root)).removeprefix("/")
