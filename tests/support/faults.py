"""Disks that fail on request, under a real process; see ``faults.c``.

disk = FaultyDisk(tmp_path / "faults", agent.state_dir)
agent.environment = disk.environment
agent.start()
disk.fails(errno.ENOSPC, Calls.WRITES, first=3, most=1)     # the third write from now on, once
...
disk.is_well()
"""

import errno
import mmap
import shutil
import struct
import subprocess
from enum import IntFlag
from pathlib import Path
from typing import Final

import pytest

_SOURCE: Final = Path(__file__).with_name("faults.c")
_PLAN: Final = struct.Struct("=qqqqqq")
_BYTES: Final = 64
_FOR_EVER: Final = -1
_NEVER: Final = 2**62


class Calls(IntFlag):
    """Which calls of the system fail."""

    WRITES = 1
    """Bytes are written, or a file is cut."""
    SYNCS = 2
    """A file or folder is synced."""
    NAMES = 4
    """A file is opened to write, removed or renamed; a folder is made."""


class FaultyDisk:
    """The disk of one process; skips the test where there is no C compiler.

    Args:
        folder: for the library and the plan; not below the root.
        root: the folder whose files fail.
    """

    def __init__(self, folder: Path, root: Path) -> None:
        compiler = shutil.which("gcc") or shutil.which("cc")
        if compiler is None:
            pytest.skip("disks that fail need a C compiler")
        folder.mkdir(parents=True, exist_ok=True)
        self._library, self._plan, self._root = folder / "faults.so", folder / "plan", root
        flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        subprocess.run([compiler, *flags, "-o", str(self._library), str(_SOURCE), "-ldl"], check=True)
        self._plan.write_bytes(bytes(_BYTES))
        with self._plan.open("r+b") as plan:
            self._map = mmap.mmap(plan.fileno(), _BYTES)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that put a process on this disk."""
        return {
            "LD_PRELOAD": str(self._library),
            "FAULTS_ROOT": str(self._root),
            "FAULTS_PLAN": str(self._plan),
        }

    @property
    def failures(self) -> int:
        """How many calls have failed since the last ``fails``."""
        return int(_PLAN.unpack_from(self._map)[5])

    @property
    def calls(self) -> int:
        """How many calls of the chosen kinds there were since the last ``fails`` or ``counts``."""
        return int(_PLAN.unpack_from(self._map)[4])

    def counts(self, calls: Calls) -> None:
        """Let nothing fail, and count calls from now on."""
        self.fails(errno.EIO, calls, first=_NEVER)

    def fails(self, why: int, calls: Calls, *, first: int = 1, most: int | None = None) -> None:
        """Let calls fail from now on.

        Args:
            why: an error number.
            calls: which.
            first: the first of these that fails, counted from now.
            most: how many fail; None: all from then on.
        """
        self.is_well()
        _PLAN.pack_into(self._map, 0, 0, calls, first, _FOR_EVER if most is None else most, 0, 0)
        # The error number last: it is what the process looks at first.
        struct.pack_into("=q", self._map, 0, why)

    def is_full(self) -> None:
        """No write has room."""
        self.fails(errno.ENOSPC, Calls.WRITES)

    def is_read_only(self) -> None:
        """Nothing can be written, made, removed or renamed."""
        self.fails(errno.EROFS, Calls.WRITES | Calls.NAMES)

    def is_well(self) -> None:
        """Nothing fails any more; what has failed stays counted."""
        struct.pack_into("=q", self._map, 0, 0)
