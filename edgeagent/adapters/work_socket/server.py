"""The daemon's end of the work socket.

Each connection is one worker that works one command at a time: it asks, and is answered, one after the
other. Who it is, the kernel tells; who is neither root, the agent's own user nor the worker's is not heard.
When the connection ends, its claim is let go of at once; so it is when a worker does not say a word to the
claim that it was given. Its process has died, or stands still: all that waits there for a command is sent
away before, or the claim would go from one of them to the next.

Whoever breaks the rules (a frame that is too long, half or none of ours, a second question before the
answer, a claim that is not its own, a lie) is answered once more, cut off, and its command is taken over.
"""

import asyncio
import logging
import os
import pwd
import socket
import struct
from collections.abc import Collection
from contextlib import suppress
from dataclasses import field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from edgeagent.adapters.work_socket.asking import Caller
from edgeagent.adapters.work_socket.framing import read_frame, write_frame
from edgeagent.clock import Clock
from edgeagent.contracts.door import decode, encode
from edgeagent.contracts.work import REQUEST_BYTES, WorkAnswer, WorkRequest
from edgeagent.errors import ConfigurationError, MalformedError, SuspiciousError, TransientError
from edgeagent.ports.desk import LendingDesk
from edgeagent.values import dataclass

log = logging.getLogger(__name__)

MOST_CONNECTIONS: Final = 64
"""How many workers may be connected at once; of one process sixteen are."""
FIRST_WORD: Final = timedelta(seconds=5)
"""How soon a worker has to say that it has got its command."""
QUIET: Final = timedelta(minutes=5)
"""After so long without a word a connection is closed."""
_AT_ONCE: Final = 100
_EACH: Final = timedelta(milliseconds=50)
_UCRED: Final = struct.Struct("3i")  # pid, uid, gid of unix(7)


@dataclass(slots=True)
class Crew:
    """The connections of one process.

    Attributes:
        size: how many there are.
        idle: what those wait for that have no command.
        busy: what the others wait for.
    """

    size: int = 0
    idle: set[asyncio.Future[WorkAnswer]] = field(default_factory=set)
    busy: set[asyncio.Future[WorkAnswer]] = field(default_factory=set)

    async def stands_still(self) -> None:
        """Have all that wait give up, before there is anything to be had."""
        await _give_up(self.idle | self.busy)

    async def may_be_gone(self) -> None:
        """Have those give up that have no command; the others speak for themselves, as one may end alone."""
        await _give_up(set(self.idle))


@dataclass(slots=True)
class Pace:
    """How fast a worker may ask: a hundred questions at once, and twenty a second from then on."""

    clock: Clock
    free_at: timedelta = field(default=timedelta(0))

    def wait(self) -> timedelta:
        """Count a question.

        Returns:
            How long it has to wait.
        """
        now = self.clock.boot()
        self.free_at = max(self.free_at, now - _AT_ONCE * _EACH) + _EACH
        return max(timedelta(0), self.free_at - now)


