"""What the kernel tells of this machine and this process: numbers out of ``/proc`` and ``/sys``.

Each reading is None where the kernel does not tell, or this process may not read it: a container, a machine
without a sensor, a unit with a narrow view. Nothing here raises.
"""

import os
from pathlib import Path
from typing import Final

from edgeagent.values import dataclass

_SECTOR: Final = 512
_SECTORS_WRITTEN: Final = 6
_KIBIBYTE: Final = 1024
_MOST: Final = 64 * 1024
_HOTTEST: Final = 200.0
# What a Raspberry Pi's firmware says of its supply and its heat, as of the last two places where it stood.
_THROTTLED: Final = (
    "sys/devices/platform/soc/soc:firmware/get_throttled",
    "sys/devices/platform/axi/axi:firmware/get_throttled",
)


@dataclass(frozen=True, slots=True)
class Group:
    """The control group of this process: what systemd lets the unit have (cgroups(7), v2).

    Attributes:
        used: bytes of memory that cannot simply be taken back.
        most: bytes that it may have; None for no bound.
        killed: how often something in it was killed for want of memory.
    """

    used: int
    most: int | None
    killed: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """The files of the kernel.

    Attributes:
        root: where ``proc`` and ``sys`` lie; a test's may be a folder.
    """

    root: Path = Path("/")

    def resident(self) -> int | None:
        """Bytes of memory that this process holds (VmRSS, proc(5))."""
        return _kibibytes(self._text("proc/self/status"), "VmRSS:")

    def memory(self) -> tuple[int, int] | None:
        """Bytes that programs can still get, and that the machine has."""
        text = self._text("proc/meminfo")
        available, total = _kibibytes(text, "MemAvailable:"), _kibibytes(text, "MemTotal:")
        return None if available is None or not total else (available, total)

    def group(self) -> Group | None:
        """The control group of this process; None without one of the second kind."""
        for line in self._text("proc/self/cgroup").splitlines():
            if line.startswith("0::/"):
                return self._group(f"sys/fs/cgroup/{line[4:]}".rstrip("/"))
        return None

    def written(self) -> int | None:
        """Bytes that the kernel has had to write to a disk for this process."""
        for line in self._text("proc/self/io").splitlines():
            if line.startswith("write_bytes: "):
                return _number(line.removeprefix("write_bytes: "))
        return None

    def disk_written(self, folder: Path) -> int | None:
        """Bytes that were written since boot to the disk on which a folder lies, by all programs."""
        try:
            device = folder.stat().st_dev
        except OSError:
            return None
        fields = self._text(f"sys/dev/block/{os.major(device)}:{os.minor(device)}/stat").split()
        sectors = _number(fields[_SECTORS_WRITTEN]) if len(fields) > _SECTORS_WRITTEN else None
        return None if sectors is None else sectors * _SECTOR

    def heat(self) -> float | None:
        """Degrees Celsius of the hottest sensor."""
        zones = sorted((self.root / "sys/class/thermal").glob("thermal_zone*/temp"))
        found = [_number(self._text(str(zone.relative_to(self.root)))) for zone in zones]
        degrees = [each / 1000 for each in found if each is not None]
        # A sensor that is broken says anything.
        return max((each for each in degrees if 0 < each < _HOTTEST), default=None)

    def throttled(self) -> int | None:
        """What a Raspberry Pi says of its supply and heat: bits 0 to 3 now, 16 to 19 since boot."""
        for name in _THROTTLED:
            try:
                return int(self._text(name).strip(), 16)
            except ValueError:
                continue
        # Debian's own kernel tells of the voltage alone, as any sensor's.
        for sensor in sorted((self.root / "sys/class/hwmon").glob("hwmon*")):
            name = str(sensor.relative_to(self.root))
            if self._text(f"{name}/name").strip() == "rpi_volt":
                return _number(self._text(f"{name}/in0_lcrit_alarm"))
        return None

    def _group(self, name: str) -> Group | None:
        used = _number(self._text(f"{name}/memory.current"))
        if used is None:
            return None
        cached = _counted(self._text(f"{name}/memory.stat"), "inactive_file") or 0
        return Group(
            used=max(0, used - cached),
            most=_number(self._text(f"{name}/memory.max")),
            killed=_counted(self._text(f"{name}/memory.events"), "oom_kill") or 0,
        )

    def _text(self, name: str) -> str:
        """A file of the kernel's; empty where there is none for us."""
        try:
            with (self.root / name).open("rb") as file:
                return file.read(_MOST).decode("utf-8", "replace")
        except OSError:
            return ""


def _number(text: str) -> int | None:
    """A whole number; None for anything else, such as ``max``."""
    try:
        return int(text)
    except ValueError:
        return None


def _counted(text: str, name: str) -> int | None:
    """The number behind a name."""
    for line in text.splitlines():
        first, _, rest = line.partition(" ")
        if first == name:
            return _number(rest)
    return None


def _kibibytes(text: str, name: str) -> int | None:
    """The bytes on a line like ``VmRSS:  1234 kB``."""
    for line in text.splitlines():
        if line.startswith(name):
            words = line.split()
            number = _number(words[1]) if len(words) > 1 else None
            return None if number is None else number * _KIBIBYTE
    return None
