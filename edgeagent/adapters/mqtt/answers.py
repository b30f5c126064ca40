"""Who waits for the broker's answer to which packet, and for how long."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from edgeagent.ports.links import LinkError, Trouble

T = TypeVar("T")


class Answers:
    """The packets of one connection that the broker has not answered.

    Args:
        within: how long an answer may take.
        overdue: told when one did not come: the connection is then worth nothing.
    """

    def __init__(self, within: timedelta, overdue: Callable[[LinkError], None]) -> None:
        self._within = within
        self._overdue = overdue
        self._expected: dict[int, asyncio.Future[list[int]]] = {}
        self._over: LinkError | None = None

    def expect(self, packet_id: int | None) -> asyncio.Future[list[int]]:
        """What the answer to a packet will come by; None for a packet that could not be sent.

        Raises:
            LinkError: the connection is over.
        """
        if self._over is not None or packet_id is None:
            raise self._over or LinkError(Trouble.UNREACHABLE, "no connection to the broker")
        future: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
        self._expected[packet_id] = future
        future.add_done_callback(lambda _: self._expected.pop(packet_id, None))
        return future

    def came(self, packet_id: int, codes: list[int]) -> None:
        """Hand over the reason codes of an answer; one that nobody waits for is dropped."""
        future = self._expected.get(packet_id)
        if future is not None and not future.done():
            future.set_result(codes)

    async def in_time(self, future: asyncio.Future[T], what: str) -> T:
        """Wait for an answer to ``what``.

        Raises:
            LinkError: the connection is over, or is now, since the answer did not come.
        """
        try:
            async with asyncio.timeout(self._within.total_seconds()):
                return await future
        except TimeoutError:
            why = LinkError(Trouble.UNREACHABLE, f"no answer to {what}")
            self._overdue(why)
            raise why from None

    def end(self, why: LinkError) -> None:
        """Tell all who wait that no answer will come."""
        self._over = why
        for future in list(self._expected.values()):
            if not future.done():
                future.set_exception(why)
