"""The instruments that are written in C, compiled where they are used.

    Tap(broker.port)        measures how long a client takes to acknowledge; see native/tap.c
    Load(broker.port, ...)  publishes numbered telemetry; see native/load.c
    counter(folder)         counts writes and syncs of a process; see native/iocount.c

Python would be the slowest part of what it measures.
"""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_SOURCES: Final = Path(__file__).with_name("native")
_FLAGS: Final = ("-std=gnu11", "-O2", "-Wall", "-Wextra")


@dataclass(frozen=True, slots=True)
class Tools:
    """The compiled instruments."""

    load: Path
    tap: Path
    counter: Path


def compiled(folder: Path) -> Tools:
    """Compile the instruments.

    Raises:
        RuntimeError: there is no C compiler.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise RuntimeError("the instruments need a C compiler: apt-get install gcc libc6-dev")
    folder.mkdir(parents=True, exist_ok=True)
    tools = Tools(folder / "load", folder / "tap", folder / "iocount.so")
    for name, to, flags in (
        ("load.c", tools.load, ()),
        ("tap.c", tools.tap, ()),
        ("iocount.c", tools.counter, ("-shared", "-fPIC", "-ldl")),
    ):
        subprocess.run([compiler, *_FLAGS, "-o", str(to), str(_SOURCES / name), *flags], check=True)
    return tools


@dataclass(frozen=True, slots=True)
class Delays:
    """How long a client took to acknowledge.

    Attributes:
        count: how many PUBACKs.
        last: when the last one came, in seconds of the monotonic clock.
        p50: seconds that half of them took at most.
        p99: seconds that 99 of 100 took at most.
        max: seconds that the slowest took.
    """

    count: int
    last: float
    p50: float
    p99: float
    max: float


class Tap:
    """Stands before a broker. Clients that are to be measured connect to its ``port``.

    Args:
        program: the compiled tap.
        broker_port: where the broker is.
        window: how many messages of a connection may be unacknowledged; 0 for what the broker allows.
    """

    def __init__(self, program: Path, broker_port: int, window: int = 0) -> None:
        self._process = subprocess.Popen(
            [str(program), str(broker_port), str(window)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.port = int(self._line())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._process:
            self._process.kill()

    def reset(self) -> None:
        """Begin to measure."""
        self._ask("reset")

    def delays(self) -> Delays:
        """What was measured since."""
        return Delays(**json.loads(self._ask("report")))

    def _ask(self, word: str) -> str:
        stdin = self._process.stdin
        if stdin is None:
            raise RuntimeError("the tap has no input")
        stdin.write(word + "\n")
        stdin.flush()
        return self._line()

    def _line(self) -> str:
        stdout = self._process.stdout
        line = "" if stdout is None else stdout.readline()
        if not line:
            raise RuntimeError("the tap has ended")
        return line


@dataclass(frozen=True, slots=True)
class Sent:
    """What was published.

    Attributes:
        acknowledged: the numbers that the broker has acknowledged.
        began: when the first was sent, in seconds of the monotonic clock.
        ended: when the last was acknowledged.
    """

    acknowledged: frozenset[int]
    began: float
    ended: float


class Load:
    """Publishes numbered telemetry while something else happens.

    Args:
        program: the compiled load.
        port: of the broker.
        count: how many messages.
        rate: in a second; 0 for as fast as it goes.
        first: the first number.
        folder: where the acknowledged numbers are written down.
    """

    def __init__(
        self, program: Path, port: int, count: int, *, rate: float = 0.0, first: int, folder: Path
    ) -> None:
        self._written = folder / f"acknowledged-{first}"
        words = [str(program), str(port), str(count), str(rate), str(first), str(self._written)]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)

    def finish(self, *, within: float = 120.0) -> Sent:
        """Wait until all is sent and acknowledged.

        Raises:
            TimeoutError: it was not.
        """
        try:
            told, _ = self._process.communicate(timeout=within)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.communicate()
            raise TimeoutError("the broker does not acknowledge") from None
        answer = json.loads(told)
        numbers = frozenset(map(int, self._written.read_text("ascii").split()))
        return Sent(numbers, answer["began"], answer["ended"])
