"""Letting go of program files in memory, as the kernel tells of them (proc(5), madvise(2))."""

import ctypes
import hashlib
import mmap
import re
import sqlite3
import ssl
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from edgeagent.adapters.mapped_files import let_go, unchanged

pytestmark = pytest.mark.requirement("H7")

PROGRAM: Final = "/usr/bin/python3.11"
LIBRARY: Final = "/usr/lib/libcrypto.so.3"
PAGE: Final = 4096
KIBIBYTE: Final = 1024


def mapping(place: int, permissions: str, path: str, *, anonymous: int = 0, swap: int = 0) -> list[str]:
    """A mapping of one page as ``smaps`` tells it; ``anonymous`` and ``swap`` in KiB."""
    first = place * PAGE
    return [
        f"{first:x}-{first + PAGE:x} {permissions} 00000000 fe:00 1234 {path}\n",
        "Size:                  4 kB\n",
        "Rss:                   4 kB\n",
        f"Anonymous:             {anonymous} kB\n",
        "LazyFree:              0 kB\n",
        f"Swap:                  {swap} kB\n",
        f"SwapPss:               {swap} kB\n",
        "VmFlags: rd mr mw me\n",
    ]


def untold(word: str) -> list[str]:
    """A mapping of whose written pages the kernel does not tell all."""
    return [line for line in mapping(7, "r--p", LIBRARY) if not line.startswith(word)]


def pages(*mappings: list[str]) -> list[int]:
    """Which pages would be let go."""
    lines = [line for each in mappings for line in each]
    return [part.start // PAGE for part in unchanged(lines, PROGRAM)]


def test_code_and_constants_of_the_program_and_its_libraries_may_go() -> None:
    found = pages(
        mapping(1, "r--p", PROGRAM),
        mapping(2, "r-xp", PROGRAM),
        mapping(3, "r-xp", LIBRARY),
        mapping(4, "r--p", "/opt/a folder/_ssl.cpython-311-aarch64-linux-gnu.so"),
    )

    assert found == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param(mapping(7, "rw-p", LIBRARY), id="what may be written"),
        pytest.param(mapping(7, "r--p", LIBRARY, anonymous=4), id="what was written before it was closed"),
        pytest.param(mapping(7, "r--p", LIBRARY, swap=4), id="what was written and is swapped out"),
        pytest.param(mapping(7, "r--p", LIBRARY, anonymous=4, swap=4), id="what is swapped out in part"),
        pytest.param(untold("Anonymous:"), id="what nobody says is not in memory"),
        pytest.param(untold("Swap:"), id="what nobody says is not swapped out"),
        pytest.param(mapping(7, "r--s", LIBRARY), id="what is shared"),
        pytest.param(mapping(7, "rwxp", LIBRARY), id="what may be written and run"),
        pytest.param(mapping(7, "r--p", "/var/lib/edgeagent/hub.db"), id="another file"),
        pytest.param(mapping(7, "r--p", "/usr/lib/locale/C.utf8.so.d/LC_CTYPE"), id="a folder's name"),
        pytest.param(mapping(7, "r--p", f"{LIBRARY} (deleted)", anonymous=8), id="replaced and written"),
        pytest.param(mapping(7, "rw-p", "")[:-1], id="no file"),
        pytest.param(mapping(7, "rw-p", "[heap]", anonymous=4), id="the heap"),
        pytest.param(mapping(7, "r-xp", "[vdso]"), id="the kernel's"),
    ],
)
def test_nothing_goes_that_the_file_does_not_have(kept: list[str]) -> None:
    assert pages(mapping(6, "r-xp", LIBRARY), kept, mapping(8, "r-xp", LIBRARY)) == [6, 8]


def test_what_goes_leaves_memory_and_comes_back_when_it_is_used() -> None:
    key = Ed25519PrivateKey.generate()
    before = resident_of_files()

    gone = let_go()

    assert gone > 0
    assert resident_of_files() < before
    key.public_key().verify(key.sign(b"still here"), b"still here")
    assert hashlib.sha256(b"").hexdigest().startswith("e3b0c442")
    with closing(sqlite3.connect(":memory:")) as connection:
        assert connection.execute("SELECT upper('once more')").fetchone() == ("ONCE MORE",)
    assert ssl.create_default_context().check_hostname


def test_where_the_kernel_does_not_tell_nothing_goes(tmp_path: Path) -> None:
    assert let_go(tmp_path) == 0
    tmp_path.joinpath("exe").symlink_to(PROGRAM)
    assert let_go(tmp_path) == 0


def test_where_other_mappings_are_told_than_we_see_nothing_goes(tmp_path: Path) -> None:
    """As under an emulator, whose own they may be."""
    unused = mmap.mmap(-1, PAGE)
    unused[:5] = b"ours!"
    place = ctypes.addressof(ctypes.c_char.from_buffer(unused)) // PAGE
    tmp_path.joinpath("exe").symlink_to(PROGRAM)
    tmp_path.joinpath("smaps").write_text("".join(mapping(place, "r-xp", PROGRAM)), "utf-8")

    assert let_go(tmp_path) == 0
    assert unused[:5] == b"ours!"


def resident_of_files() -> int:
    """Bytes of mapped files that are in this process's memory."""
    [found] = re.findall(r"RssFile:\s+([0-9]+) kB", Path("/proc/self/status").read_text("utf-8"))
    return int(found) * KIBIBYTE
