"""The source of files, as the agent has it: a process of its own for each fetch.

The process (``edgeagent fetch-artifact``, see ``edgeagent/artifact_fetcher``) touches the network and
strangers' bytes, knows nothing of the store, may write no larger file than the one that is fetched, and is
killed when it takes too long. What it says is bounded and read as a stranger's words.
"""

import asyncio
import os
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

from typing_extensions import override

from edgeagent.adapters.artifacts.errand import Bounds
from edgeagent.contracts.door import decode
from edgeagent.contracts.fetching import LINE_BYTES, FetchLine, FetchTrouble
from edgeagent.contracts.scalars import duration_text
from edgeagent.errors import MalformedError, TransientError
from edgeagent.ports.artifacts import ArtifactSource, FetchError, SignedFile
from edgeagent.ports.fetch_environment import environment

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


class FetchProcess(ArtifactSource):
    """Starts a process for each file."""

    def __init__(self, settings: ArtifactSourceSettings) -> None:
        self._settings = settings

    @override
    async def bring(self, file: SignedFile, part: Path, tell: Callable[[int], None]) -> int:
        process = await self._process(file, part)
        longest = self._settings.bounds.whole + _GRACE
        try:
            # A file of others beside it is none of its business, and none may grow for ever.
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (file.length, file.length))
            async with asyncio.timeout(longest.total_seconds()):
                began_at, last = await _told(process, tell)
                status = await process.wait()
        except TimeoutError as why:
            raise FetchError(FetchTrouble.TOO_SLOW, f"not fetched within {longest}") from why
        except ProcessLookupError:  # it is over already, and has said why
            began_at, last = await _told(process, tell)
            status = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if last is not None and last.trouble is not None:
            waits = None if last.retry_after is None else timedelta(seconds=last.retry_after)
            raise FetchError(last.trouble, last.why, waits)
        if status != 0 or last is None:
            raise FetchError(FetchTrouble.FAILED, f"the fetching process ended with {status}")
        return began_at

    async def _process(self, file: SignedFile, part: Path) -> asyncio.subprocess.Process:
        settings, bounds = self._settings, self._settings.bounds
        words = ["--from", settings.place, "--artifact", file.artifact, "--target", file.path]
        words += ["--sha256", file.sha256, "--length", str(file.length), "--into", str(part)]
        for word, length in (
            ("connect", bounds.connect),
            ("idle", bounds.idle),
            ("whole", bounds.whole),
            ("window", bounds.window),
        ):
            words += [f"--{word}", duration_text(length)]
        words += ["--least-rate", str(bounds.least_rate), "--reserve", str(bounds.reserve)]
        if settings.ca_file is not None:
            words += ["--ca-file", str(settings.ca_file)]
        try:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "edgeagent", "fetch-artifact", *words),
                env=environment(os.environ, settings.proxy),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=LINE_BYTES,
            )
        except OSError as why:
            raise TransientError(f"cannot start the fetch: {why.strerror}") from why


async def _told(
    process: asyncio.subprocess.Process, tell: Callable[[int], None]
) -> tuple[int, FetchLine | None]:
    """Read what the process says.

    Returns:
        How many bytes lay there before, and its last line.

    Raises:
        FetchError: it is nothing that the process says.
    """
    began_at, last = 0, None
    lines = process.stdout
    try:
        while line := b"" if lines is None else await lines.readline():
            last = decode(FetchLine, line, limit=LINE_BYTES)
            began_at = began_at if last.began_at is None else last.began_at
            tell(last.bytes)
    except (MalformedError, ValueError) as why:
        raise FetchError(FetchTrouble.FAILED, "the fetching process says what nobody understands") from why
    return began_at, last
