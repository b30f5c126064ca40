"""Wheels: fetched by the lock file with their hashes, unpacked into one folder for all Pythons.

Wheels of one version for different Pythons differ only in the names of their compiled modules, so that one
folder holds them all; a build in which two disagree about a file fails.
"""

import email.message
import email.parser
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from deb.architectures import PYTHONS, Architecture

_PIN: Final = re.compile(r"([A-Za-z0-9._-]+)==([^\s\\]+)((?:[\s\\]+--hash=sha256:[0-9a-f]{64})+)")
_DEAD_FOLDERS: Final = frozenset({"tests", "test", "test_data", "testing", "docs", "examples"})
_DEAD_ENDINGS: Final = frozenset({".c", ".h", ".md", ".pxd", ".pyi", ".pyx", ".rst", ".in", ".sh"})


class BuildError(Exception):
    """The package cannot be built; the text says why."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One distribution of the lock file, with the hashes of all its wheels that may be used."""

    name: str
    version: str
    hashes: tuple[str, ...]

    @property
    def line(self) -> str:
        """As it stands in a lock file."""
        hashes = "".join(f" \\\n    --hash=sha256:{each}" for each in self.hashes)
        return f"{self.name}=={self.version}{hashes}\n"


@dataclass(slots=True)
class Distribution:
    """One distribution as it was found in its wheels.

    Attributes:
        metadata: its core metadata (PEP 566).
        licences: its licence texts by file name.
        wheels: the sha256 of each of its wheels by file name.
        bills: the bills of materials that it brings along, of what was compiled into it.
        tops: what it puts into the folder, at the top.
    """

    metadata: email.message.Message
    licences: dict[str, str] = field(default_factory=dict)
    wheels: dict[str, str] = field(default_factory=dict)
    bills: list[Mapping[str, object]] = field(default_factory=list)
    tops: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        """As package indexes have it: small letters and hyphens (PEP 503)."""
        return normalised(str(self.metadata["Name"]))

    @property
    def version(self) -> str:
        """Its version."""
        return str(self.metadata["Version"])


def normalised(name: str) -> str:
    """A distribution's name in small letters and hyphens."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_lock(path: Path) -> list[Pin]:
    """The pins of a lock file.

    Raises:
        BuildError: there are none.
    """
    pins = [
        Pin(name, version, tuple(re.findall(r"sha256:([0-9a-f]{64})", hashes)))
        for name, version, hashes in _PIN.findall(path.read_text("utf-8"))
    ]
    if not pins:
        raise BuildError(f"{path}: no distribution is pinned here")
    return pins


def fetch(pins: list[Pin], architecture: Architecture, cache: Path) -> list[Path]:
    """The wheels of these pins for this architecture and all Pythons; those fetched before are taken again.

    Raises:
        BuildError: one has no wheel, or its hash is another.
    """
    wanted = [pin for pin in pins if pin.name not in architecture.without]
    lock = "".join(pin.line for pin in wanted)
    found: list[Path] = []
    for python in PYTHONS:
        key = hashlib.sha256(f"{lock} {architecture.platforms} {python}".encode()).hexdigest()[:16]
        folder = cache / f"{architecture.name}-{python}-{key}"
        if not folder.exists():
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache) as name:
                half = Path(name) / "wheels"
                half.mkdir()
                (half / "lock").write_text(lock, "utf-8")
                words = ["--no-deps", "--require-hashes", "-r", str(half / "lock"), "-d", str(half)]
                pip("download", architecture, python, *words)
                try:
                    half.rename(folder)
                except OSError:
                    if not folder.exists():  # else another build was quicker
                        raise
        found += sorted(folder.glob("*.whl"))
    return found


def pip(word: str, architecture: Architecture, python: str, *words: str) -> None:
    """Run pip for another machine; it asks whatever index it is configured for.

    Raises:
        BuildError: it failed.
    """
    platforms = [text for platform in architecture.platforms for text in ("--platform", platform)]
    command = [sys.executable, "-m", "pip", word, "--quiet", "--disable-pip-version-check"]
    command += [
        "--only-binary=:all:",
        "--implementation=cp",
        f"--python-version={python}",
        *platforms,
        *words,
    ]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if ended.returncode != 0:
        raise BuildError(f"pip {word} for {architecture.name}, Python {python}: {ended.stderr.strip()}")


def unpack(wheels: list[Path], into: Path) -> list[Distribution]:
    """Put what wheels hold into one folder, without tests, sources of C and documents.

    Raises:
        BuildError: two wheels disagree about a file.
    """
    found: dict[str, Distribution] = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            distribution = _described(archive, found)
            distribution.wheels[wheel.name] = hashlib.sha256(wheel.read_bytes()).hexdigest()
            for name in _living(archive):
                target = into / name
                held = archive.read(name)
                if target.exists() and target.read_bytes() != held:
                    raise BuildError(f"{wheel.name}: {name} is another in another wheel")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(held)
                distribution.tops.add(PurePosixPath(name).parts[0])
    return sorted(found.values(), key=lambda each: each.name)


def _described(archive: zipfile.ZipFile, found: dict[str, Distribution]) -> Distribution:
    """The distribution that a wheel is of; what it says of itself is taken from the first."""
    info = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    folder = info.removesuffix("METADATA")
    metadata = email.parser.BytesParser().parsebytes(archive.read(info))
    name = normalised(str(metadata["Name"]))
    if name in found:
        return found[name]
    distribution = found[name] = Distribution(metadata)
    for held in archive.namelist():
        inner = held.removeprefix(folder)
        if held == inner or held.endswith("/"):
            continue
        if inner.startswith("sboms/"):
            distribution.bills.append(json.loads(archive.read(held)))
        elif re.search(r"(?i)licen[cs]e|copying|notice|edl|epl", inner):
            distribution.licences[inner.removeprefix("licenses/")] = archive.read(held).decode()
    return distribution


def _living(archive: zipfile.ZipFile) -> Iterator[str]:
    for name in sorted(archive.namelist()):
        path = PurePosixPath(name)
        if name.endswith("/") or (".dist-info/" in name and path.name != "METADATA"):
            continue
        if _DEAD_FOLDERS.intersection(path.parts[:-1]) or path.suffix in _DEAD_ENDINGS:
            continue
        if not path.name.startswith("."):
            yield name
