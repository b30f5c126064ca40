"""The policy's source: fetched by a process of its own, verified here.

    work folder/<errand>/trusted   what is held, for the fetching process to begin with
                        /part      what it has fetched so far
                        /fetched   all of it, in the layout of the repository: moved here in one step

The process (``edgeagent fetch-policy``, see ``edgeagent/fetcher``) touches the network and strangers' bytes,
knows nothing of the store, and is killed when it takes too long. What it leaves is judged anew from here,
by the same code over the folder, with the held state from the store: that what it left was changed or is
gone makes no difference to what is believed. The work folder is emptied before each fetch.
"""

import asyncio
import os
import shutil
import sys
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Final

from edgeagent.adapters.metadata.reading import FolderReader
from edgeagent.adapters.metadata.verifying import lay_out, published, relisted, stands_behind
from edgeagent.contracts.scalars import timestamp_text
from edgeagent.core.catalogue import Listing
from edgeagent.errors import StorageError, TransientError
from edgeagent.ids import Digest
from edgeagent.ports.fetch_environment import environment
from edgeagent.ports.links import LinkError, Trouble
from edgeagent.ports.policy_source import Held, Published

TRUSTED: Final = "trusted"
"""The part of the work folder that the fetching process begins with."""
PART: Final = "part"
"""Where it puts what it has fetched so far."""
FETCHED: Final = "fetched"
"""Where all of it lies in the end."""

_SAID_BYTES: Final = 2000


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

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings
        root = settings.root
        self._pin = None if root is None else Digest(sha256(root).hexdigest())

    def vouches(self, held: Held) -> bool:
        """See ``PolicySource``. Where the pinned root cannot be read, the one that was counts."""
        root = self._settings.root
        return root is None or held.pin == self._pin or stands_behind(root, held)

    def relisted(self, held: Held) -> Listing:
        """See ``PolicySource``."""
        return relisted(held)

    async def published(self, held: Held | None, now: datetime) -> Published:
        """See ``PolicySource``."""
        bootstrap, pin = self._begin_with(held)
        work = self._settings.work
        # A name of its own: should we be killed, the process goes on for a while in a folder that is no more.
        errand = work / token_hex(8)
        try:
            await asyncio.to_thread(self._prepare, errand, bootstrap, held)
            await self._fetch(errand, now)
            reader = FolderReader(errand / FETCHED)
            return await asyncio.to_thread(published, reader, bootstrap, held, now, pin)
        finally:
            await asyncio.to_thread(shutil.rmtree, work, ignore_errors=True)

    def _begin_with(self, held: Held | None) -> tuple[bytes, Digest]:
        """The root that trust begins with: the newest that goes back to the pinned one."""
        if held is not None and (self._pin is None or held.pin == self._pin):
            return held.metadata.root, held.pin
        if self._settings.root is None or self._pin is None:
            raise LinkError(Trouble.UNREACHABLE, "the file of the first root cannot be read")
        return self._settings.root, self._pin

    def _prepare(self, errand: Path, bootstrap: bytes, held: Held | None) -> None:
        work = self._settings.work
        try:
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(mode=0o700)
            errand.mkdir()
            lay_out(errand / TRUSTED, bootstrap, held)
        except OSError as why:
            raise StorageError(f"cannot write to {work}: {why.strerror}") from why

    async def _fetch(self, errand: Path, now: datetime) -> None:
        settings = self._settings
        process = await self._process(errand, now)
        try:
            async with asyncio.timeout(settings.longest.total_seconds()):
                _, said = await process.communicate()
        except TimeoutError as why:
            raise LinkError(Trouble.UNREACHABLE, f"not fetched within {settings.longest}") from why
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            complaint = " ".join(said[-_SAID_BYTES:].decode(errors="replace").split())
            raise LinkError(
                Trouble.UNREACHABLE,
                complaint.removeprefix("edgeagent: ") or f"the fetch ended with {process.returncode}",
            )

    async def _process(self, errand: Path, now: datetime) -> asyncio.subprocess.Process:
        settings = self._settings
        words = ["--from", settings.place, "--into", str(errand), "--now", timestamp_text(now)]
        if settings.ca_file is not None:
            words += ["--ca-file", str(settings.ca_file)]
        try:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "edgeagent", "fetch-policy", *words),
                env=environment(os.environ, settings.proxy),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as why:
            raise TransientError(f"cannot start the fetch: {why.strerror}") from why
