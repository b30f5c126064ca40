"""Programs that are started warm: forked from a process that has read their modules already.

    agent = start(AGENT, ["edgeagent", "--config", path, "run"], stdout=log, stderr=log)
    agent.send_signal(signal.SIGKILL)
    agent.wait(30)

Nine tenths of the processor time of a start are the reading of modules, and the tests start thousands of
programs. So each kind of program has a *template* (``tests/support/template.py``), a process that imports
what such a program imports at its start and then does nothing but fork. What is forked runs a module as
``python -m`` does, with words, environment and files of its own; it is a process like any other, with its
own id, memory, threads and end.

What a start from nothing is like is not seen here. The stories of the units, the package, ``./run``, the
README and the pages of ``docs/`` begin with ``exec``, and so does whatever is given variables of its own,
since some count at the start of a program only (``LD_PRELOAD``).
"""

import atexit
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

_ROOT: Final = Path(__file__).parents[2]

Kind = tuple[str, ...]
"""What a template imports."""

AGENT: Final[Kind] = ("tests.support.agent_modules",)
"""The agent."""

QUEUE: Final[Kind] = ("edgeagent.issuer.server",)
"""The reference queue server."""

FLEET: Final[Kind] = ("firmware_sim.command_line",)
"""The appliances."""

WORKER: Final[Kind] = ("edgeagent.cli.worker", "edgeagent.worker")
"""The worker of the high tier."""

FETCH: Final[Kind] = (
    "edgeagent.cli.main",
    "edgeagent.cli.fetch",
    "edgeagent.fetcher.serving",
    "edgeagent.fetcher.policy",
    "edgeagent.fetcher.file",
)
"""What fetches for an agent."""

WORDS: Final[Kind] = tuple(
    f"edgeagent.cli.{name}" for name in ("main", "asking", "health", "commands", "devices")
)
"""What people type."""


class WarmProcess:
    """A program that was forked from its template. Like ``subprocess.Popen``, as far as tests need it.

    Attributes:
        pid: its process id.
        stdin: its standard input, where it is a pipe; the same of the others.
        returncode: its exit status, or minus the signal that ended it; None while nobody has seen its end.
    """

    def __init__(self, pid: int, told: int, pipes: "_Pipes") -> None:
        self.pid = pid
        self.stdin = pipes.stdin
        self.stdout = pipes.stdout
        self.stderr = pipes.stderr
        self.returncode: int | None = None
        self._told = told

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pipe in (self.stdout, self.stderr, self.stdin):
            if pipe is not None:
                # What was left to be said to it.
                with suppress(BrokenPipeError):
                    pipe.close()
        self.wait()

    def poll(self) -> int | None:
        """Its exit status, if it has ended."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, for so many seconds.

        Raises:
            subprocess.TimeoutExpired: it has not ended.
        """
        status = self._ended(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it has not ended."""
        if self.poll() is None:
            # It may end between the two.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def _ended(self, patience: float | None) -> int | None:
        if self.returncode is None:
            waiting = select.poll()
            waiting.register(self._told, select.POLLIN)
            if waiting.poll(None if patience is None else patience * 1000):
                told = os.read(self._told, 16)
                os.close(self._told)
                # Nothing comes where its template has ended: then nobody knows.
                self.returncode = int(told or -signal.SIGKILL)
        return self.returncode


def start(
    kind: Kind,
    words: Sequence[str],
    *,
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.DEVNULL,
    stderr: int = subprocess.DEVNULL,
) -> WarmProcess:
    """Start a program in the checkout, with the environment of the tests.

    Args:
        kind: of which template.
        words: what stands behind ``python -m``.
        stdin: a file descriptor, ``subprocess.PIPE`` (of text) or ``subprocess.DEVNULL``.
        stdout: likewise.
        stderr: likewise.
    """
    pipes = _Pipes()
    with ExitStack() as stack:
        theirs = [pipes.end(number, file, stack) for number, file in enumerate((stdin, stdout, stderr))]
        read, told = os.pipe()
        stack.callback(os.close, told)
        return WarmProcess(_template(kind).fork(words, [*theirs, told]), read, pipes)


def run(kind: Kind, words: Sequence[str], *, within: float) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, as ``subprocess.run`` does.

    Raises:
        subprocess.TimeoutExpired: it has not ended within so many seconds; it was killed.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = start(kind, words, stdout=out.fileno(), stderr=err.fileno())
        try:
            status = process.wait(within)
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(list(words), status, out.read(), err.read())


class _Pipes:
    """This side's ends of a program's pipes."""

    def __init__(self) -> None:
        self.stdin: IO[str] | None = None
        self.stdout: IO[str] | None = None
        self.stderr: IO[str] | None = None

    def end(self, number: int, file: int, stack: ExitStack) -> int:
        """The program's end of one of its standard files; closed with ``stack`` where it is ours."""
        if file == subprocess.DEVNULL:
            return stack.enter_context(Path(os.devnull).open("r+b", buffering=0)).fileno()
        if file != subprocess.PIPE:
            return file
        read, write = os.pipe()
        stack.callback(os.close, write if number else read)
        if number == 0:
            self.stdin = os.fdopen(write, "w")
            return read
        ours = os.fdopen(read)
        if number == 1:
            self.stdout = ours
        else:
            self.stderr = ours
        return write


class _Template:
    """The process that forks the programs of one kind."""

    def __init__(self, kind: Kind) -> None:
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.template", str(theirs.fileno()), *kind],
                cwd=_ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self._one_at_a_time = threading.Lock()
        atexit.register(self._end)

    def fork(self, words: Sequence[str], files: Sequence[int]) -> int:
        """Have a program run with these files: its standard ones, and where its end is told.

        Returns:
            Its process id.
        """
        told_so = {"words": list(words), "environment": dict(os.environ), "umask": _umask()}
        order = json.dumps(told_so).encode()
        with self._one_at_a_time:
            socket.send_fds(self._orders, [order], files)
            told = self._orders.recv(16)
        assert told, f"the template of {words} has ended"
        return int(told)

    def _end(self) -> None:
        self._orders.close()
        self._process.wait()


def _umask() -> int:
    """This process's; to ask the system by ``umask(2)`` is to change it for a moment."""
    [mask] = re.findall(r"^Umask:\t([0-7]+)$", Path("/proc/self/status").read_text("ascii"), re.MULTILINE)
    return int(mask, 8)


@cache
def _template(kind: Kind) -> _Template:
    return _Template(kind)
