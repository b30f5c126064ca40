"""The machine's own checks: disk, memory, heat and what is written, as a kernel tells them (SPEC O5)."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.reports.health import Check, Level
from edgeagent.flows.machine.disk import disk_checks, write_check
from edgeagent.flows.machine.heat import heat_check
from edgeagent.flows.machine.kernel import Kernel
from edgeagent.flows.machine.memory import memory_check

pytestmark = pytest.mark.requirement("O5")

HOUR = timedelta(hours=1)
MIB = 1024 * 1024
GROUP = "sys/fs/cgroup/system.slice/edgeagent.service"
PI = "sys/devices/platform/soc/soc:firmware/get_throttled"


def kernel(root: Path, files: Mapping[str, str]) -> Kernel:
    """A kernel that tells just this."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return Kernel(root)


def texts(check: Check) -> list[str]:
    """The numbers behind a check, as plugins write them."""
    return [measure.text() for measure in check.measures]


def test_a_kernel_that_tells_nothing_is_no_reason_to_worry(tmp_path: Path) -> None:
    silent = Kernel(tmp_path)

    checks = [memory_check(silent), heat_check(silent), write_check(silent, tmp_path, HOUR, HOUR)]

    assert [(check.level, check.measures, check.advice) for check in checks] == [(Level.OK, [], "")] * 3
    assert {check.summary for check in checks} >= {"the kernel does not tell"}


@pytest.mark.parametrize(
    "text", ["", "\x00\xff", "VmRSS:", "VmRSS: x kB", "write_bytes: ", "max", "0::/../.."]
)
def test_a_file_that_is_none_is_like_one_that_is_missing(tmp_path: Path, text: str) -> None:
    names = ("proc/self/status", "proc/self/io", "proc/meminfo", "proc/self/cgroup", PI)
    strange = kernel(tmp_path, dict.fromkeys((*names, "sys/class/thermal/thermal_zone0/temp"), text))

    assert (strange.resident(), strange.written(), strange.memory(), strange.heat()) == (None,) * 4
    assert (strange.group(), strange.throttled()) == (None, None)


class TestTheDisk:
    """Space, rights, and what is worn off."""

    def test_a_real_one(self, tmp_path: Path) -> None:
        space, writable = disk_checks(tmp_path)

        assert (space.name, writable.name) == ("disk", "filesystem")
        assert writable.level is Level.OK
        assert texts(space)[0].startswith("disk_free=")
        assert texts(space)[0].endswith("B;268435456:;67108864:")

    def test_a_folder_that_is_gone_is_told(self, tmp_path: Path) -> None:
        checks = disk_checks(tmp_path / "gone")

        assert [(check.name, check.level) for check in checks] == [
            ("disk", Level.UNKNOWN),
            ("filesystem", Level.UNKNOWN),
        ]
        assert all(check.advice for check in checks)

    def test_one_that_is_read_only_is_critical(self) -> None:
        mounts = [line.split() for line in Path("/proc/mounts").read_text("utf-8").splitlines()]
        found = [place for _, place, _, how, *_ in mounts if "ro" in how.split(",") and Path(place).is_dir()]
        if not found:
            pytest.skip("nothing is mounted read-only on this machine")

        check = disk_checks(Path(found[0]))[1]

        assert check.level is Level.CRITICAL
        assert "remount" in check.advice

    def test_what_is_written_is_told_by_day_once_that_can_be_said(self, tmp_path: Path) -> None:
        told = kernel(
            tmp_path, {"proc/self/io": f"rchar: 1\nwrite_bytes: {100 * MIB}\ncancelled_write_bytes: 0\n"}
        )

        early = write_check(told, tmp_path, HOUR / 2, HOUR)
        later = write_check(told, tmp_path, HOUR * 24, HOUR * 48)

        assert "too early to say" in early.summary
        assert later.summary == "the agent writes 100 MiB a day"
        assert texts(later) == [
            f"disk_written={100 * MIB}c;;",
            f"written_a_day={100 * MIB}B;{10 * 1024 * MIB};",
        ]

    def test_much_of_it_is_a_warning_with_what_to_change(self, tmp_path: Path) -> None:
        told = kernel(tmp_path, {"proc/self/io": f"write_bytes: {20 * 1024 * MIB}\n"})

        check = write_check(told, tmp_path, HOUR * 24, HOUR * 24)

        assert check.level is Level.WARNING
        assert "commit_linger" in check.advice


