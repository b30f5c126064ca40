"""The files of the package, laid out as they will lie on the hub; the same commit gives the same bytes."""

import gzip
import os
import shutil
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

OWN: Final = Path("opt/edgeagent")
DOCUMENTS: Final = Path("usr/share/doc/edgeagent")
_UNITS: Final = Path("usr/lib/systemd/system")


def lay_out(root: Path, tree: Path, version: str) -> None:
    """Copy what is edgeagent's own: the agent, its launcher, units, users, settings and pages.

    Args:
        root: the project.
        tree: stands for ``/`` of the hub.
        version: what the agent calls itself.
    """
    debian = root / "packaging" / "debian"
    _copy_package(root / "edgeagent", tree / OWN / "lib" / "edgeagent")
    _describe(root, tree / OWN / "lib" / f"edgeagent-{version}.dist-info", version)
    _put(debian / "launcher", tree / OWN / "bin" / "edgeagent", runs=True)
    _put(debian / "rtupdate", tree / "usr/share/python3/runtime.d/edgeagent.rtupdate", runs=True)
    for unit in units(root):
        _put(unit, tree / _UNITS / unit.name)
    _put(root / "systemd" / "edgeagent-users.conf", tree / "usr/lib/sysusers.d/edgeagent.conf")
    _put(debian / "default", tree / "etc/default/edgeagent")
    _put(debian / "lintian-overrides", tree / "usr/share/lintian/overrides/edgeagent")
    for page in (root / "README.md", root / "SECURITY.md", *sorted((root / "docs").iterdir())):
        _put(page, tree / DOCUMENTS / (page.name if page.parent == root else f"docs/{page.name}"))
    manual = (debian / "edgeagent.1").read_bytes()
    _write(gzip.compress(manual, mtime=0), tree / "usr/share/man/man1/edgeagent.1.gz")
    link = tree / "usr/bin/edgeagent"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to("/opt/edgeagent/bin/edgeagent")


def units(root: Path) -> list[Path]:
    """The units of systemd."""
    return sorted(path for path in (root / "systemd").iterdir() if path.suffix in {".service", ".socket"})


def _copy_package(package: Path, into: Path) -> None:
    shutil.copytree(
        package, into, ignore=shutil.ignore_patterns("__pycache__", "*.pyc", ".*"), copy_function=_put
    )


def _describe(root: Path, info: Path, version: str) -> None:
    """What ``importlib.metadata`` reads."""
    info.mkdir(parents=True)
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    text = f"Metadata-Version: 2.4\nName: edgeagent\nVersion: {version}\nLicense-Expression: Apache-2.0\n"
    text += "".join(f"Requires-Dist: {each}\n" for each in project["dependencies"])
    (info / "METADATA").write_text(text, "utf-8")
    _put(root / "LICENSE", info / "licenses" / "LICENSE")


def _put(source: str | Path, target: str | Path, *, runs: bool = False) -> None:
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(Path(source).read_bytes())
    target.chmod(0o755 if runs else 0o644)


def _write(content: bytes, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)


def settle(tree: Path, moment: datetime) -> None:
    """Give every file and folder the same modes and times, whoever builds."""
    seconds = moment.astimezone(UTC).timestamp()
    for path in (tree, *tree.rglob("*")):
        if not path.is_symlink():
            runs = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if runs else 0o644)
        os.utime(path, (seconds, seconds), follow_symlinks=False)
