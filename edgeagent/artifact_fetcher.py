"""The process that fetches a file for devices: from a repository into one file, and nothing else.

What it writes is believed by nobody; the agent verifies it. It knows no store, no key and no secret. Each
line that it writes to its standard output is a ``FetchLine``.

    exit 0    as many bytes lie there as were signed
    exit 75   not so now (EX_TEMPFAIL of sysexits.h); the last line says why
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from edgeagent.adapters.artifacts.errand import Errand
from edgeagent.adapters.artifacts.folder import copy
from edgeagent.adapters.artifacts.part import Part
from edgeagent.contracts.fetching import FetchLine
from edgeagent.ports.artifacts import FetchError

EXIT_LATER: Final = 75
_EVERY: Final = 0.25


class Progress:
    """Says how far it is, a few times a second.

    Args:
        say: writes a line.
    """

    def __init__(self, say: Callable[[FetchLine], None]) -> None:
        self._say = say
        self._last = 0.0

    def tell(self, size: int) -> None:
        """Note how many bytes lie there."""
        now = time.monotonic()
        if now - self._last >= _EVERY:
            self._last = now
            self._say(FetchLine(bytes=size))


def fetch(errand: Errand, into: Path, say: Callable[[FetchLine], None]) -> int:
    """Fetch what is missing.

    Args:
        errand: of what file, from where.
        into: the file that has what came so far.
        say: writes a line.

    Returns:
        The exit status.

    Raises:
        ConfigurationError: the authorities' file is none.
    """
    size = 0
    try:
        with Part(into, errand.file.length, errand.bounds.reserve) as part:
            try:
                say(FetchLine(bytes=part.size, began_at=part.size))
                _bring(errand, part)
            finally:
                size = part.size
    except FetchError as why:
        waits = None if why.retry_after is None else why.retry_after.total_seconds()
        say(FetchLine(bytes=size, trouble=why.trouble, why=str(why)[:1000], retry_after=waits))
        return EXIT_LATER
    say(FetchLine(bytes=size))
    return 0


def _bring(errand: Errand, part: Part) -> None:
    if part.is_whole:
        return
    if errand.is_web:
        # aiohttp takes a third of a second to import; a folder has no need of it.
        from edgeagent.adapters.artifacts.web import download

        asyncio.run(download(errand, part))
    else:
        copy(errand, part)
