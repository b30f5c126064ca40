"""A fetching process that is the agent's own child: for a hub without units, and for tries.

It is of the agent's user and in the agent's sandbox. What keeps a stranger's bytes from the agent then is
that it is another process, which has no secret, no handle but its own, and has given up what it can.
"""

import asyncio
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from typing_extensions import override

from edgeagent.adapters.fetcher.environment import environment
from edgeagent.adapters.fetcher.talk import conversation
from edgeagent.contracts.fetching import FetchTrouble
from edgeagent.ports.artifacts import FetchError
from edgeagent.ports.fetcher import Fetcher, Lines, Parcel


class InsideFetcher(Fetcher):
    """Starts a child for each errand, with a folder of its own to work in.

    Args:
        folder: where those folders are made. What a killed agent has left there is for ``clear_left``.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @override
    @asynccontextmanager
    async def sent(self, parcel: Parcel) -> AsyncIterator[Lines]:
        # The child may be killed in the middle: what it was working on is removed for it.
        scratch = await asyncio.to_thread(_scratch, self._folder)
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = await _started(theirs, scratch)
            try:
                async with conversation(ours, parcel) as lines:
                    yield lines
            finally:
                if process.returncode is None:
                    with suppress(ProcessLookupError):
                        process.kill()
                await process.wait()
        finally:
            ours.close()
            await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)


def clear_left(folder: Path) -> None:
    """Remove what an agent that was killed has left of its errands; for one that has begun none yet."""
    shutil.rmtree(folder, ignore_errors=True)


def _scratch(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        return Path(tempfile.mkdtemp(dir=folder))
    except OSError as why:
        raise FetchError(FetchTrouble.NO_SPACE, f"no room to work in: {why.strerror}") from why


async def _started(channel: socket.socket, scratch: Path) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *("-P", "-m", "edgeagent", "fetch"),
            env=environment(os.environ, sys.path, scratch),
            stdin=channel.fileno(),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError as why:
        raise FetchError(FetchTrouble.FAILED, f"cannot start the fetch: {why.strerror}") from why
