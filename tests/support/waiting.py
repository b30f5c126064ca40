"""Waiting for something to come true, with a deadline; the only place where a test lets time pass."""

import asyncio
from collections.abc import Callable
from typing import Final

DEADLINE: Final = 60.0
"""Seconds after which a condition counts as never coming true; a slow machine is not a failure."""

_STEP: Final = 0.005


async def eventually(condition: Callable[[], object], *, within: float = DEADLINE) -> None:
    """Return as soon as ``condition`` holds.

    Raises:
        TimeoutError: it did not hold in time.
    """
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 - the condition is another process's, which sets no event
            await asyncio.sleep(_STEP)