class TestTheMemory:
    """The agent's, its unit's, the machine's."""

    FINE: Mapping[str, str] = {
        "proc/self/status": "Name:\tx\nVmRSS:\t   61440 kB\n",
        "proc/meminfo": "MemTotal:  1000000 kB\nMemAvailable:  500000 kB\n",
        "proc/self/cgroup": "0::/system.slice/edgeagent.service\n",
        f"{GROUP}/memory.current": str(100 * MIB),
        f"{GROUP}/memory.max": str(192 * MIB),
        f"{GROUP}/memory.stat": f"anon 1\ninactive_file {30 * MIB}\n",
        f"{GROUP}/memory.events": "low 0\noom 0\noom_kill 0\n",
    }

    def test_all_is_well(self, tmp_path: Path) -> None:
        check = memory_check(kernel(tmp_path, self.FINE))

        assert check.level is Level.OK
        assert check.summary == (
            "the agent holds 60 MiB; its unit 70 of 192 MiB; 488 of 976 MiB are free on the machine"
        )

    @pytest.mark.parametrize(
        ("name", "text", "advice"),
        [
            ("proc/self/status", "VmRSS: 204800 kB", "restart"),
            (f"{GROUP}/memory.current", str(215 * MIB), "restart"),
            (f"{GROUP}/memory.events", "oom_kill 2", "restart"),
            ("proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 20000 kB", "ps aux"),
        ],
    )
    def test_too_little_is_a_warning(self, tmp_path: Path, name: str, text: str, advice: str) -> None:
        check = memory_check(kernel(tmp_path, {**self.FINE, name: text}))

        assert check.level is Level.WARNING
        assert advice in check.advice

    def test_a_unit_without_a_bound(self, tmp_path: Path) -> None:
        check = memory_check(kernel(tmp_path, {**self.FINE, f"{GROUP}/memory.max": "max\n"}))

        assert check.level is Level.OK
        assert "unit" not in check.summary


class TestHeat:
    """A Pi in a cupboard, and one on a cheap supply."""

    @pytest.mark.parametrize(("alarm", "level"), [("0", Level.OK), ("1", Level.WARNING), ("", Level.OK)])
    def test_a_kernel_that_tells_of_the_voltage_alone(self, tmp_path: Path, alarm: str, level: Level) -> None:
        hwmon = "sys/class/hwmon"
        other = {f"{hwmon}/hwmon0/name": "cpu_thermal\n", f"{hwmon}/hwmon0/in0_lcrit_alarm": "1\n"}
        volts = {f"{hwmon}/hwmon1/name": "rpi_volt\n", f"{hwmon}/hwmon1/in0_lcrit_alarm": f"{alarm}\n"}

        check = heat_check(kernel(tmp_path, other | volts))

        assert check.level is level
        assert ("voltage" in check.summary) == (level is Level.WARNING)

    @pytest.mark.parametrize(
        ("degrees", "bits", "level", "word"),
        [
            pytest.param(45, None, Level.OK, "45 degrees", id="fine"),
            pytest.param(82, None, Level.WARNING, "82 degrees", id="hot"),
            pytest.param(95, None, Level.CRITICAL, "95 degrees", id="very hot"),
            pytest.param(45, "0x0", Level.OK, "45 degrees", id="a Pi that is fine"),
            pytest.param(45, "50005", Level.WARNING, "too little voltage", id="too little voltage"),
            pytest.param(45, "10000", Level.OK, "gave too little voltage", id="it was too little"),
            pytest.param(84, "8", Level.WARNING, "it is slowed down", id="slowed down"),
            pytest.param(-127, None, Level.OK, "does not tell", id="a sensor that is broken"),
        ],
    )
    def test_what_is_told(
        self, tmp_path: Path, degrees: int, bits: str | None, level: Level, word: str
    ) -> None:
        files = {"sys/class/thermal/thermal_zone0/temp": f"{degrees * 1000}\n"}
        check = heat_check(kernel(tmp_path, files | ({} if bits is None else {PI: f"{bits}\n"})))

        assert check.level is level
        assert word in check.summary
        assert bool(check.advice) == (level is not Level.OK or "gave" in word)
