"""What a process uses, as the kernel tells it (proc(5)), and what ``native/iocount.c`` counts."""

import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_COUNTS: Final = struct.Struct("=4Q")
_RESET_PEAK: Final = "5"  # of clear_refs, proc(5)


@dataclass(frozen=True, slots=True)
class Use:
    """What a process has used up to a moment.

    Attributes:
        cpu: seconds, of all its threads that live.
        syncs: how often it made files durable.
        sync_seconds: that this took.
        written: bytes to files.
    """

    cpu: float
    syncs: int
    sync_seconds: float
    written: int

    def since(self, before: "Use") -> "Use":
        """What was used after ``before``."""
        return Use(
            self.cpu - before.cpu,
            self.syncs - before.syncs,
            self.sync_seconds - before.sync_seconds,
            self.written - before.written,
        )


@dataclass(frozen=True, slots=True)
class Watch:
    """Looks at one process.

    Attributes:
        pid: which.
        counts: the file into which the preloaded counter counts.
    """

    pid: int
    counts: Path

    def use(self) -> Use:
        """What it has used."""
        syncs, sync_ns, _, written = (0, 0, 0, 0)
        if self.counts.exists():
            syncs, sync_ns, _, written = _COUNTS.unpack(self.counts.read_bytes())
        return Use(cpu_seconds(self.pid), syncs, sync_ns / 1e9, written)

    def resident(self) -> float:
        """MiB of memory that it holds now."""
        return self._status("VmRSS")

    def peak(self) -> float:
        """The most MiB that it has held since ``forget_peak``."""
        return self._status("VmHWM")

    def forget_peak(self) -> None:
        """Measure the peak from now on."""
        Path(f"/proc/{self.pid}/clear_refs").write_text(_RESET_PEAK, "ascii")

    def _status(self, name: str) -> float:
        told = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text("ascii"))
        if told is None:
            raise RuntimeError(f"the kernel does not tell {name}")
        return int(told[1]) / 1024


def cpu_seconds(pid: int) -> float:
    """The time that a process's living threads have run; finer than the ticks of ``/proc/PID/stat``."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text("ascii").split()[0])
        except FileNotFoundError:  # it ended while we looked
            continue
    return total / 1e9
