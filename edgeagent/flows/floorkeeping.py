"""Keeps the floor file up: at each start, with each new policy, stop and resume, each hour, and at the end.

What is written was read from the database, so that it is on the disk before the file names it: the file
is never ahead of the database that it was written beside (SPEC T8).
"""

import asyncio
import logging
from datetime import timedelta
from functools import partial
from typing import Final

from edgeagent.contracts.floormark import FloorMark
from edgeagent.errors import StorageError
from edgeagent.flows.bells import Bell
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.trust import Trust
from edgeagent.store.database import Database, Snapshot
from edgeagent.store.floorfile import FloorFile
from edgeagent.store.floormarks import mark_of

log = logging.getLogger(__name__)

_EVERY: Final = timedelta(hours=1)


class FloorKeeping:
    """Writes the marks of the floor file.

    Args:
        store: what is marked.
        file: where.
        trust: whose policy is marked; its changes are told.
        around: whose hub it is.
        sequence: of the newest mark that was found; 0 for none.

    Attributes:
        trouble: why the last mark could not be written; empty when it could.
    """

    def __init__(
        self, store: Database, file: FloorFile, trust: Trust, around: Surroundings, sequence: int
    ) -> None:
        self._store = store
        self._file = file
        self._trust = trust
        self._around = around
        self._sequence = sequence
        self._writing = asyncio.Lock()
        self._bell = Bell()
        self._policy_version: int | None = None
        self.trouble = ""
        trust.when_proven(self._look_at_policy)

    async def run(self) -> None:
        """Write when it is time, after the first one; ends only by cancellation."""
        while True:
            await self._bell.wait(_EVERY)
            await self.keep()

    def ring(self) -> None:
        """What is stopped has changed: write soon."""
        self._bell.ring()

    async def keep(self) -> None:
        """Write a mark of what the database holds now. Whether that worked is told by ``trouble``."""
        async with self._writing:
            self._policy_version = self._version()
            try:
                mark = await self._store.read(partial(self._mark, self._policy_version))
                await asyncio.to_thread(self._file.write, mark)
            except StorageError as why:
                if not self.trouble:
                    log.warning("floor file not written", extra={"why": str(why)})
                self.trouble = str(why)
            else:
                self._sequence = mark.sequence
                self.trouble = ""

    def _mark(self, policy_version: int | None, db: Snapshot) -> FloorMark:
        return mark_of(db, self._around.origin.hub, self._sequence + 1, policy_version)

    def _look_at_policy(self) -> None:
        if self._version() != self._policy_version:
            self._bell.ring()

    def _version(self) -> int | None:
        return None if self._trust.policy is None else self._trust.policy.version