class WorkSocket:
    """Serves a desk on a Unix socket."""

    def __init__(self, path: Path, desk: LendingDesk, user: int | None, clock: Clock) -> None:
        self._path = path
        self._desk = desk
        self._own = user is None
        self._users = {0, os.geteuid()} if user is None else {0, os.geteuid(), user}
        self._clock = clock
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._crews: dict[int, Crew] = {}

    async def open(self) -> None:
        """Listen; a socket that a dead agent left behind is replaced.

        Raises:
            ConfigurationError: there can be no socket at that path.
        """
        # A user of its own gets to it by the agent's group, which is the worker's too.
        before = os.umask(0o177 if self._own else 0o117)
        try:
            self._path.unlink(missing_ok=True)
            self._server = await asyncio.start_unix_server(self._serve, self._path, limit=REQUEST_BYTES)
        except OSError as why:
            raise ConfigurationError(f"[hub] run_dir: no socket at {self._path}: {why}") from why
        finally:
            os.umask(before)

    async def close(self) -> None:
        """Stop listening. What is out is void with this start of the agent."""
        if self._server is None:
            return
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        pid, uid = _peer(writer)
        if task is None or uid not in self._users or len(self._serving) >= MOST_CONNECTIONS:
            log.warning("worker turned away", extra={"pid": pid, "uid": uid, "connected": len(self._serving)})
            writer.close()
            return
        self._serving.add(task)
        crew = self._crews.setdefault(pid, Crew())
        crew.size += 1
        caller = Caller(self._desk, f"{_name(uid)}:{pid}")
        try:
            await self._converse(caller, crew, (reader, writer))
        except TransientError:
            # Once for all connections of it.
            if crew.size == 1:
                log.info("worker gone", extra={"pid": pid})
        except (MalformedError, SuspiciousError) as why:
            log.warning("worker cut off", extra={"pid": pid, "uid": uid, "why": str(why)})
        except asyncio.CancelledError:
            # By ``close``, and by nobody else: what is out is void with this start, and asyncio would
            # tell the end of a connection as an error.
            caller.forget()
        finally:
            self._serving.discard(task)
            crew.size -= 1
            if not crew.size:
                self._crews.pop(pid, None)
            writer.close()
            if caller.has_claim:
                await crew.may_be_gone()
            await caller.let_go()

    async def _converse(
        self, caller: Caller, crew: Crew, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    ) -> None:
        """Answer one question after the other."""
        reader, writer = streams
        pace = Pace(self._clock)
        while True:
            raw = await _heard(caller, crew, reader)
            await asyncio.sleep(pace.wait().total_seconds())
            request = decode(WorkRequest, raw, limit=REQUEST_BYTES).request
            answering = caller.answer(request)
            if caller.may_take_long(request):
                waiting = crew.busy if caller.has_claim else crew.idle
                answer = await _while_awake(asyncio.ensure_future(answering), waiting, reader)
            else:
                answer = await answering
            await write_frame(writer, encode(answer))
            if caller.broke_rules:
                raise SuspiciousError(caller.broke_rules)


async def _heard(caller: Caller, crew: Crew, reader: asyncio.StreamReader) -> bytes:
    """Wait for the next question. Who says nothing to a new command loses it, and may still ask why."""
    reading = asyncio.ensure_future(read_frame(reader, limit=REQUEST_BYTES))
    try:
        for patience in (FIRST_WORD, QUIET) if caller.is_given else (QUIET,):
            done, _ = await asyncio.wait((reading,), timeout=patience.total_seconds())
            if done:
                return reading.result()
            if patience is FIRST_WORD:
                log.warning("worker stands still", extra={"holder": caller.who})
                await crew.stands_still()
                await caller.let_go()
        raise TransientError("it says nothing any more")
    finally:
        reading.cancel()


async def _while_awake(
    answering: asyncio.Future[WorkAnswer],
    waiting: set[asyncio.Future[WorkAnswer]],
    reader: asyncio.StreamReader,
) -> WorkAnswer:
    """Wait for an answer among others, as long as the other side waits too, and says nothing meanwhile."""
    hearing = asyncio.ensure_future(reader.read(1))
    waiting.add(answering)
    try:
        await asyncio.wait((answering, hearing), return_when=asyncio.FIRST_COMPLETED)
        if answering.done() and not answering.cancelled():
            return answering.result()
        with suppress(OSError):
            if hearing.done() and hearing.result():
                raise MalformedError("a question before the answer to the one before")
        raise TransientError("the other side is gone, or stands still")
    finally:
        waiting.discard(answering)
        await _give_up({answering, hearing})


async def _give_up(waiting: Collection[asyncio.Future[Any]]) -> None:
    """End what is waited for, and see it end."""
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


def _peer(writer: asyncio.StreamWriter) -> tuple[int, int]:
    """The process and user at the other end, as the kernel noted them when they connected."""
    channel = writer.get_extra_info("socket")
    pid, uid, _ = _UCRED.unpack(channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return pid, uid


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
