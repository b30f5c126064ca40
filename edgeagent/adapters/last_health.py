"""The last health report as a file, for when the agent is down.

It lies in the run directory, which is memory on a hub: writing it each minute wears no card.
"""

import asyncio
import logging
import os
from pathlib import Path
from typing import Final

from edgeagent.contracts.door import encode
from edgeagent.ports.operator import Operator

log = logging.getLogger(__name__)

_EVERY: Final = 60.0
_START: Final = 3.0


class LastHealth:
    """Keeps ``last-health.json`` up to date."""

    def __init__(self, path: Path, operator: Operator) -> None:
        self._path = path
        self._operator = operator
        self._why = ""

    async def run(self) -> None:
        """Write the report when the start is over and then each minute; ends only by cancellation."""
        await asyncio.sleep(_START)
        while True:
            self._write(encode(await self._operator.health()))
            await asyncio.sleep(_EVERY)

    def _write(self, report: bytes) -> None:
        """Replace the file; one that cannot be written is told once and is no reason to stop."""
        try:
            self._replace(report)
        except OSError as why:
            if not self._why:
                log.warning("last health report not written", extra={"why": str(why)})
            self._why = str(why)
        else:
            self._why = ""

    def _replace(self, report: bytes) -> None:
        """Readers see the old report or the new one, never half of one."""
        half = self._path.with_suffix(".new")
        handle = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        with os.fdopen(handle, "wb") as file:
            # It is for everybody, whatever the umask of a unit.
            os.fchmod(file.fileno(), 0o644)
            file.write(report)
        half.replace(self._path)
