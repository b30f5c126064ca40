"""How the units of systemd stand, as ``systemctl show`` tells; bounded in time."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from edgeagent.values import dataclass

RUNS: Final = Path("/run/systemd/system")
"""Is there where systemd is the service manager (sd_booted(3))."""
_PROPERTIES: Final = (
    "Id",
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "ConditionResult",
    "ExecMainStatus",
    "NRestarts",
)
_MOST: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit, in systemd's own words (org.freedesktop.systemd1(5)).

    Attributes:
        name: with its suffix.
        load: ``loaded``, ``not-found``, ``masked``.
        active: ``active``, ``inactive``, ``failed``, ``activating``.
        result: how its last run ended: ``success``, ``exit-code``, ``watchdog``, ``start-limit-hit``.
        condition: whether what it is to be started under was met the last time.
        status: the exit status of its last run.
        restarts: how often it was restarted by itself.
    """

    name: str
    load: str
    active: str
    result: str
    condition: bool
    status: int
    restarts: int


def units(names: Sequence[str], patience: timedelta) -> Sequence[Unit]:
    """Ask for units; nothing where systemd does not manage the services.

    Raises:
        OSError: it cannot be asked.
        TimeoutError: it has not answered in time.
    """
    if not RUNS.exists():
        return []
    words = ["systemctl", "show", "--no-pager", f"--property={','.join(_PROPERTIES)}", "--", *names]
    try:
        done = subprocess.run(  # noqa: S603 - our own words, no shell
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=patience.total_seconds(),
            check=False,
            env={"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath)},
        )
    except subprocess.TimeoutExpired as why:
        raise TimeoutError("systemctl does not answer") from why
    if done.returncode != 0:
        raise OSError(done.stderr.decode("utf-8", "replace").strip()[:200] or "systemctl fails")
    text = done.stdout[:_MOST].decode("utf-8", "replace")
    return [_unit(_fields(block)) for block in text.split("\n\n") if block.strip()]


def _fields(block: str) -> Mapping[str, str]:
    return {name: value for name, _, value in (line.partition("=") for line in block.splitlines())}


def _unit(fields: Mapping[str, str]) -> Unit:
    return Unit(
        name=fields.get("Id", ""),
        load=fields.get("LoadState", ""),
        active=fields.get("ActiveState", ""),
        result=fields.get("Result", ""),
        condition=fields.get("ConditionResult", "yes") == "yes",
        status=_number(fields.get("ExecMainStatus", "")),
        restarts=_number(fields.get("NRestarts", "")),
    )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0
