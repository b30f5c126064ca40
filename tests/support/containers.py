"""A Debian machine that boots: systemd as process 1, own processes, own loopback, a disk of its own.

Its root is made once from Debian's packages (``roots``) and is never written to; each machine writes into
a folder of its test. The mounts lie in a name space of the machine's own and end with it, whatever becomes
of the test. It has no network but its loopback. Only root can do all this (systemd-nspawn(1)).

    with booted(root, tmp_path / "hub") as hub:
        hub.run("systemctl", "is-active", "mosquitto")
        hub.kill()      # the plug is pulled
        hub.boot()
"""

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from tests.support.cgroups import OwnGroups

CACHE: Final = Path(__file__).parents[2] / ".cache" / "roots"
PROGRAMS: Final = {"mmdebstrap": "mmdebstrap", "systemd-nspawn": "systemd-container"}
"""What is needed, with Debian's package of it."""

PACKAGES: Final = (
    "ca-certificates",
    "dbus",
    "iproute2",
    "mosquitto",
    "mosquitto-clients",
    "procps",
    "python3",
    "systemd",
    "systemd-sysv",
    "tzdata",
)
"""What a root has besides Debian's least: what the package depends on and what stories need."""

_BOOT: Final = 120.0
_COMMAND: Final = 240.0
_STEP: Final = 0.02
_ALONE: Final = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
"""Runs a program whose processes and mounts end with it, however it ends: none is left for who comes next."""
_APART: Final = """{
    for there in $(awk '$1 ~ "^/dev/loop" { print $2 }' /proc/mounts); do umount --lazy "$there" || true; done
}"""
"""Lets go of small disks of other tests: one that a machine holds on to stays when its test unmounts it."""
_ENVIRONMENT: Final = {
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}


def missing() -> str | None:
    """Why no machine can be booted here, and what would change that; None where one can."""
    if os.geteuid() != 0:
        return "booting a machine takes root: run ./test as root"
    if not Path("/dev/loop-control").exists():
        # As in most containers, which may not mount either.
        return "booting a machine takes loop devices, and there are none here"
    lacking = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
    return f"please run: sudo apt-get install -y {' '.join(lacking)}" if lacking else None


needs_container = pytest.mark.skipif(missing() is not None, reason=missing() or "")


def debian(suite: str = "bookworm", packages: Sequence[str] = PACKAGES) -> Path:
    """The root of a Debian of this suite with these packages; made at its first use, which takes 20 s."""
    what = hashlib.sha256(repr((suite, sorted(packages))).encode()).hexdigest()[:12]
    root = CACHE / f"{suite}-{what}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{suite}-{what}.lock").open("w") as lock:
        # Tests of other processes wait here for the one that makes it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            half = root.with_suffix(".half")
            shutil.rmtree(half, ignore_errors=True)
            made = subprocess.run(
                [
                    *_ALONE,
                    *("mmdebstrap", "--variant=minbase", f"--include={','.join(packages)}", suite, str(half)),
                ],
                check=False,
                capture_output=True,
                text=True,
                timeout=600,
            )
            assert made.returncode == 0, f"mmdebstrap makes no {suite}: {made.stderr[-4000:]}"
            half.rename(root)
    return root


