"""Whether what the agent holds grows with the messages of days (SPEC H7).

    python -m bench.days [--messages N] [--marks N] [--rate N]

A venue with 50 devices that tell something twice a minute sends 144,000 messages a day. Here as many come as
in a week, at a rate that the agent keeps up with: what piles up at the broker is another matter. They come in
parts, and each part is waited for at the cloud, so that the outbox is empty at each mark. The first mark
comes after one part, when each device is known and each way has been gone many times.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.footprint import in_memory, notified
from bench.native import Tools, compiled
from bench.rig import Rig
from bench.systems import BUSY, DEVICES, AgentUnderTest
from tests.support.stores import query

HEAD: Final = "  messages       s  resident  private  waiting  database"
_WEEK: Final = 7 * 24 * 60 * 2 * DEVICES
_PATIENCE: Final = 300.0
_POLL: Final = 0.2
_SETTLED: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What there is after so many messages.

    Attributes:
        messages: that have come to the cloud.
        seconds: since the first.
        resident: memory of the agent, MiB (Rss).
        private: that nobody else has, MiB (anonymous).
        waiting: events in the outbox, a thousand at most.
        database: size of the file and its log, MiB.
    """

    messages: int
    seconds: float
    resident: float
    private: float
    waiting: int
    database: float


def marks(folder: Path, tools: Tools, messages: int, parts: int, rate: float) -> Iterator[Mark]:
    """Send so many messages in so many parts, so many a second, and look at the agent after each."""
    with notified(), in_memory(), Rig(AgentUnderTest, folder, tools, BUSY) as rig:
        began = time.monotonic()
        for number in range(1, parts + 1):
            each = messages // parts
            rig.tap.reset()
            # A new one holds nothing of what came before.
            rig.sink.stop()
            rig.sink.start()
            rig.load(each, rate=rate).finish(within=_PATIENCE + each / rate)
            _wait(rig, each)
            yield _mark(rig, folder, number * each, time.monotonic() - began)


def _wait(rig: Rig, count: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    while rig.sink.tally().count < count:
        if time.monotonic() > deadline:
            raise TimeoutError("the outbox is not sent")
        time.sleep(_POLL)
    time.sleep(_SETTLED)


def _mark(rig: Rig, folder: Path, messages: int, seconds: float) -> Mark:
    memory = rig.watch.memory()
    [database] = (folder / "system").rglob("hub.db")
    waiting = query(database, "SELECT 1 FROM outbox LIMIT 1000")
    size = sum(file.stat().st_size for file in database.parent.glob("hub.db*"))
    return Mark(
        messages=messages,
        seconds=seconds,
        resident=memory.resident,
        private=memory.private,
        waiting=len(waiting),
        database=size / 2**20,
    )


def line(mark: Mark) -> str:
    """Tell of a mark, below ``HEAD``."""
    return (
        f"{mark.messages:>10,}  {mark.seconds:>6.0f}  {mark.resident:>8.1f}  {mark.private:>7.1f}"
        f"  {mark.waiting:>7}  {mark.database:>8.1f}"
    )


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=_WEEK)
    parser.add_argument("--marks", type=int, default=20)
    parser.add_argument("--rate", type=float, default=1500, help="messages a second")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # mosquitto drops its rights
        tools = compiled(folder / "tools")
        print(HEAD)
        for mark in marks(folder / "run", tools, arguments.messages, arguments.marks, arguments.rate):
            print(line(mark), flush=True)


if __name__ == "__main__":
    main()
