"""Long work beside the store's writer: one at a time, and ended when the agent stops."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from edgeagent.store.database import Database
from edgeagent.store.side import GaveUpError, Side

T = TypeVar("T")


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

    def stop(self) -> None:
        """Have what runs give up, and begin nothing more."""
        self._is_over = True
        if self._present is not None:
            self._present.stop()
