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
class Memory:
    """What a process holds of the memory, in MiB.

    Attributes:
        resident: all that is mapped and there (Rss): libraries too, whoever else has them mapped.
        proportional: the same, with what others map too divided among them (Pss).
        private: what nobody else has (anonymous): what comes back when it ends.
    """

    resident: float
    proportional: float
    private: float


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

    def memory(self) -> Memory:
        """What it holds now, in full."""
        told = Path(f"/proc/{self.pid}/smaps_rollup").read_text("ascii")
        found = dict(re.findall(r"^(Rss|Pss|Anonymous):\s+(\d+) kB$", told, re.MULTILINE))
        return Memory(*(int(found[name]) / 1024 for name in ("Rss", "Pss", "Anonymous")))

    def to_disk(self) -> int:
        """Bytes that it has had written to disks; memory file systems do not count (proc(5))."""
        told = Path(f"/proc/{self.pid}/io").read_text("ascii")
        found = dict(re.findall(r"^(write_bytes|cancelled_write_bytes): (\d+)$", told, re.MULTILINE))
        return int(found["write_bytes"]) - int(found["cancelled_write_bytes"])

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
