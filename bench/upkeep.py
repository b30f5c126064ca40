"""How long upkeep holds up who commits: the longest commit of readings while each task runs beside it.

    python -m bench.upkeep [--rows N] [--runs N]

Readings are committed as ingest does it, twenty at a time, a hundred times a second, into a hub's database
that already holds ``--rows`` events and as many audit rows. Some hundred commands are held, begin, are over
and are forgotten, each time all at once. *Nothing* is what the disk itself does to a commit meanwhile. The
aim is 50 ms.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import Final

from bench.figures import Row, table
from bench.upkeep_commands import Commands
from edgeagent.contracts.event import EventTime, EventType, Stream, data_text
from edgeagent.core.audit_chain import AuditKind
from edgeagent.flows.beside import Beside
from edgeagent.store import audit, outbox
from edgeagent.store.audit import Act, Stamp
from edgeagent.store.database import Database, Transaction
from edgeagent.store.outbox import NewEvent
from edgeagent.store.side import Side
from tests.flows.commanding import new_hub

TASKS: Final = ("nothing", "backup", "check", "cut log", "prune audit", "judge held", "end over", "forget")
ROWS: Final = tuple(
    row
    for task in TASKS
    for row in (
        Row(name=f"{task}.max", title=f"{task}: longest commit, ms", digits=1, most=50),
        Row(name=f"{task}.p99", title=f"{task}: p99, ms", digits=1),
        Row(name=f"{task}.took", title=f"{task}: the task itself, ms"),
    )
)

_PERIOD: Final = 0.01
_AT_ONCE: Final = 20
_BATCH: Final = 5_000
# How long commits are watched before and after a task, in seconds.
_AROUND: Final = 0.5
_LONG_LOG: Final = 3_000


@dataclass(frozen=True, slots=True)
class Bench:
    """A hub's database, and what writes to it.

    Attributes:
        store: the database.
        commands: of the same hub.
        folder: for backups.
        time: of all events.
        rows: how many events and audit rows there are.
    """

    store: Database
    commands: Commands
    folder: Path
    time: EventTime
    rows: int

    async def fill(self) -> None:
        """Put the rows in."""
        for _ in range(self.rows // _BATCH):
            await self.store.write(partial(self._readings, count=_BATCH))
            await self.store.write(partial(_acts, count=_BATCH))

    async def measured(self, task: Callable[[], Awaitable[object]]) -> Mapping[str, float]:
        """Commit readings while a task runs; what the commits and the task took, in milliseconds."""
        lasted: list[float] = []
        is_over = asyncio.Event()
        committing = asyncio.create_task(self._commit(lasted, is_over))
        await asyncio.sleep(_AROUND)
        began = time.perf_counter()
        await task()
        took = time.perf_counter() - began
        await asyncio.sleep(_AROUND)
        is_over.set()
        await committing
        return {"max": max(lasted) * 1e3, "p99": quantiles(lasted, n=100)[98] * 1e3, "took": took * 1e3}

    async def _commit(self, lasted: list[float], is_over: asyncio.Event) -> None:
        while not is_over.is_set():
            began = time.perf_counter()
            await self.store.write(partial(self._readings, count=_AT_ONCE))
            now = time.perf_counter()
            lasted.append(now - began)
            await asyncio.sleep(max(0.0, began + _PERIOD - now))

    def _readings(self, tx: Transaction, count: int) -> None:
        data = data_text({"active_power": 12.5, "filler": "x" * 150})
        events = [NewEvent(Stream.TELEMETRY, EventType.TELEMETRY, None, self.time, data)] * count
        outbox.append(tx, events, incarnation=1)

    def task(self, name: str) -> Callable[[], Awaitable[object]]:
        """A task of upkeep by its name."""
        beside = Beside(self.store)
        file = self.folder / "backup.db"
        tasks: Mapping[str, Callable[[], Awaitable[object]]] = {
            "nothing": partial(asyncio.sleep, 1.0),
            "backup": partial(beside.run, partial(Side.back_up, target=file)),
            "check": partial(beside.run, Side.damage),
            "cut log": self._cut_log,
            "prune audit": self._prune,
            "judge held": self.commands.begin,
            "end over": self.commands.end,
            "forget": self.commands.go,
        }
        return tasks[name]

    async def _cut_log(self) -> None:
        """Let the log become long, as behind a reader, and cut it."""
        for _ in range(_LONG_LOG // _AT_ONCE):
            await self.store.write(partial(self._readings, count=_AT_ONCE))
        await self.store.checkpoint()

    async def _prune(self) -> None:
        """Drop old rows of the trail as the flow does: so many in a commit, one after the other."""
        for upto in range(_BATCH, self.rows // 2, _BATCH):
            await self.store.write(partial(audit.drop, upto=upto))


def _acts(tx: Transaction, count: int) -> None:
    act = Act(kind=AuditKind.STEP_SENT, subject="dev-1", actor="low-1", detail={"step": "on", "fence": 7})
    audit.append(tx, [act] * count, Stamp("2026-01-01T00:00:00Z", "kernel"))


async def upkeep_costs(rows: int) -> Mapping[str, float]:
    """One run: the figures of every task."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="bench-upkeep-") as folder:
        async with new_hub(Path(folder)) as hub:
            time = EventTime.of(hub.clock.wall(), hub.clock.boot())
            bench = Bench(hub.store, Commands(hub), Path(folder), time, rows)
            await bench.fill()
            await bench.commands.come()
            for name in TASKS:
                figures = await bench.measured(bench.task(name))
                found |= {f"{name}.{figure}": value for figure, value in figures.items()}
    return found


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description="How long upkeep holds up who commits.")
    parser.add_argument("--rows", type=int, default=100_000, help="events and audit rows in the database")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    runs = [asyncio.run(upkeep_costs(arguments.rows)) for _ in range(arguments.runs)]
    print(table(ROWS, runs, []))


if __name__ == "__main__":
    main()
