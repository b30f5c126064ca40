"""What dpkg reads of the package: control file, scripts, conffiles, checksums, and its list of changes."""

import gzip
import hashlib
import re
import textwrap
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Final

from deb.architectures import Architecture
from deb.payload import DOCUMENTS, units
from deb.wheels import BuildError

_SCRIPTS: Final = ("preinst", "postinst", "prerm", "postrm")
_VERSION: Final = re.compile(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.dev\d+)?(\+[a-z0-9.]+)?")
_MARK: Final = "# Written by edgeagent"
"""How the first line of each file begins that the agent's set-up writes for the broker."""
_MAINTAINER: Final = "edgeagent maintainers <maintainers@edgeagent.example>"


def debian_version(version: str) -> str:
    """A version of Python packages as Debian orders it: what comes before a release sorts before it.

    Raises:
        BuildError: it is none.
    """
    if not _VERSION.fullmatch(version):
        raise BuildError(f"{version}: a version is like 1.2.0, 1.2.0rc1 or 1.2.0+venue.1")
    return re.sub(r"(?<=\d)(a|b|rc|\.dev)(?=\d)", lambda found: f"~{found[1].lstrip('.')}", version)


def write_control(root: Path, tree: Path, architecture: Architecture, version: str) -> None:
    """Write ``DEBIAN/``; the tree is complete but for it.

    Raises:
        BuildError: the version is none.
    """
    folder = tree / "DEBIAN"
    files = sorted(path for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    folder.mkdir()
    values = {
        "EARLIER": (root / "packaging" / "debian" / "earlier.sh").read_text("utf-8"),
        "VERSION": debian_version(version),
        "ARCHITECTURE": architecture.name,
        "MAINTAINER": _MAINTAINER,
        "DEPENDS": "".join(f", {each}" for each in architecture.depends),
        "MARK": _MARK,
        # A template is started by its socket, for each errand.
        "UNITS": " ".join(unit.name for unit in units(root) if "@" not in unit.name),
        "SIZE": str(sum(-(-path.stat().st_size // 1024) for path in files)),
    }
    for name in ("control", *_SCRIPTS):
        text = (root / "packaging" / "debian" / name).read_text("utf-8")
        for word, value in values.items():
            text = text.replace(f"@{word}@", value)
        (folder / name).write_text(text, "utf-8")
        (folder / name).chmod(0o644 if name == "control" else 0o755)
    inside = [path.relative_to(tree) for path in files]
    (folder / "conffiles").write_text(
        "".join(f"/{each}\n" for each in inside if each.parts[0] == "etc"), "utf-8"
    )
    sums = [
        f"{hashlib.md5((tree / each).read_bytes(), usedforsecurity=False).hexdigest()}  {each}\n"
        for each in inside
    ]
    (folder / "md5sums").write_text("".join(sums), "utf-8")


def write_changes(root: Path, tree: Path, version: str, moment: datetime) -> None:
    """Write the list of changes in Debian's form, from the newest chapter of ``CHANGELOG.md``."""
    chapter = re.split(r"(?m)^## ", (root / "CHANGELOG.md").read_text("utf-8"))[1]
    lines = [f"edgeagent ({debian_version(version)}) stable; urgency=medium", ""]
    for point in re.findall(r"(?ms)^- (.+?)(?=^- |^#|\Z)", chapter):
        lines += textwrap.wrap(
            " ".join(point.split()),
            76,
            initial_indent="  * ",
            subsequent_indent="    ",
            break_on_hyphens=False,
        )
    lines += ["", f" -- {_MAINTAINER}  {format_datetime(moment.astimezone(UTC))}", ""]
    packed = gzip.compress("\n".join(lines).encode(), mtime=0)
    (tree / DOCUMENTS / "changelog.gz").write_bytes(packed)
