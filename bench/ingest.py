"""Readings: the agent and the reference, one after the other, several times; medians and ratios.

    python -m bench.ingest                       everything, 3 runs: about 12 minutes
    python -m bench.ingest --only full_speed steady --runs 5
    python -m bench.ingest --list

Both are real processes between a real mosquitto and an HTTP sink that only counts; nothing leaves the
loopback interface. Absolute figures are those of this machine at this hour: with two cores and other work
on them they differ by half from run to run. Ratios differ by less, since the two take turns; that is why
most targets are ratios. Needs mosquitto and a C compiler.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench import scenarios
from bench.figures import Row, table
from bench.native import Tools, compiled
from bench.rig import Rig
from bench.scenarios import Figures, Rigged, Size
from bench.systems import AgentUnderTest, Lingers, ReferenceUnderTest

Scenario = Callable[[Rigged, Size], Figures]
Kind = type[AgentUnderTest | ReferenceUnderTest]

SCENARIOS: Final[dict[str, Scenario]] = {
    each.__name__: each
    for each in (
        scenarios.full_speed,
        scenarios.steady,
        scenarios.small_window,
        scenarios.idle,
        scenarios.start,
        scenarios.outage,
        scenarios.kill_in_burst,
        scenarios.kill_at_rate,
        scenarios.kill_in_outage,
    )
}

ROWS: Final = (
    Row(name="full.durable", title="full speed: until the last PUBACK, messages/s", least_of_reference=0.8),
    Row(name="full.delivered", title="full speed: until the last upload, messages/s"),
    Row(name="full.cpu", title="full speed: CPU, s per 1,000", digits=3, most_of_reference=1.3),
    Row(name="full.syncs", title="full speed: syncs per 1,000", digits=1, most=20),
    Row(name="full.written", title="full speed: bytes written per byte of payload", digits=1, most=4),
    Row(name="full.growth", title="full speed: growth of memory, MiB", digits=1, most=10),
    Row(name="steady.p50", title="500/s: PUBACK p50, ms", digits=1),
    Row(name="steady.p99", title="500/s: PUBACK p99, ms", digits=1, most=105),
    Row(name="steady.max", title="500/s: PUBACK max, ms", digits=1, most=140),
    Row(name="steady.delivered", title="500/s: at the cloud p50, ms"),
    Row(name="steady.cpu", title="500/s: CPU, s per 1,000", digits=3, most_of_reference=1.3),
    Row(name="steady.syncs", title="500/s: syncs per 1,000", digits=1, most=25),
    Row(name="steady.written", title="500/s: bytes written per byte of payload", digits=1, most=5),
    Row(name="window.durable", title="window of 20: messages/s (reference eager)", least_of_reference=0.8),
    Row(name="idle.resident", title="idle: resident memory, MiB", digits=1, most=62),
    Row(name="idle.cpu", title="idle: CPU, % of a core", digits=3),
    Row(name="calm.resident", title="50/s of 50 devices: resident memory, MiB", digits=1, most=72),
    Row(name="calm.cpu", title="50/s of 50 devices: CPU, % of a core", digits=1),
    Row(name="start.durable", title="start: until the first PUBACK, s", digits=2, most=0.7),
    Row(name="start.delivered", title="start: until the first upload, s", digits=2),
    Row(name="outage.growth", title="outage: growth of memory with the backlog, MiB", digits=1, most=10),
    Row(name="outage.more", title="outage: growth with the same again, MiB", digits=1, most=2),
    Row(name="outage.drain", title="outage: drained, messages/s", least_of_reference=0.5),
    Row(name="outage.cpu", title="outage: CPU of draining, s per 1,000", digits=3),
    *(
        Row(name=f"kill.{name}.{what}", title=f"SIGKILL {title}: {what}", most=0 if what == "lost" else None)
        for name, title in (("burst", "in a burst"), ("steady", "at 500/s"), ("outage", "in an outage"))
        for what in ("lost", "doubled")
    ),
)


def main() -> None:
    """Measure and print."""
    options = _options()
    if options.list:
        print("\n".join(f"{name:16}{scenario.__doc__}" for name, scenario in SCENARIOS.items()))
        return
    agent: list[Figures] = []
    reference: list[Figures] = []
    systems: list[tuple[Kind, list[Figures]]] = [(AgentUnderTest, agent)]
    if not options.queue:
        systems.append((ReferenceUnderTest, reference))
    size = Size(messages=options.messages, seconds=options.seconds)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.folder) as folder:
        tools = compiled(Path(folder) / "tools")
        for run in range(options.runs):
            for name in options.only or SCENARIOS:
                for kind, figures in systems:
                    began = time.monotonic()
                    where = Path(folder) / f"{run}-{name}-{kind.__name__}"
                    figures.append(SCENARIOS[name](_rigged(kind, where, tools, queue=options.queue), size))
                    print(
                        f"run {run + 1}: {name}, {kind.__name__}: {time.monotonic() - began:.0f} s",
                        flush=True,
                    )
    print(f"\n{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, medians of {options.runs} runs\n")
    print(table(ROWS, agent, reference))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench.ingest", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--messages", type=int, default=20_000, help="at full speed")
    parser.add_argument("--seconds", type=float, default=8.0, help="of the steady rate")
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, metavar="SCENARIO")
    parser.add_argument(
        "--queue", action="store_true", help="the agent alone, with the real queue server in the sink's place"
    )
    parser.add_argument("--list", action="store_true", help="say what the scenarios are")
    parser.add_argument("--folder", type=Path, help="for databases: on the disk that is to be measured")
    return parser.parse_args()


def _rigged(kind: Kind, folder: Path, tools: Tools, *, queue: bool) -> Rigged:
    def rigged(lingers: Lingers, window: int) -> Rig:
        return Rig(kind, folder, tools, lingers, window=window, queue=queue)

    return rigged


if __name__ == "__main__":
    main()
