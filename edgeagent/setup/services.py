"""The hub's units: started and looked at, where systemd runs."""

import subprocess
from pathlib import Path
from typing import Final

from edgeagent.errors import ConfigurationError
from edgeagent.values import dataclass

AGENT: Final = "edgeagent.service"
WORKER: Final = "edgeagent-worker.service"
FETCHER: Final = "edgeagent-fetch.socket"
_RUNS: Final = Path("/run/systemd/system")
_PATIENCE: Final = 120.0


@dataclass(frozen=True, slots=True)
class Services:
    """What systemd runs of a hub.

    Attributes:
        units: their names.
    """

    units: tuple[str, ...] = (AGENT,)

    def start(self, *, is_anew: bool) -> None:
        """Have them run from now on and after each boot.

        Args:
            is_anew: whether those that run already begin anew.

        Raises:
            ConfigurationError: systemd says no.
        """
        _systemctl("enable", *self.units)
        _systemctl("restart" if is_anew else "start", *self.units)

    def idle(self) -> list[str]:
        """Those that do not run.

        Raises:
            ConfigurationError: systemd does not answer.
        """
        return [unit for unit in self.units if _asked("is-active", "--quiet", unit).returncode]


_PROGRAM: Final = "/usr/bin/systemctl"


def has_systemd() -> bool:
    """Whether systemd runs this machine (sd_booted(3))."""
    return _RUNS.is_dir()


def known_units() -> frozenset[str]:
    """Those of our units that are installed."""
    folders = (Path("/lib/systemd/system"), Path("/usr/lib/systemd/system"), Path("/etc/systemd/system"))
    return frozenset(
        unit for unit in (AGENT, WORKER, FETCHER) if any((folder / unit).exists() for folder in folders)
    )


def _systemctl(*words: str) -> None:
    done = _asked(*words)
    if done.returncode:
        raise ConfigurationError(f"systemctl {' '.join(words)}: {done.stderr.strip() or done.returncode}")


def _asked(*words: str) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(  # noqa: S603 - words of ours
            [_PROGRAM, *words], capture_output=True, text=True, check=False, timeout=_PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired) as why:
        raise ConfigurationError(f"systemctl {' '.join(words)}: {why}") from why
