"""A file's errand: what is missing of it goes behind what lies there, and nowhere else."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

from edgeagent.adapters.artifacts.errand import Errand
from edgeagent.adapters.artifacts.folder import copy
from edgeagent.adapters.artifacts.part import Part
from edgeagent.contracts.fetching import AUTHORITIES, FetchLine, FileErrand
from edgeagent.ports.artifacts import SignedFile
from edgeagent.rights import write_at_most

_EVERY: Final = 0.25


class Progress:
    """Says how far it is, a few times a second.

    Args:
        say: says a line.
    """

    def __init__(self, say: Callable[[FetchLine], None]) -> None:
        self._say = say
        self._last = 0.0
        self.size = 0

    def tell(self, size: int) -> None:
        """Note how many bytes lie there."""
        self.size, now = size, time.monotonic()
        if now - self._last >= _EVERY:
            self._last = now
            self._say(FetchLine(bytes=size))

    def begin(self, size: int) -> None:
        """Say how many lay there before."""
        self.size = size
        self._say(FetchLine(bytes=size, began_at=size))

    def tell_tag(self, tag: str) -> None:
        """Say what the server calls the version that comes."""
        self._say(FetchLine(bytes=self.size, tag=tag))


def fetch(asked: FileErrand, files: Mapping[str, bytes], handle: int, progress: Progress) -> None:
    """Fetch what is missing; how many bytes lie there in the end is the progress's.

    Args:
        asked: of what file, from where.
        files: the authorities that count.
        handle: the part that has what came so far, opened.
        progress: is told how far it is.

    Raises:
        FetchError: not all of it is there.
        MalformedError: the errand names no file of a repository.
    """
    file = SignedFile(artifact=asked.artifact, sha256=asked.sha256, length=asked.length, path=asked.path)
    # From here on this process can make no file longer, whoever runs in it.
    write_at_most(file.length)
    errand = Errand(
        place=asked.place,
        file=file,
        tell=progress.tell,
        tell_tag=progress.tell_tag,
        bounds=asked.bounds,
        authorities=files.get(AUTHORITIES),
        proxy=asked.proxy,
    )
    with Part(handle, file.length, asked.bounds.reserve, asked.tag) as part:
        try:
            progress.begin(part.size)
            _bring(errand, part)
        finally:
            progress.size = part.size


def _bring(errand: Errand, part: Part) -> None:
    if part.is_whole:
        return
    if errand.is_web:
        # aiohttp takes a third of a second to import; a folder has no need of it.
        from edgeagent.adapters.artifacts.web import download

        asyncio.run(download(errand, part))
    else:
        copy(errand, part)
