"""What of our memory is resident: what the start alone needed is let go soon after it (SPEC H7)."""

import asyncio
import logging
from datetime import timedelta
from typing import Final

from edgeagent.adapters.mapped_files import let_go

log = logging.getLogger(__name__)

_AFTER_START: Final = timedelta(seconds=10)
# What is used once in a while comes back a page at a time; over days that would be most of it.
_EVERY: Final = timedelta(hours=1)


async def stay_small() -> None:
    """Let go of what the start has used, and later of what was used once; ends only by cancellation."""
    await asyncio.sleep(_AFTER_START.total_seconds())
    while True:
        log.debug("program files let go", extra={"bytes": let_go()})
        await asyncio.sleep(_EVERY.total_seconds())
