"""Long work beside the store's writer: one at a time, and ended when the agent stops."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, TypeVar

from edgeagent.errors import StorageError
from edgeagent.store.database import Database
from edgeagent.store.side import GaveUpError, Side

log = logging.getLogger(__name__)

T = TypeVar("T")
LONG_LOG: Final = 8 * 1024 * 1024
"""How many bytes a log has that is cut; SQLite itself begins anew at 4 MiB and keeps the file as it is."""


class Beside:
    """Runs such work in a thread of its own, so that neither the loop nor the writer waits for it."""

    def __init__(self, store: Database) -> None:
        self._store = store
        self._turn = asyncio.Lock()
        self._present: Side | None = None
        self._is_over = False

    @property
    def is_busy(self) -> bool:
        """Whether such work is going on."""
        return self._turn.locked()

    async def run(self, work: Callable[[Side], T]) -> T:
        """Run a function of a ``Side`` after those that came before it.

        When the caller is cancelled the work is told to stop, and waited for.

        Raises:
            GaveUpError: it was ended before it was done.
            Exception: whatever ``work`` raises.
        """
        async with self._turn:
            await self._cut_log()
            if self._is_over:
                raise GaveUpError("the agent is stopping")
            side = self._present = Side(self._store.path)
            task = asyncio.ensure_future(asyncio.to_thread(work, side))
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                side.stop()
                await asyncio.wait([task])
                raise
            finally:
                self._present = None

    async def _cut_log(self) -> None:
        """Cut a log that was long once: by its length such work sees that too much is being written."""
        if self._store.log_bytes <= LONG_LOG:
            return
        try:
            await self._store.checkpoint()
        except StorageError as why:
            log.warning("log not cut", extra={"why": str(why)})

    def stop(self) -> None:
        """Have what runs give up, and begin nothing more."""
        self._is_over = True
        if self._present is not None:
            self._present.stop()
