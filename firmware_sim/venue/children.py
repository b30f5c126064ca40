"""The venue's processes: each in a session and group of its own, ended by its own id.

So a Ctrl-C at the terminal reaches the venue alone, which then ends them in order: SIGTERM first, SIGKILL
for whatever does not go. Where ``setpriv`` is at hand the kernel ends them too should the venue itself be
killed. Whatever they say goes to a file of their name in the folder of logs.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from firmware_sim.venue.errors import VenueError

ROOT: Final = Path(__file__).parents[2]
_LONGEST_LINE: Final = 2**20
_GOING: Final = 5.0
_LAST_WORDS: Final = 2000
# What a supervisor of ours has told us is not meant for them; nor is another hub's configuration.
_OURS: Final = frozenset({"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "CREDENTIALS_DIRECTORY"})
_FOREIGN: Final = "EDGEAGENT_"


@dataclass(frozen=True, slots=True)
class Finished:
    """What a short program left.

    Attributes:
        status: its exit status.
        out: what it printed.
        err: what it complained of.
    """

    status: int
    out: str
    err: str


class Child:
    """One running process.

    Args:
        name: for people, and of its log.
        process: itself.
        log: where it complains.
    """

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self._process = process
        self.log = log

    @property
    def pid(self) -> int:
        """Its id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.returncode is None

    async def line(self, *, within: float) -> str:
        """The next line that it prints.

        Raises:
            VenueError: it has ended, or says nothing in time.
        """
        assert self._process.stdout is not None, "it was not started to talk"  # noqa: S101 - our mistake
        try:
            async with asyncio.timeout(within):
                line = await self._process.stdout.readline()
        except TimeoutError as why:
            raise self.trouble(f"says nothing for {within:g} s") from why
        if not line:
            raise self.trouble("has ended")
        return line.decode()

    async def say(self, line: str) -> None:
        """Write a line to its standard input."""
        assert self._process.stdin is not None, "it was not started to talk"  # noqa: S101 - our mistake
        self._process.stdin.write(line.encode() + b"\n")
        try:
            await self._process.stdin.drain()
        except ConnectionError as why:
            raise self.trouble("does not listen") from why

    async def ended(self) -> None:
        """Wait until it has ended."""
        await self._process.wait()

    async def kill(self) -> None:
        """End it on the spot, as a power cut would."""
        self._signal(signal.SIGKILL)
        await self._process.wait()

    async def stop(self) -> int:
        """Ask it to end, and end it if it does not.

        Returns:
            Its exit status; negative for the signal that ended it.
        """
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_GOING):
                return await self._process.wait()
        except TimeoutError:
            await self.kill()
            return await self._process.wait()

    def trouble(self, what: str) -> VenueError:
        """An error about it, with its last words."""
        with suppress(OSError):
            words = self.log.read_text("utf-8", "replace")[-_LAST_WORDS:].strip()
            if words:
                return VenueError(f"the {self.name} {what}. Its last words:\n{words}")
        return VenueError(f"the {self.name} {what}")

    def kill_at_once(self) -> None:
        """Send SIGKILL and do not wait."""
        self._signal(signal.SIGKILL)

    async def finish(self, given: bytes, *, within: float) -> Finished:
        """Give it its input, and take what it prints until it ends.

        Raises:
            VenueError: it does not end in time.
        """
        try:
            async with asyncio.timeout(within):
                out, _ = await self._process.communicate(given)
        except TimeoutError as why:
            raise self.trouble(f"does not end within {within:g} s") from why
        status = self._process.returncode
        return Finished(
            -1 if status is None else status, out.decode(), self.log.read_text("utf-8", "replace")
        )

    def _signal(self, number: signal.Signals) -> None:
        if self.alive:
            # Its group has its id: whatever it has started itself goes with it.
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)


class Children:
    """All processes of a venue.

    Args:
        logs: the folder of what they say.

    Attributes:
        closing: whether they are being ended; it must not be cancelled then.
    """

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._living: set[Child] = set()
        self._runs = 0
        self.closing = False

    async def start(self, name: str, command: Sequence[str], *, talks: bool = False) -> Child:
        """Start a process.

        Args:
            name: for people, and of its log.
            command: its program and arguments.
            talks: whether it takes lines from us and tells us some; else all it prints goes to its log.

        Raises:
            VenueError: there is no such program.
        """
        log = self._logs / f"{name}.log"
        with log.open("ab") as written:
            try:
                process = await asyncio.create_subprocess_exec(
                    *_bound_to_us(),
                    *command,
                    stdin=asyncio.subprocess.PIPE if talks else asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE if talks else written,
                    stderr=written,
                    start_new_session=True,
                    limit=_LONGEST_LINE,
                    cwd=ROOT,
                    env={name: text for name, text in os.environ.items() if not _is_ours(name)},
                )
            except OSError as why:
                raise VenueError(f"cannot start {command[0]}: {why.strerror}") from why
        child = Child(name, process, log)
        self._living.add(child)
        return child

    async def run(self, command: Sequence[str], *, given: bytes = b"", within: float = 30.0) -> Finished:
        """Run a short program to its end.

        Raises:
            VenueError: it does not end in time.
        """
        self._runs += 1
        child = await self.start(f"call-{self._runs}", command, talks=True)
        try:
            return await child.finish(given, within=within)
        finally:
            await child.kill()
            child.log.unlink(missing_ok=True)
            self._living.discard(child)

    async def close(self) -> None:
        """End whatever still runs."""
        self.closing = True
        await asyncio.gather(*(child.stop() for child in self._living))
        self._living.clear()

    def kill_all(self) -> None:
        """End whatever still runs on the spot, for somebody who does not want to wait."""
        for child in self._living:
            child.kill_at_once()


def _bound_to_us() -> list[str]:
    setpriv = shutil.which("setpriv")
    return [] if setpriv is None else [setpriv, "--pdeathsig", "KILL", "--"]


def _is_ours(name: str) -> bool:
    return name in _OURS or name.startswith(_FOREIGN)
