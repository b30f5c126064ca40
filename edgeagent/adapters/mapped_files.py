"""What is mapped of program files and is not needed now: out of memory, until it is used again (SPEC H7).

A start runs through much code of the libraries that an idle agent never comes back to, and the kernel leaves
it mapped as long as nobody else wants the room. Only what the file has as well goes: parts of the program and
of shared libraries of which no page was ever written. Python never unloads a library, so that such a part is
still the same one when the kernel is told.

What the loader wrote before it closed a part to writing is in no file, and to let go of it is the end of the
process. The kernel counts such a page as anonymous while it is in memory and as swap while it is not. Where
it counts neither nothing was written, and nothing is written later: only closed parts are taken.
"""

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

_PROCESS: Final = Path("/proc/self")
_DONTNEED: Final = 4
"""MADV_DONTNEED of <asm-generic/mman-common.h>: a page of a file is read from it again when it is used."""


def let_go(process: Path = _PROCESS) -> int:
    """Unmap the pages of program files that nobody has changed.

    Args:
        process: the folder of this process in proc(5).

    Returns:
        The bytes of the mappings; 0 where the kernel does not tell them, or lets nothing go, or where what is
        told is not where this process sees it (an emulator's own mappings).
    """
    try:
        program = str(process.joinpath("exe").readlink())
        with process.joinpath("smaps").open(encoding="utf-8", errors="surrogateescape") as smaps:
            found = list(unchanged(smaps, program))
    except OSError:
        return 0
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    itself = ctypes.cast(madvise, ctypes.c_void_p).value
    if not any(itself in part for part in found):
        return 0
    return sum(len(part) for part in found if madvise(part.start, len(part), _DONTNEED) == 0)


def unchanged(smaps: Iterable[str], program: str) -> Iterator[range]:
    """The addresses of each part of program files of which no page was written, by ``smaps`` of proc(5)."""
    part: range | None = None
    in_memory: str | None = None
    for line in smaps:
        name, *rest = line.split(maxsplit=5)
        if not name.endswith(":"):
            part, in_memory = _of_program(name, rest, program), None
        elif name == "Anonymous:":
            in_memory = rest[0]
        elif part is not None and name == "Swap:" and in_memory == rest[0] == "0":
            yield part


def _of_program(addresses: str, rest: Sequence[str], program: str) -> range | None:
    permissions, path = rest[0], rest[-1].rstrip("\n")
    is_code = path == program or path.endswith(".so") or ".so." in path.rpartition("/")[2]
    if not is_code or permissions not in {"r--p", "r-xp"}:
        return None
    first, end = (int(each, 16) for each in addresses.split("-"))
    return range(first, end)
