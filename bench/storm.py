"""What a storm of failing commands costs, beside as many good ones: CPU, bytes written, commits, lines, rows.

    python -m bench.storm                       1,000 commands of each kind, 3 runs: some minutes
    python -m bench.storm --commands 200 --runs 1

The agent is a real process between a real mosquitto with lamps that answer at once and a queue that lends
whatever it is given, past the producer's gate. *Reference* is the calm: as many commands that succeed. The
aim is that no storm costs more than the calm and a tenth. Needs mosquitto and a C compiler.
"""

import argparse
import os
import secrets
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.figures import Row, table
from bench.native import Tools, compiled
from bench.processes import Watch
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.door import decode, encode
from edgeagent.contracts.envelope import Envelope
from edgeagent.ids import DeviceId
from tests.attacks.wrong_hands import Hands, in_wrong_hands
from tests.support.agents_venue import Venue
from tests.support.brokers import wait_until
from tests.support.stubborn_lamps import OBEYS, OTHER, REFUSES, StubbornLamps

ROWS: Final = (
    Row(name="cpu", title="CPU, s", digits=2, most_of_reference=1.1),
    Row(name="written", title="MiB written", digits=2, most_of_reference=1.1),
    Row(name="syncs", title="syncs", most_of_reference=1.1),
    Row(name="lines", title="log lines", most_of_reference=1.1),
    Row(name="audited", title="rows of the trail", most_of_reference=1.1),
    Row(name="sent", title="commands sent to devices"),
)

_MEBIBYTE: Final = 1024 * 1024
_PATIENCE: Final = 600.0
_OPEN: Final = "SELECT count(*) FROM inbox WHERE state IN ('held', 'queued', 'waiting', 'running')"
Figures = dict[str, float]


@dataclass(slots=True)
class Place:
    """A venue, and what it has used.

    Attributes:
        hands: own the queue.
        lamps: there.
        watch: the agent's process.
    """

    hands: Hands
    lamps: StubbornLamps
    watch: Watch

    def used(self) -> Figures:
        """What was used up to now."""
        use, agent = self.watch.use(), self.hands.venue.agent
        return {
            "cpu": use.cpu,
            "written": use.written / _MEBIBYTE,
            "syncs": use.syncs,
            "lines": agent.log.count("\n"),
            "audited": self.count("SELECT count(*) FROM audit"),
            "sent": self.lamps.heard,
        }

    def count(self, sql: str) -> int:
        """Ask the database for a number."""
        path = self.hands.venue.agent.database
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            return int(connection.execute(sql).fetchone()[0])

    def command(self, number: int, device: DeviceId | None = None) -> bytes:
        """A command for each lamp in turn: on, and where they obey off again in the next round."""
        lamps = self.lamps.devices
        device = device or lamps[number % len(lamps)]
        desk = self.hands.venue.keys.desk
        arguments = {"on": self.lamps.answer != OBEYS or number // len(lamps) % 2 == 0}
        return self.hands.sign(ActionName.POWER, arguments, by=[desk], device=device).envelope

    def lends(self, envelopes: list[bytes]) -> None:
        """Lend them, and wait until none is open."""
        for envelope in envelopes:
            self.hands.queue.lend(envelope)
        self.hands.queue.wait_until_taken(within=_PATIENCE)
        wait_until(lambda: not self.count(_OPEN), "all to be over", within=_PATIENCE)

    def in_rounds(self, count: int) -> None:
        """A command for each lamp, and so on: a later one is to overtake none."""
        lamps = len(self.lamps.devices)
        for begin in range(0, count, lamps):
            self.lends([self.command(number) for number in range(begin, min(begin + lamps, count))])


def calm(place: Place, count: int) -> None:
    """Commands that succeed."""
    place.lamps.answer = OBEYS
    place.in_rounds(count)


def refused_by_devices(place: Place, count: int) -> None:
    """Commands to which the devices say no."""
    place.lamps.answer = REFUSES
    place.in_rounds(count)


def overtaken(place: Place, count: int) -> None:
    """Commands that the devices do not carry out, so fast that later ones overtake."""
    place.lamps.answer = OTHER
    place.lends([place.command(number) for number in range(count)])


def off_target(place: Place, count: int) -> None:
    """Commands for devices that are not here."""
    place.lends([place.command(0, DeviceId(f"nobody-{number}")) for number in range(count)])


def repeated(place: Place, count: int) -> None:
    """One command, again and again."""
    place.lamps.answer = OBEYS
    place.lends([place.command(0)] * count)


def forged(place: Place, count: int) -> None:
    """Commands that nobody has signed."""
    good = place.command(0)
    envelope = decode(Envelope, good, limit=len(good))
    signature = envelope.signatures[0]
    place.lends(
        [
            encode(
                envelope.model_copy(
                    update={"signatures": [signature.model_copy(update={"sig": secrets.token_bytes(64)})]}
                )
            )
            for _ in range(count)
        ]
    )


STORMS: Final[tuple[Callable[[Place, int], None], ...]] = (
    refused_by_devices,
    overtaken,
    off_target,
    repeated,
    forged,
)


@contextmanager
def placed(folder: Path, tools: Tools, lamps: int) -> Iterator[Place]:
    """A venue, made anew."""
    counts = folder / "counts"

    def counted(venue: Venue) -> None:
        venue.agent.environment = {"LD_PRELOAD": str(tools.counter), "IOCOUNT_FILE": str(counts)}

    with ExitStack() as stack:
        hands = stack.enter_context(in_wrong_hands(folder, prepare=counted))
        there = stack.enter_context(StubbornLamps(hands.venue.broker, lamps))
        there.are_admitted(hands.venue.agent)
        yield Place(hands, there, Watch(hands.venue.agent.pid, counts))


def measured(storm: Callable[[Place, int], None], place: Place, count: int) -> Figures:
    """What a storm, or the calm, has used."""
    before = place.used()
    storm(place, count)
    return {name: now - before[name] for name, now in place.used().items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="bench.storm", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--commands", type=int, default=1000)
    parser.add_argument("--lamps", type=int, default=100)
    options = parser.parse_args()
    found: dict[str, list[Figures]] = {each.__name__: [] for each in (calm, *STORMS)}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        tools = compiled(Path(folder) / "tools")
        for run in range(options.runs):
            for storm in (calm, *STORMS):
                with placed(Path(folder) / f"{run}-{storm.__name__}", tools, options.lamps) as place:
                    found[storm.__name__].append(measured(storm, place, options.commands))
                print(f"run {run + 1}: {storm.__name__}", flush=True)
    print(f"\n{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {options.commands} commands")
    for storm in STORMS:
        print(f"\n{storm.__doc__}\n\n{table(ROWS, found[storm.__name__], found['calm'])}")


if __name__ == "__main__":
    main()
