"""The policy's source: fetched by a process of its own, verified here.

The process (``edgeagent fetch``, see ``edgeagent/fetcher``) touches the network and strangers' bytes. It is
given what is held, and gives back what it has fetched, byte for byte, which is laid into the work folder in
the layout of the repository. That is judged anew from here, by the same code over the folder, with the held
state from the store: whatever the process has changed or left out makes no difference to what is believed.
The work folder is emptied before each fetch, and removed after it.
"""

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import IO, Final

from edgeagent.adapters.metadata.laid import below, trusted_files
from edgeagent.contracts.fetching import FetchLine, FetchTrouble, PolicyErrand
from edgeagent.core.catalogue import Listing
from edgeagent.errors import MalformedError, StorageError
from edgeagent.ids import Digest
from edgeagent.ports.artifacts import FetchError
from edgeagent.ports.fetcher import Fetcher, Parcel, authorities, enclosures
from edgeagent.ports.links import LinkError, Trouble
from edgeagent.ports.policy_source import Held, Published
from edgeagent.values import dataclass

# A hundred roots and policies, and what signs for artifacts.
_MOST_FILES: Final = 400
_TROUBLES: Final[Mapping[FetchTrouble, Trouble]] = {
    FetchTrouble.TLS: Trouble.TLS,
    FetchTrouble.BUSY: Trouble.BUSY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """Where the policy comes from.

    Attributes:
        place: the repository: an address, or the path of a folder.
        root: the first root; None where its file cannot be read: then only what is held can go on.
        work: a folder that nobody else uses.
        ca_file: the authorities that count, PEM; the system's where absent.
        proxy: to go through on the way to an ``https`` address; nothing is read from the environment.
        longest: for a whole fetch.
    """

    place: str
    root: bytes | None
    work: Path
    ca_file: Path | None = None
    proxy: str | None = field(default=None, repr=False)  # it may hold a password
    longest: timedelta = timedelta(minutes=2)


class TufSource:
    """A ``PolicySource`` over a repository of The Update Framework."""

    def __init__(self, settings: SourceSettings, fetcher: Fetcher) -> None:
        self._settings = settings
        self._fetcher = fetcher
        root = settings.root
        self._pin = None if root is None else Digest(sha256(root).hexdigest())

    def vouches(self, held: Held) -> bool:
        """See ``PolicySource``. Where the pinned root cannot be read, the one that was counts."""
        root = self._settings.root
        if root is None or held.pin == self._pin:
            return True
        from edgeagent.adapters.metadata.verifying import stands_behind

        return stands_behind(root, held)

    def relisted(self, held: Held) -> Listing:
        """See ``PolicySource``."""
        from edgeagent.adapters.metadata.verifying import relisted

        return relisted(held)

    async def published(self, held: Held | None, now: datetime) -> Published:
        """See ``PolicySource``."""
        bootstrap, pin = self._begin_with(held)
        work = self._settings.work
        try:
            await asyncio.to_thread(self._prepare)
            await self._fetch(trusted_files(bootstrap, held), now)
            return await asyncio.to_thread(_judged, work, bootstrap, held, now, pin)
        finally:
            await asyncio.to_thread(shutil.rmtree, work, ignore_errors=True)

    def _begin_with(self, held: Held | None) -> tuple[bytes, Digest]:
        """The root that trust begins with: the newest that goes back to the pinned one."""
        if held is not None and (self._pin is None or held.pin == self._pin):
            return held.metadata.root, held.pin
        if self._settings.root is None or self._pin is None:
            raise LinkError(Trouble.UNREACHABLE, "the file of the first root cannot be read")
        return self._settings.root, self._pin

    def _prepare(self) -> None:
        work = self._settings.work
        try:
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(mode=0o700)
        except OSError as why:
            raise StorageError(f"cannot write to {work}: {why.strerror}") from why

    async def _fetch(self, trusted: Mapping[str, bytes], now: datetime) -> None:
        longest = self._settings.longest
        try:
            async with asyncio.timeout(longest.total_seconds()):
                last = await self._fetched(await asyncio.to_thread(self._parcel, trusted, now))
        except TimeoutError as why:
            raise LinkError(Trouble.UNREACHABLE, f"not fetched within {longest}") from why
        except FetchError as why:
            raise LinkError(_TROUBLES.get(why.trouble, Trouble.UNREACHABLE), str(why)) from why
        if last is not None and last.trouble is not None:
            raise LinkError(_TROUBLES.get(last.trouble, Trouble.UNREACHABLE), last.why or last.trouble)

    async def _fetched(self, parcel: Parcel) -> FetchLine | None:
        """Lay down what comes.

        Returns:
            The last line.
        """
        kept, line = _Kept(self._settings.work), None
        try:
            async with self._fetcher.sent(parcel) as lines:
                async for line, piece in lines:
                    if line.name is not None or piece:
                        await asyncio.to_thread(kept.add, line.name, piece)
        finally:
            kept.close()
        return line

    def _parcel(self, trusted: Mapping[str, bytes], now: datetime) -> Parcel:
        settings = self._settings
        files = dict(trusted) | authorities(settings.ca_file)
        errand = PolicyErrand(place=settings.place, proxy=settings.proxy, enclosed=enclosures(files), now=now)
        return Parcel(errand=errand, files=tuple(files.values()))


def _judged(work: Path, bootstrap: bytes, held: Held | None, now: datetime, pin: Digest) -> Published:
    """Verify what lies in a folder."""
    # Loaded when something has come, and not with the start, which need not wait for it.
    from edgeagent.adapters.metadata.reading import FolderReader
    from edgeagent.adapters.metadata.verifying import published

    return published(FolderReader(work), bootstrap, held, now, pin)


class _Kept:
    """The files that have come: below a folder, and not too many. How large they are was bounded before."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._count = 0

    def add(self, name: str | None, piece: bytes) -> None:
        """Begin a file, or go on with the one before.

        Raises:
            FetchError: that is no file of a repository.
            StorageError: the disk does not take it.
        """
        try:
            if name is not None:
                self.close()
                self._file = self._begun(name)
            if self._file is None:
                raise FetchError(FetchTrouble.FAILED, "the fetching process gives bytes of no file")
            self._file.write(piece)
        except OSError as why:
            raise StorageError(f"cannot write to {self._folder}: {why.strerror}") from why

    def close(self) -> None:
        """Have what came lie there."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def _begun(self, name: str) -> IO[bytes]:
        self._count += 1
        try:
            path = below(self._folder, name)
        except MalformedError as why:
            raise FetchError(FetchTrouble.FAILED, f"the fetching process gives {why}") from why
        if path.parent.parent != self._folder or self._count > _MOST_FILES:
            raise FetchError(FetchTrouble.FAILED, "the fetching process gives what no repository has")
        path.parent.mkdir(exist_ok=True)
        return path.open("wb")
