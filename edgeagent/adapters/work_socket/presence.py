"""Whether an agent is there, as all connections of a worker see it: each change is told once, not by each."""

import logging
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger(__name__)


class Presence:
    """Hears of the agent from every connection, and tells people of it.

    Args:
        path: the agent's work socket.
        tell: takes a line for ``systemctl status``.
    """

    def __init__(self, path: Path, tell: Callable[[str], None]) -> None:
        self._path = path
        self._tell = tell
        self._is_there: bool | None = None

    def seen(self) -> None:
        """An agent listens."""
        if self._is_there is False:
            log.info("agent listens", extra={"socket": str(self._path)})
        if not self._is_there:
            self._is_there = True
            self._tell("waits for commands, or works them")

    def missed(self, why: str) -> None:
        """None listens, or the one that did is gone."""
        if self._is_there is not False:
            self._is_there = False
            log.warning("no agent listens", extra={"socket": str(self._path), "why": why})
            self._tell(f"waits for the agent: {self._path}: {why}")
