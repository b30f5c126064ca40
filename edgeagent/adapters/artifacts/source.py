"""The source of files, as the agent has it: for each fetch a process of its own that it does not trust.

The process (``edgeagent fetch``, see ``edgeagent/fetcher``) touches the network and strangers' bytes. Of the
agent it has one open file, the part to go on with, which it lets grow no longer than was signed. What it
writes is believed by nobody; what it says is bounded and read as a stranger's words.
"""

import asyncio
import os
from collections.abc import Callable
from dataclasses import field
from datetime import timedelta
from pathlib import Path
from typing import Final

from typing_extensions import override

from edgeagent.adapters.artifacts.opening import note_tag, opened, tag_of
from edgeagent.contracts.fetching import Bounds, FetchLine, FetchTrouble, FileErrand
from edgeagent.ports.artifacts import ArtifactSource, FetchError, SignedFile
from edgeagent.ports.fetcher import Fetcher, Parcel, authorities, enclosures
from edgeagent.values import dataclass

# What the process may take beyond the time that it gives itself: to start, and to say why it ends.
_GRACE: Final = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactSourceSettings:
    """Where files come from.

    Attributes:
        place: the repository: an address, or the path of a folder.
        ca_file: the authorities that count, PEM; the system's where absent.
        proxy: to go through on the way to an ``https`` address; nothing is read from the environment.
        bounds: what each fetch is held to.
    """

    place: str
    ca_file: Path | None = None
    proxy: str | None = field(default=None, repr=False)  # it may hold a password
    bounds: Bounds = field(default_factory=Bounds)


class FetchedFiles(ArtifactSource):
    """Sends a process for each file."""

    def __init__(self, settings: ArtifactSourceSettings, fetcher: Fetcher) -> None:
        self._settings = settings
        self._fetcher = fetcher

    @override
    async def bring(self, file: SignedFile, part: Path, tell: Callable[[int], None]) -> int:
        handle = await asyncio.to_thread(opened, part)
        longest = self._settings.bounds.whole + _GRACE
        began_at = 0
        last: FetchLine | None = None
        try:
            parcel = await asyncio.to_thread(self._parcel, file, handle)
            async with asyncio.timeout(longest.total_seconds()), self._fetcher.sent(parcel) as lines:
                async for last, _ in lines:
                    began_at = began_at if last.began_at is None else last.began_at
                    if last.tag is not None:
                        note_tag(handle, last.tag)
                    tell(last.bytes)
        except TimeoutError as why:
            raise FetchError(FetchTrouble.TOO_SLOW, f"not fetched within {longest}") from why
        finally:
            os.close(handle)
        _check(last)
        return began_at

    def _parcel(self, file: SignedFile, handle: int) -> Parcel:
        settings = self._settings
        files = authorities(settings.ca_file)
        errand = FileErrand(
            place=settings.place,
            proxy=settings.proxy,
            enclosed=enclosures(files),
            artifact=file.artifact,
            sha256=file.sha256,
            length=file.length,
            path=file.path,
            tag=tag_of(handle)[:200],
            bounds=settings.bounds,
        )
        return Parcel(errand=errand, files=tuple(files.values()), handle=handle)


def _check(last: FetchLine | None) -> None:
    """Look how it ended.

    Raises:
        FetchError: without the file.
    """
    if last is None or last.trouble is None:
        return
    waits = None if last.retry_after is None else timedelta(seconds=last.retry_after)
    raise FetchError(last.trouble, last.why, waits)