class Container:
    """One machine.

    Args:
        root: what it boots from; is not written to.
        folder: its disk: what differs from the root. It stays when the machine ends.
        binds: folders of this machine that it sees, read-only: where they lie here, and where there.
        volumes: folders of it that are file systems of their own (ext4), with their size in MiB: to be
            filled up, or set read-only.
    """

    def __init__(
        self,
        root: Path,
        folder: Path,
        binds: Mapping[Path, str] | None = None,
        volumes: Mapping[str, int] | None = None,
    ) -> None:
        self._root = root
        self._folder = folder
        self._binds = dict(binds or {})
        self._volumes = dict(volumes or {})
        self._machine: subprocess.Popen[bytes] | None = None
        self._leader = 0
        self._groups = OwnGroups()

    @property
    def console(self) -> str:
        """What it has said on its console since it was made."""
        return (self._folder / "console").read_text(errors="replace")

    def boot(self) -> None:
        """Start it, and return when systemd says that all is started.

        Raises:
            TimeoutError: it does not come up.
        """
        upper, work, top = (self._folder / name for name in ("disk", "work", "top"))
        for folder in (upper, work, top):
            folder.mkdir(parents=True, exist_ok=True)
        (upper / "etc").mkdir(exist_ok=True)
        (upper / "etc" / "machine-id").touch()
        hosts = upper / "etc" / "hosts"
        if not hosts.exists():
            # As Debian's installer writes it.
            hosts.write_text("127.0.0.1 localhost\n127.0.1.1 hub\n::1 localhost\n")
        binds = [f"--bind-ro={here}:{there}" for here, there in self._binds.items()]
        mounts = [self._groups.enter, _APART]
        mounts += [f"mount -t overlay overlay -o lowerdir={self._root},upperdir={upper},workdir={work} {top}"]
        for there, size in self._volumes.items():
            image, mounted = self._volume(there, size)
            mounts.append(f"mount -o loop {image} {mounted}")
            binds.append(f"--bind={mounted}:{there}")
        command = [
            *("unshare", "--mount", "--propagation", "private", "sh", "-c"),
            *(" && ".join([*mounts, 'exec "$@"']), "sh"),
            *("systemd-nspawn", "--quiet", f"--directory={top}", "--hostname=hub", "--private-network"),
            *("--register=no", "--keep-unit", "--link-journal=no", *binds, "--boot"),
        ]
        # Without these two, IPAddressDeny= is silently not enforced inside.
        environment = {**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1", "SYSTEMD_SECCOMP": "0"}
        with (self._folder / "console").open("ab") as console:
            self._machine = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=console, stderr=console, env=environment
            )
        self._await_started()

    def _volume(self, there: str, size: int) -> tuple[Path, Path]:
        """The image of a file system, made at its first use, and where it is mounted."""
        name = there.strip("/").replace("/", "-")
        image, mounted = self._folder / f"{name}.ext4", self._folder / f"{name}.mounted"
        if not image.exists():
            mounted.mkdir()
            with image.open("wb") as file:
                file.truncate(size * 1024 * 1024)
            subprocess.run(["mkfs.ext4", "-q", str(image)], check=True, timeout=_COMMAND)
        return image, mounted

    def _await_started(self) -> None:
        machine = self._running()
        end = time.monotonic() + _BOOT
        while time.monotonic() < end:
            if machine.poll() is not None:
                raise TimeoutError(f"the machine has ended: {self.console[-2000:]}")
            children = Path(f"/proc/{machine.pid}/task/{machine.pid}/children").read_text().split()
            leaders = [int(child) for child in children if _is_of_another_machine(int(child))]
            if leaders:
                self._leader = leaders[0]
                state = self.run("systemctl", "is-system-running", check=False).stdout.strip()
                if state in {"running", "degraded"}:
                    return
            time.sleep(_STEP)
        raise TimeoutError(f"the machine does not come up: {self.console[-2000:]}")

    def run(
        self, *command: str, check: bool = True, user: str | None = None, given: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command there, as root or as this user, and return what it has said.

        Raises:
            AssertionError: it failed, and ``check`` asks that it does not; with all that it said.
        """
        enter = ["nsenter", "-t", str(self._leader), "-m", "-u", "-i", "-n", "-p", "-C", "--"]
        # The PID name space holds for children only: env(1) is one.
        settings = [f"{name}={value}" for name, value in _ENVIRONMENT.items()]
        become = [] if user is None else ["runuser", "-u", user, "--"]
        ended = subprocess.run(
            [*enter, "env", "-i", "--chdir=/", *settings, *become, *command],
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_COMMAND,
        )
        if check:
            said = f"{ended.stdout}{ended.stderr}"
            if ended.returncode and command[0] == "systemctl":
                # Why is in the journal, which goes with the machine.
                said += self.run("journalctl", "--no-pager", "--lines=60", check=False).stdout
            assert ended.returncode == 0, f"{command} ended with {ended.returncode}: {said}"
        return ended

    def eventually(self, *command: str, says: str = "", within: float = _BOOT) -> str:
        """Run a command until it succeeds and what it says has ``says`` in it; return that.

        Raises:
            TimeoutError: it did not within so many seconds; with what it said last.
        """
        end = time.monotonic() + within
        while True:
            begun = time.monotonic()
            ended = self.run(*command, check=False)
            if ended.returncode == 0 and says in ended.stdout:
                return ended.stdout
            if time.monotonic() > end:
                raise TimeoutError(f"{command}: {ended.returncode} {ended.stdout}{ended.stderr}")
            # A command that takes long leaves as long to what it asks after.
            time.sleep(max(5 * _STEP, time.monotonic() - begun))

    def inside(self, path: str) -> Path:
        """Where a file of the running machine is to be found here: to read, write or compare."""
        return Path(f"/proc/{self._leader}/root") / path.lstrip("/")

    def shut_down(self) -> None:
        """Have it stop everything in order, and end."""
        machine = self._running()
        machine.terminate()
        machine.wait(_COMMAND)
        self._machine = None
        self._groups.remove()

    def kill(self) -> None:
        """Pull the plug: every process of it is gone at once."""
        machine = self._running()
        # With the first process of its name space the kernel ends all others. It may not be there yet.
        if self._leader:
            with suppress(ProcessLookupError):
                os.kill(self._leader, signal.SIGKILL)
        self._leader = 0
        machine.kill()
        machine.wait(_COMMAND)
        self._machine = None
        self._groups.remove()
        self._await_released()

    def _await_released(self) -> None:
        """Wait until its disks are mounted nowhere: else the next boot goes on with them as they are."""
        end = time.monotonic() + _BOOT
        for image in self._folder.glob("*.ext4"):
            while subprocess.run(["losetup", "-j", image], capture_output=True, check=True).stdout:
                assert time.monotonic() < end, f"{image} is still mounted"
                time.sleep(_STEP)

    def end(self) -> None:
        """Be gone, whatever it does."""
        if self._machine is not None and self._machine.poll() is None:
            self.kill()

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._machine is not None, "the machine is not booted"
        return self._machine


def _is_of_another_machine(pid: int) -> bool:
    """Whether a process counts processes of its own: what only lays out the mounts does not."""
    try:
        return Path(f"/proc/{pid}/ns/pid").readlink() != Path("/proc/self/ns/pid").readlink()
    except OSError:  # it has ended
        return False


@contextmanager
def booted(
    root: Path,
    folder: Path,
    binds: Mapping[Path, str] | None = None,
    volumes: Mapping[str, int] | None = None,
) -> Iterator[Container]:
    """A machine that has come up; it is gone in the end."""
    folder.mkdir(parents=True, exist_ok=True)
    container = Container(root, folder, binds, volumes)
    try:
        container.boot()
        yield container
    finally:
        container.end()
