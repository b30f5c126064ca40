"""What a bundle tells of the machine, of the libraries, of the log and of the files of the state."""

import json
import os
import platform
import shutil
import sqlite3
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from edgeagent.adapters.units import units
from edgeagent.config import Config
from edgeagent.errors import RejectedError, TransientError
from edgeagent.flows.machine.kernel import Kernel
from edgeagent.support.parts import PART_BYTES

UNITS: Final = (
    "edgeagent.service",
    "edgeagent-worker.service",
    "edgeagent-fetch.socket",
    "mosquitto.service",
)
"""Those that matter."""
_PATIENCE: Final = timedelta(seconds=3)
_LOG_PATIENCE: Final = 15.0
_LOG_LINES: Final = 20_000
_MOST_FILES: Final = 500
_NAME: Final = 128


def versions() -> str:
    """What runs here: edgeagent, Python, the libraries."""
    names = sorted({_name(text) for text in requires("edgeagent") or [] if "extra ==" not in text})
    return _json(
        {
            "edgeagent": version("edgeagent"),
            "python": sys.version,
            "sqlite": sqlite3.sqlite_version,
            "openssl": ssl.OPENSSL_VERSION,
            "libraries": {name: _version(name) for name in names},
        }
    )


def machine(config: Config | None) -> str:
    """The machine: what it is, how much it has, where the state lies."""
    kernel = Kernel()
    folders = [] if config is None else [config.hub.state_dir, config.hub.run_dir]
    return _json(
        {
            "system": platform.freedesktop_os_release().get("PRETTY_NAME", ""),
            "kernel": platform.release(),
            "machine": platform.machine(),
            "processors": os.cpu_count(),
            "load": list(os.getloadavg()),
            "memory": list(kernel.memory() or ()),
            "temperature": kernel.heat(),
            "throttled": kernel.throttled(),
            "disks": {str(folder): _disk(folder) for folder in folders},
            "mounts": [*_mounts(folders)],
        }
    )


def unit_states() -> str:
    """How the units stand.

    Raises:
        OSError: systemd cannot be asked.
    """
    found = units(UNITS, _PATIENCE)
    if not found:
        raise RejectedError("systemd does not manage the services here")
    return _json({unit.name: dict(asdict(unit)) for unit in found})


def log_lines(since: timedelta) -> str:
    """The log of our units, as the journal has it.

    Raises:
        RejectedError: there is no journal, or we may not read it.
        TransientError: it did not answer in time.
    """
    moment = (datetime.now(UTC) - since).strftime("%Y-%m-%d %H:%M:%S UTC")
    words = ["journalctl", "--no-pager", "--quiet", "--output=short-iso", f"--since={moment}"]
    words += [f"--lines={_LOG_LINES}", "--unit=edgeagent*"]
    try:
        done = subprocess.run(  # noqa: S603 - our own words, no shell
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LOG_PATIENCE, check=False
        )
    except OSError as why:
        raise RejectedError(f"journalctl: {why.strerror}") from why
    except subprocess.TimeoutExpired as why:
        raise TransientError("journalctl does not answer") from why
    if done.returncode != 0 or not done.stdout:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise RejectedError(f"the journal tells nothing of our units: {said[:200] or 'no lines'}")
    return done.stdout[-4 * PART_BYTES :].decode("utf-8", "replace")


def state_files(folder: Path) -> str:
    """The files of the state: names, sizes, rights; never what is in them.

    Raises:
        OSError: we may not look.
    """
    found: list[JsonValue] = []
    for path in sorted([*folder.iterdir(), *folder.glob("*/*")])[:_MOST_FILES]:
        stat = path.lstat()
        found.append(
            {
                "name": str(path.relative_to(folder))[:_NAME],
                "bytes": stat.st_size,
                "mode": oct(stat.st_mode),
                "owner": f"{stat.st_uid}:{stat.st_gid}",
                "changed": datetime.fromtimestamp(stat.st_mtime, UTC).isoformat(timespec="seconds"),
            }
        )
    return _json({"folder": str(folder), "files": found})


def _disk(folder: Path) -> JsonValue:
    try:
        total, used, free = shutil.disk_usage(folder)
    except OSError as why:
        return why.strerror
    return {"total": total, "used": used, "free": free}


def _mounts(folders: list[Path]) -> Iterator[str]:
    """The mounts on which these folders lie."""
    try:
        lines = Path("/proc/self/mounts").read_text("utf-8", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        place = Path(line.split()[1] if len(line.split()) > 1 else "/")
        if any(place == folder or place in folder.parents for folder in folders):
            yield line


def _name(requirement: str) -> str:
    """The name of a library, of what is required of it (PEP 508)."""
    for place, sign in enumerate(requirement):
        if not (sign.isalnum() or sign in "-_."):
            return requirement[:place]
    return requirement


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _json(value: dict[str, JsonValue]) -> str:
    return json.dumps(value, indent=2)
