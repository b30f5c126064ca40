"""``python -m firmware_sim``: a fleet as a process.

    python -m firmware_sim --broker 127.0.0.1:1883 --seed 7 --appliances 12 --journal fleet.jsonl

On stdout one JSON line per appliance when all are connected and listen, ``{"appliance": {...}}``, then
``{"ready": 12}``. Then it takes control lines on stdin (see ``control``), if that is a pipe, a socket or a
terminal, and runs until SIGTERM, SIGINT or ``stop``; the end of stdin does not end it. With ``--burst`` it
sends a burst instead, prints ``{"burst": {...}}`` and ends.

    python -m firmware_sim image --family tasmota --version 14.2.0 tasmota.bin

makes an image of a firmware instead; see ``image_line``.

Exit status: 0 stopped as asked; 1 the appliances do not get to the broker, the journal cannot be written, or
a burst was not wholly acknowledged; 2 the arguments or files are wrong.
"""

import argparse
import asyncio
import json
import os
import signal
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Final

from firmware_sim import image_line
from firmware_sim.board import World
from firmware_sim.burst import Burst, burst
from firmware_sim.control import Control
from firmware_sim.faults import FaultPlan, plan_from_file
from firmware_sim.fields import InputError, Json, duration
from firmware_sim.firmware import Timing
from firmware_sim.fleet import Fleet
from firmware_sim.journal import opened
from firmware_sim.link import Broker
from firmware_sim.specification import Account, Specification, from_file, invented

_LONGEST_LINE: Final = 2**20
_HIGHEST_PORT: Final = 65535


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a fleet, or make an image; see the module's docstring."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["image"]:
        return image_line.main(given[1:])
    asked = _parser().parse_args(given)
    try:
        specifications = _specifications(asked)
        within = duration(asked.within, "--within")
        load = None if asked.burst is None else Burst(count=asked.burst, rate=asked.rate)
        with opened(asked.journal) as journal:
            broker = _broker(asked.broker)
            world = World(
                broker=broker,
                address=broker.seen_from(),
                journal=journal,
                seed=asked.seed,
                timing=Timing(
                    period=duration(asked.period, "--period"),
                    transfer=duration(asked.transfer, "--transfer"),
                    retry=duration(asked.retry, "--retry"),
                ),
                plan=FaultPlan() if asked.faults is None else plan_from_file(asked.faults),
                mqtt5=asked.mqtt5,
                maker=b"" if asked.maker is None else image_line.public_key(asked.maker),
            )
            return asyncio.run(_run(specifications, world, load, within))
    except InputError as why:
        _complain(why)
        return 2
    except OSError as why:  # the journal, at its last flush
        _complain(why)
        return 1


async def _run(
    specifications: Sequence[Specification], world: World, load: Burst | None, within: timedelta
) -> int:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - a coroutine runs in a task
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        async with Fleet(specifications, world, within) as fleet:
            for appliance in fleet.appliances.values():
                _tell({"appliance": appliance.describe()})
            _tell({"ready": len(fleet.appliances)})
            if load is None:
                await _serve(fleet)
                return 0
            tally = await burst(fleet.appliances.values(), world.journal, load)
            _tell({"burst": asdict(tally)})
            return 0 if tally.acknowledged == load.count else 1
    except asyncio.CancelledError:
        return 0
    except ExceptionGroup as group:
        # A TimeoutError is one too: an appliance that does not get to the broker.
        known, unknown = group.split(OSError)
        if unknown is not None or known is None:
            raise
        for why in _leaves(known):
            _complain(why)
        return 1


async def _serve(fleet: Fleet) -> None:
    control = Control(fleet)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(fleet.finished())]
        if _can_be_read(sys.stdin.fileno()):
            tasks.append(group.create_task(_take_lines(control)))
        await control.stopped.wait()
        for task in tasks:
            task.cancel()


async def _take_lines(control: Control) -> None:
    lines = asyncio.StreamReader(limit=_LONGEST_LINE)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    try:
        while True:
            try:
                line = await lines.readline()
            except ValueError:
                _tell({"ok": False, "error": f"line: longer than {_LONGEST_LINE} bytes"})
                continue
            if not line:
                return
            if line.strip():
                _tell(await control.answer(line))
    finally:
        transport.close()


def _complain(why: BaseException) -> None:
    sys.stderr.write(f"firmware_sim: {why}\n")


def _leaves(group: ExceptionGroup[Exception]) -> list[Exception]:
    return [
        leaf
        for one in group.exceptions
        for leaf in (_leaves(one) if isinstance(one, ExceptionGroup) else [one])
    ]


def _can_be_read(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


def _tell(line: Mapping[str, Json]) -> None:
    sys.stdout.write(json.dumps(line, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def _specifications(asked: argparse.Namespace) -> list[Specification]:
    chosen: list[Specification] = (
        invented(asked.seed, asked.appliances)
        if asked.specifications is None
        else from_file(asked.specifications)
    )
    if asked.username is None:
        return chosen
    return [
        entry
        if entry.account.username
        else replace(entry, account=Account(asked.username.replace("{id}", entry.id), asked.password or ""))
        for entry in chosen
    ]


def _broker(text: str) -> Broker:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) <= _HIGHEST_PORT:
        raise InputError(f"--broker: {text!r:.60} is no HOST:PORT")
    return Broker(host.removeprefix("[").removesuffix("]"), int(port))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="firmware_sim", description="Simulated appliances over MQTT.")
    parser.add_argument("--broker", required=True, metavar="HOST:PORT")
    parser.add_argument("--seed", default="0", help="what chance follows (default 0)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--appliances", type=int, default=8, metavar="N", help="invent so many (default 8)")
    which.add_argument("--specifications", type=Path, metavar="FILE", help="appliances in TOML or JSON")
    parser.add_argument("--journal", type=Path, metavar="FILE", help="append what happens, as JSON lines")
    parser.add_argument("--faults", type=Path, metavar="FILE", help="what goes wrong, in TOML or JSON")
    parser.add_argument("--period", default="1s", help="between two telemetry messages (default 1s)")
    parser.add_argument("--transfer", default="500ms", help="of a whole image, at least (default 500ms)")
    parser.add_argument("--retry", default="200ms", help="between two tries of a download (default 200ms)")
    parser.add_argument("--username", help="of those that have none; {id} stands for the appliance's id")
    parser.add_argument("--password")
    parser.add_argument("--mqtt5", action="store_true", help="connect with MQTT 5, to see expiry intervals")
    parser.add_argument("--maker", type=Path, metavar="FILE", help="whose signed images are taken: its .pub")
    parser.add_argument("--burst", type=int, metavar="N", help="send N numbered messages and end")
    parser.add_argument("--rate", type=float, default=0.0, metavar="R", help="of a burst, per second")
    parser.add_argument("--within", default="30s", help="how long the appliances may take to connect")
    return parser
