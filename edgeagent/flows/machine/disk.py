"""The disk of the state: how much is left, whether it takes writes, and how fast it is worn (SPEC O5).

A card of 32 GB stands some 10 TB of small writes. At 10 GiB a day that is three years.
"""

import os
from datetime import timedelta
from pathlib import Path
from typing import Final

from edgeagent.contracts.reports.health import Check, Level, Measure
from edgeagent.flows.machine.kernel import Kernel
from edgeagent.flows.store_health import in_words

_MEBIBYTE: Final = 1024 * 1024
_GIBIBYTE: Final = 1024 * _MEBIBYTE
LOW: Final = 256 * _MEBIBYTE
"""Fewer bytes free than these are a warning."""
VERY_LOW: Final = 64 * _MEBIBYTE
"""Fewer bytes free than these are critical."""
MUCH: Final = 10 * _GIBIBYTE
"""More bytes written a day than these are a warning."""
_FEW_FILES: Final = 100
_TOO_EARLY: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
_FREE_SOME: Final = "df {folder}; free some space; readings are refused when it is full"
_REMOUNT: Final = (
    "dmesg says why; a card or disk at its end turns so: make a backup and replace it; "
    "mount -o remount,rw makes it writable until the next restart"
)
_WRITE_LESS: Final = "have devices report less often, raise [ingest] commit_linger, or use an SSD"


def disk_checks(folder: Path) -> list[Check]:
    """Look at the space on the disk of a folder, and whether it takes writes; blocks while the disk does."""
    try:
        disk = os.statvfs(folder)
    except OSError as why:
        summary = f"{folder} cannot be looked at: {why.strerror}"
        advice = f"ls -ld {folder}; mount; dmesg"
        return [_unknown(name, summary, advice) for name in ("disk", "filesystem")]
    return [_space(disk, folder), _writable(disk, folder)]


def write_check(kernel: Kernel, folder: Path, running: timedelta, up: timedelta) -> Check:
    """Look at how much is written a day.

    Args:
        kernel: tells how much was written.
        folder: on the disk that counts.
        running: how long this process has run.
        up: how long the machine has.
    """
    own, all_ = kernel.written(), kernel.disk_written(folder)
    others = "" if all_ is None else f"; all programs together {_a_day(all_, up)} on its disk"
    if own is None:
        return Check(name="writes", level=Level.OK, summary=f"the kernel does not tell{others}")
    total = Measure(name="disk_written", value=own, unit="c")
    if running < _TOO_EARLY:
        summary = f"{own // _MEBIBYTE} MiB written in {in_words(running)}, too early to say{others}"
        return Check(name="writes", level=Level.OK, summary=summary, measures=[total])
    rate = int(own * (_DAY / running))
    a_day = Measure(name="written_a_day", value=rate, unit="B", warning=str(MUCH))
    return Check(
        name="writes",
        level=Level.WARNING if rate > MUCH else Level.OK,
        summary=f"the agent writes {_a_day(own, running)}{others}",
        advice=_WRITE_LESS if rate > MUCH else "",
        measures=[total, a_day],
    )


def _space(disk: os.statvfs_result, folder: Path) -> Check:
    free = disk.f_bavail * disk.f_frsize
    measure = Measure(name="disk_free", value=free, unit="B", warning=f"{LOW}:", critical=f"{VERY_LOW}:")
    words, level = f"{free // _MEBIBYTE} MiB free in {folder}", Level.OK
    if free < LOW:
        level = Level.CRITICAL if free < VERY_LOW else Level.WARNING
    # Some file systems count no files, and say 0 of 0.
    if disk.f_files and disk.f_favail < _FEW_FILES:
        words, level = f"{words}, but only {disk.f_favail} more files fit", Level.CRITICAL
    advice = "" if level is Level.OK else _FREE_SOME.format(folder=folder)
    return Check(name="disk", level=level, summary=words, advice=advice, measures=[measure])


def _writable(disk: os.statvfs_result, folder: Path) -> Check:
    if not disk.f_flag & os.ST_RDONLY:
        return Check(name="filesystem", level=Level.OK, summary=f"{folder} is mounted to be written")
    return Check(
        name="filesystem",
        level=Level.CRITICAL,
        summary=f"{folder} is on a file system that is read-only: nothing can be stored",
        advice=_REMOUNT,
    )


def _a_day(size: int, length: timedelta) -> str:
    """Bytes in a time, as a day's."""
    mebibytes = size * (_DAY / max(length, timedelta(minutes=1))) / _MEBIBYTE
    return f"{mebibytes:.0f} MiB a day"


def _unknown(name: str, summary: str, advice: str) -> Check:
    return Check(name=name, level=Level.UNKNOWN, summary=summary, advice=advice)
