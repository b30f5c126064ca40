"""The project's Debian packages, built once for all tests of a run, and anew when something has changed."""

import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
CACHE: Final = ROOT / ".cache" / "packages"
_INPUTS: Final = (
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "docs",
    "edgeagent",
    "packaging",
    "pyproject.toml",
    "systemd",
)
VERSION: Final = "0.2.0"


def package(architecture: str = "amd64", version: str | None = None) -> Path:
    """The package for this architecture, compressed little; takes some seconds where it was not built before.

    Args:
        architecture: as Debian calls it.
        version: another than the project's, to be upgraded from or to.
    """
    folder = CACHE / _key()
    CACHE.mkdir(parents=True, exist_ok=True)
    name = f"{architecture}-{version or 'own'}"
    with (CACHE / "lock").open("w") as lock:
        # Tests of other processes wait here for the one that builds it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        for other in CACHE.iterdir():
            if other.is_dir() and other != folder:
                shutil.rmtree(other)
        if not (folder / name).exists():
            half = folder / f"{name}.half"
            shutil.rmtree(half, ignore_errors=True)
            build(half, architecture, version)
            half.rename(folder / name)
    return next((folder / name).glob("*.deb"))


def build(out: Path, architecture: str, version: str | None = None) -> None:
    """Build a package into a folder."""
    words = ["packaging/build", "--quick", "--arch", architecture, "--out", str(out)]
    words += [] if version is None else ["--version", version]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def unpacked(architecture: str = "amd64", *, compiled: bool = False) -> Path:
    """What the package holds, laid out in a folder that is not to be written to.

    Args:
        architecture: as Debian calls it.
        compiled: with its modules compiled by this Python, as on a machine that it was installed on: what is
            compiled is the same for every kind of machine.
    """
    archive = package(architecture)
    folder = archive.with_suffix(".compiled" if compiled else ".tree")
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            half = archive.with_suffix(".half")
            shutil.rmtree(half, ignore_errors=True)
            subprocess.run(["dpkg-deb", "--raw-extract", archive, half], check=True, timeout=120)
            if compiled:
                compile_modules(half / "opt" / "edgeagent" / "lib")
            half.rename(folder)
    return folder


def compile_modules(folder: Path) -> None:
    """Have this Python compile what lies there, as Debian's does after an installation."""
    subprocess.run([sys.executable, "-IS", "-m", "compileall", "-q", str(folder)], check=True, timeout=300)


def _key() -> str:
    whole = hashlib.sha256()
    for path in _files():
        whole.update(f"{path.relative_to(ROOT)} {path.stat().st_mode:o} ".encode())
        whole.update(hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()[:16]


def _files() -> Iterator[Path]:
    for name in _INPUTS:
        path = ROOT / name
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (each for each in inside if each.is_file() and "__pycache__" not in each.parts)
