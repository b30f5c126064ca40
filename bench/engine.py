"""The command engine alone: commands a second, how soon a worker wakes, and whether a long past slows it.

    python -m bench.engine                                    two or three minutes
    python -m bench.engine --rows 0 10000 100000 1000000      more, and 4 GB of disk

A *wave* is one command for each appliance, admitted together; its rate is counted from the first inbox commit
to the last final commit, with 16 at work. A *wake-up* is the time from the inbox commit of a command that
comes while everybody waits to its claim. Both with so many finished commands in the file already. Every
command is signed, judged twice, locked, recorded, confirmed by its appliance's report and settled, as in the
agent; the broker is in memory and the appliances answer at once. The aims are 800 commands a second, 20 ms,
and figures that do not depend on the past.

Beside it, in the same run, huey on SQLite (the extra ``bench``), which promises far less: see
``huey_reference``. Where it is not installed its column is empty.
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

from bench.engine_hub import AT_REST, WORKERS, Engine, Wave, engine
from bench.figures import Row, table
from bench.huey_reference import huey_costs, is_installed

Figures = dict[str, float]

# It polls: each takes up to seconds.
_FEW_WAKES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured.

    Attributes:
        appliances: of how many each wave is.
        finished: how many finished commands there are in the file, growing.
        commands: of how many each rate is.
        wakes: how many wake-ups there are.
        idle: for how many seconds the idle engine is watched.
    """

    appliances: Sequence[int] = (1, 50, 500)
    finished: Sequence[int] = (0, 10_000, 100_000)
    commands: int = 1_000
    wakes: int = 300
    idle: float = 10.0


def rows(size: Size) -> list[Row]:
    """What there is to tell."""
    found = []
    for past in size.finished:
        title = f"{past:,} finished"
        for count in size.appliances:
            at_once = "1 appliance" if count == 1 else f"{count} appliances"
            # One after the other they are bound by how long one takes: the aim is for what is worked at once.
            least = None if count == 1 else 800
            found.append(
                Row(name=f"{past}.{count}.rate", title=f"{title}, {at_once}: commands/s", least=least)
            )
            name = f"{title}, {at_once}: CPU, ms per command"
            found.append(Row(name=f"{past}.{count}.cpu", title=name, digits=2))
            name = f"{title}, {at_once}: statements per command"
            found.append(Row(name=f"{past}.{count}.statements", title=name, digits=1))
            name = f"{title}, {at_once}: commits per command"
            found.append(Row(name=f"{past}.{count}.commits", title=name, digits=2))
        found.append(Row(name=f"{past}.wake.p50", title=f"{title}: wake-up p50, ms", digits=1))
        found.append(Row(name=f"{past}.wake.p99", title=f"{title}: wake-up p99, ms", digits=1, most=20))
        found.append(Row(name=f"{past}.idle", title=f"{title}: idle, % of a core", digits=3, most=0.3))
    return found


async def engine_costs(size: Size, folder: Path) -> Figures:
    """One run, on a new database in ``folder``."""
    figures: Figures = {}
    async with engine(folder) as measured:
        await measured.has_devices(max(size.appliances))
        # What is done for the first time takes longer; and the past is made of it.
        await measured.wave(measured.devices)
        for past in size.finished:
            await measured.has_past(past)
            for count in size.appliances:
                waves = await _waves(measured, count, size.commands)
                figures[f"{past}.{count}.rate"] = len(waves) * count / sum(wave.settled for wave in waves)
                used = sum(wave.cpu for wave in waves)
                figures[f"{past}.{count}.cpu"] = 1_000 * used / (len(waves) * count)
                statements, commits = await measured.costs(measured.devices[:count])
                figures[f"{past}.{count}.statements"], figures[f"{past}.{count}.commits"] = (
                    statements,
                    commits,
                )
            percentiles = quantiles([await _wake(measured, turn) for turn in range(size.wakes)], n=100)
            figures[f"{past}.wake.p50"], figures[f"{past}.wake.p99"] = percentiles[49], percentiles[98]
            figures[f"{past}.idle"] = await _idle(size.idle)
    return figures


async def _waves(measured: Engine, appliances: int, commands: int) -> list[Wave]:
    """At least so many commands, in waves one after the other."""
    devices = measured.devices[:appliances]
    return [await measured.wave(devices) for _ in range(-(-commands // appliances))]


async def _wake(measured: Engine, turn: int) -> float:
    """Milliseconds until a worker that waits has claimed what has come."""
    await asyncio.sleep(AT_REST)
    device = measured.devices[turn % len(measured.devices)]
    return 1_000 * (await measured.wave([device])).claimed


async def _idle(seconds: float) -> float:
    """How much of a core the engine takes that has nothing to do, in percent."""
    await asyncio.sleep(AT_REST)
    began, used = time.perf_counter(), time.process_time()
    await asyncio.sleep(seconds)
    return 100 * (time.process_time() - used) / (time.perf_counter() - began)


def _beside(size: Size, folder: Path) -> Figures:
    """What huey achieves, under the names of the engine's figures; it has one for all of them."""
    if not is_installed():
        return {}
    found = huey_costs(folder, commands=size.commands, wakes=_FEW_WAKES, idle=size.idle, workers=WORKERS)
    told = {f"{past}.{name}": value for past in size.finished for name, value in found.items()}
    many = [count for count in size.appliances if count > 1]
    rates = {
        f"{past}.{count}.{name}": found[name]
        for past in size.finished
        for count in many
        for name in ("rate", "cpu")
    }
    return told | rates


def main() -> None:
    """Measure and print."""
    usual = Size()
    parser = argparse.ArgumentParser(
        prog="bench.engine", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--appliances", type=int, nargs="+", default=usual.appliances)
    parser.add_argument("--rows", type=int, nargs="+", default=usual.finished, help="finished commands")
    parser.add_argument("--commands", type=int, default=usual.commands, help="for each rate")
    parser.add_argument("--folder", type=Path, help="for databases: on the disk that is to be measured")
    options = parser.parse_args()
    size = Size(
        appliances=sorted(options.appliances), finished=sorted(options.rows), commands=options.commands
    )
    runs: list[Figures] = []
    beside: list[Figures] = []
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory(prefix="bench-engine-", dir=options.folder) as folder:
            runs.append(asyncio.run(engine_costs(size, Path(folder))))
            beside.append(_beside(size, Path(folder)))
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, medians of {options.runs} runs\n")
    print(table(rows(size), runs, beside))
    if not is_installed():
        print(
            "\nhuey is not installed (pip install 'edgeagent[bench]'): nothing is measured beside the engine"
        )


if __name__ == "__main__":
    main()
