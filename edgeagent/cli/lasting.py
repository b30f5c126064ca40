"""Words that run until they are told to stop: what they end with."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Final

from edgeagent.errors import AgentError

EXIT_BROKEN: Final = 1
log = logging.getLogger(__name__)


def lasting(work: Coroutine[None, None, None], last_word: str) -> int:
    """Run something to its end; what nobody foresaw is a line of the log that begins with ``last_word``.

    Returns:
        The exit status.

    Raises:
        AgentError: as it came.
    """
    try:
        asyncio.run(work)
    except AgentError:
        raise
    except Exception as why:
        # As a line of the log: a traceback as Python prints it repeats foreign text as it came.
        log.critical(last_word, exc_info=why)
        return EXIT_BROKEN
    return 0
