"""``packaging/build``: reads the words, builds each package, says where it lies and how large it is."""

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from deb.architectures import ARCHITECTURES, DEFAULT, Architecture
from deb.bill import bill
from deb.control import debian_version, write_changes, write_control
from deb.licences import copyright_file
from deb.locking import lock
from deb.payload import DOCUMENTS, OWN, lay_out, settle
from deb.vendored import vendored
from deb.wheels import BuildError, fetch, read_lock, unpack

ROOT: Final = Path(__file__).parents[2]
LOCK: Final = ROOT / "packaging" / "requirements.lock"


def main(words: Sequence[str]) -> int:
    """Do what the words say.

    Returns:
        The exit status: 0 built, 1 not.
    """
    parser = argparse.ArgumentParser(prog="packaging/build", description="Build the Debian package.")
    parser.add_argument("--arch", action="append", choices=sorted(ARCHITECTURES), help="may be repeated")
    parser.add_argument("--version", help="instead of the one in pyproject.toml")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder it goes to")
    parser.add_argument("--quick", action="store_true", help="compress little: for tests, in seconds")
    parser.add_argument("--lock", action="store_true", help="choose the versions of what goes in anew")
    given = parser.parse_args(words)
    try:
        if given.lock:
            LOCK.write_text(lock(ROOT), "utf-8")
            print(f"{LOCK.relative_to(ROOT)} is new: look at the difference, then run the tests")
            return 0
        version = (
            given.version or tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
        )
        debian_version(version)
        given.out.mkdir(parents=True, exist_ok=True)
        for name in given.arch or DEFAULT:
            package = build(ARCHITECTURES[name], version, given.out, made_at(), quick=given.quick)
            print(f"{package} {package.stat().st_size / 1e6:.1f} MB")
    except (BuildError, OSError) as why:
        print(f"packaging/build: {why}", file=sys.stderr)
        return 1
    return 0


def made_at() -> datetime:
    """The moment that goes into the package: ``SOURCE_DATE_EPOCH``, else that of the commit or changelog."""
    told = os.environ.get("SOURCE_DATE_EPOCH")
    if told is None:
        command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
        told = asked.stdout.strip() or str(int((ROOT / "CHANGELOG.md").stat().st_mtime))
    return datetime.fromtimestamp(int(told), UTC)


def build(
    architecture: Architecture, version: str, out: Path, moment: datetime, *, quick: bool = False
) -> Path:
    """Build one package.

    Args:
        architecture: what it is for.
        version: what the agent in it calls itself.
        out: the folder it goes to.
        moment: when it was made, as files in it say.
        quick: compress it little.

    Returns:
        Where it lies.

    Raises:
        BuildError: it cannot be built.
    """
    wheels = fetch(read_lock(LOCK), architecture, ROOT / ".cache" / "wheels")
    package = out / f"edgeagent_{debian_version(version)}_{architecture.name}.deb"
    with tempfile.TemporaryDirectory(prefix="edgeagent-") as folder:
        tree = Path(folder) / "tree"
        found = unpack(wheels, tree / OWN / "lib")
        lay_out(ROOT, tree, version)
        borrowed = vendored(ROOT / "edgeagent")
        documents = tree / DOCUMENTS
        name = f"edgeagent@{version}?arch={architecture.name}"
        (documents / "copyright").write_text(copyright_file(found, borrowed), "utf-8")
        (documents / "sbom.cdx.json").write_bytes(bill(found, borrowed, name, moment))
        write_changes(ROOT, tree, version, moment)
        write_control(ROOT, tree, architecture, version)
        settle(tree, moment)
        half = Path(folder) / package.name
        pack(tree, half, moment, "-Zgzip -z1" if quick else "-Zxz")
        beside = package.with_suffix(".half")
        beside.write_bytes(half.read_bytes())
        beside.replace(package)
    return package


def pack(tree: Path, package: Path, moment: datetime, compression: str) -> None:
    """Have dpkg-deb make a package of a tree.

    Raises:
        BuildError: it refuses.
    """
    command = ["dpkg-deb", "--root-owner-group", *compression.split(), "--build", str(tree), str(package)]
    # Several threads would cut the compressed stream in several places.
    settings = {"SOURCE_DATE_EPOCH": str(int(moment.timestamp())), "DPKG_DEB_THREADS_MAX": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, env=os.environ | settings, check=False)
    if ended.returncode != 0:
        raise BuildError(f"dpkg-deb: {ended.stderr.strip()}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
