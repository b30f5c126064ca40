"""Debian's Python of another architecture or release, unpacked and not installed: enough to run a payload.

Programs of another architecture run under qemu-user. Only root can put things together this way.
"""

import fcntl
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import pytest

from tests.support.containers import CACHE
from tests.support.installed import SUITE
from tests.support.packages import compile_modules, unpacked

_QEMU: Final = {"arm64": "qemu-aarch64-static", "armhf": "qemu-arm-static"}
_TARGETS: Final = ("--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian", "Label: Debian")


def missing() -> str | None:
    """Why no such thing can be done here, and what would change that; None where it can."""
    if os.geteuid() != 0:
        return "running another Debian's Python takes root: run ./test as root"
    if all(shutil.which(program) for program in ("mmdebstrap", *_QEMU.values())):
        return None
    return "please run: sudo apt-get install -y mmdebstrap qemu-user-static"


needs_foreign_python = pytest.mark.skipif(missing() is not None, reason=missing() or "")


def _mirror() -> list[str]:
    """Where this machine has its own Debian from; empty where that is not told, for mmdebstrap's own choice.

    Updates and security archives are no part of what is tried here, and now and then out of step.
    """
    told = subprocess.run(["apt-get", "indextargets", *_TARGETS], capture_output=True, text=True, check=False)
    return sorted(set(told.stdout.split()))[:1]


@dataclass(frozen=True, slots=True)
class Debian:
    """A release on an architecture, with what the package needs there.

    Attributes:
        suite: the name of the release.
        architecture: as Debian calls it.
        packages: what is unpacked, with all that it depends on.
    """

    suite: str
    architecture: str
    packages: tuple[str, ...] = ("base-files", "libgcc-s1", "libstdc++6", "python3", "tzdata")

    def root(self) -> Path:
        """Where it is unpacked; at its first use, which takes some seconds."""
        name = f"{self.suite}-{self.architecture}-{len(self.packages)}"
        root = CACHE / name
        CACHE.mkdir(parents=True, exist_ok=True)
        with (CACHE / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not root.exists():
                half = root.with_suffix(".half")
                shutil.rmtree(half, ignore_errors=True)
                command = ["mmdebstrap", "--variant=extract", f"--architectures={self.architecture}"]
                command += [f"--include={','.join(self.packages)}", self.suite, str(half), *_mirror()]
                subprocess.run(command, check=True, capture_output=True, timeout=600)
                for place in ("opt/edgeagent", "mnt", "proc"):
                    (half / place).mkdir(parents=True, exist_ok=True)
                if self.suite == SUITE:
                    for library in (half / "usr" / "lib").glob("python3.*"):
                        compile_modules(library)
                if self.architecture in _QEMU:
                    shutil.copy(str(shutil.which(_QEMU[self.architecture])), half / "qemu")
                half.rename(root)
        return root

    def start(self, folder: Path, *words: str, into: IO[str]) -> subprocess.Popen[str]:
        """Start its Python on ``words``, with the package's ``/opt/edgeagent``, which is not written to.

        Args:
            folder: seen as ``/mnt``, where it may write; what it compiles for itself stays beside it.
            words: what ``python3 -IS`` is given.
            into: where goes what it says.
        """
        # Where the tests have its Python nothing is left to be compiled, which takes qemu long.
        root, payload = self.root(), unpacked(self.architecture, compiled=self.suite == SUITE)
        upper, work = (folder.with_name(f"{folder.name}-{part}") for part in ("upper", "work"))
        for part in (upper, work):
            part.mkdir(exist_ok=True)
        layers = f"lowerdir={payload}/opt/edgeagent,upperdir={upper},workdir={work}"
        mounts = [
            f"mount -t overlay overlay -o {layers} {root}/opt/edgeagent",
            f"mount --bind {folder} {root}/mnt",
            f"mount -t proc proc {root}/proc",
            'exec "$@"',
        ]
        python = [*(("/qemu",) if self.architecture in _QEMU else ()), "/usr/bin/python3", "-IS"]
        command = ["unshare", "--mount", "sh", "-c", " && ".join(mounts), "sh", "chroot", str(root), *python]
        settings = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/mnt", "LANG": "C.UTF-8"}
        return subprocess.Popen(
            [*command, *words], stdin=subprocess.DEVNULL, stdout=into, stderr=into, text=True, env=settings
        )
