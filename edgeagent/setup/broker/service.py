"""The mosquitto that runs, as whoever configures it needs it."""

import subprocess
from typing import Final, Protocol

from edgeagent.errors import TransientError

UNIT: Final = "mosquitto.service"
_PATIENCE: Final = 60.0


class BrokerService(Protocol):
    """The mosquitto that runs."""

    def reload(self) -> None:
        """Have it read its passwords and rules anew; its clients stay.

        Raises:
            TransientError: it does not run, or does not take it.
        """
        ...

    def restart(self) -> None:
        """Start it anew, or for the first time; its clients have to come again.

        Raises:
            TransientError: it does not come up.
        """
        ...


class SystemdService:
    """The one that systemd runs."""

    def reload(self) -> None:
        """Send it SIGHUP."""
        self._systemctl("reload")

    def restart(self) -> None:
        """Stop and start it."""
        self._systemctl("restart")

    def _systemctl(self, verb: str) -> None:
        command = ["systemctl", verb, UNIT]
        try:
            ended = subprocess.run(  # noqa: S603 - two fixed words
                command, capture_output=True, text=True, timeout=_PATIENCE, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as why:
            raise TransientError(f"{' '.join(command)}: {why}") from why
        if ended.returncode != 0:
            said = (ended.stderr or ended.stdout).strip().splitlines()
            raise TransientError(f"{' '.join(command)}: {said[-1] if said else ended.returncode}")
