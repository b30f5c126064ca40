"""Commands: the agent and the reference, one after the other, several times; medians and ratios.

    python -m bench.commands                     3 runs: about 2 minutes
    python -m bench.commands --runs 5 --lamps 100

Both are real processes between a real mosquitto with lamps that answer at once and the real queue server,
which judges and stores every command and receipt. One command at a time tells how long one takes, from
handing it to the queue until its receipt is there; a queue that was filled before the hub came tells how
many the hub carries out in a second. What the gate costs is measured in this process. Needs mosquitto and a
C compiler.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from secrets import token_hex
from statistics import quantiles
from types import TracebackType
from typing import Final, Self

from bench.figures import Row, table
from bench.gate import gate_costs
from bench.native import Tools, compiled
from bench.processes import Use
from bench.rig import QUIET_BROKER
from bench.systems import HUB, SHIPPED, AgentUnderTest, Place, ReferenceUnderTest
from edgeagent.clock import ProvenClock, SystemTime
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.event import EventType, Stream
from edgeagent.ids import DeviceId, Epoch, HubId
from edgeagent.issuer.client import IssuerClient
from edgeagent.issuer.commands import Intent, Issuer, SignedCommand
from tests.support.agents import ROOT
from tests.support.agents_keys import Keys
from tests.support.brokers import Mosquitto
from tests.support.queue_server import QueueServer

Figures = dict[str, float]

REFERENCE_HUB: Final = HubId("reference")
_PATIENCE: Final = timedelta(seconds=60)
_POLL: Final = 0.025

ROWS: Final = (
    Row(name="one.p50", title="one at a time: p50, ms", digits=1),
    Row(name="one.p99", title="one at a time: p99, ms", digits=1),
    Row(name="one.syncs", title="one at a time: syncs per command", digits=1),
    Row(name="one.written", title="one at a time: KiB written per command", digits=1),
    Row(name="one.cpu", title="one at a time: CPU, ms per command", digits=1),
    Row(name="many.rate", title="from a full queue: commands/s"),
    Row(name="many.syncs", title="from a full queue: syncs per command", digits=1),
    Row(name="many.cpu", title="from a full queue: CPU, ms per command", digits=1),
    Row(name="gate.verify", title="gate: signature and envelope, µs"),
    Row(name="gate.open", title="gate: the same and the command's schema, µs"),
    Row(name="gate.admit", title="gate: judged as it comes, µs"),
    Row(name="gate.act", title="gate: judged before it is sent, µs"),
)


class CommandRig:
    """Broker, lamps, queue, and one system between them, made anew for each run.

    Args:
        is_agent: whether the system is the agent.
        folder: for all files.
        tools: the compiled instruments.
        lamps: how many there are.
    """

    def __init__(self, *, is_agent: bool, folder: Path, tools: Tools, lamps: int) -> None:
        self._is_agent = is_agent
        self._folder = folder
        self._tools = tools
        self._keys = Keys()
        self._broker = Mosquitto(folder / "broker", options=QUIET_BROKER)
        self._server = QueueServer(folder / "queue", policy=self._keys.policy(HUB))
        self._server.time_key = self._keys.time
        self._clock = ProvenClock(SystemTime())
        self._issuer = Issuer([self._keys.desk], self._clock)
        self._stack = ExitStack()
        self._signed = 0
        self.hub = HUB if is_agent else REFERENCE_HUB
        self.lamps = lamps

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._broker)
            stack.enter_context(self._server)
            stack.enter_context(_lamps(self._broker.port, self.lamps))
            self.system = self._system()
            stack.callback(self.system.close)
            self.system.launch()
            if isinstance(self.system, AgentUnderTest):
                self.system.meet_lamps(self.lamps)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def client(self) -> IssuerClient:
        """The queue, as an issuer sees it."""
        return IssuerClient(self._server.settings(self._server.issuer_token), self._clock)

    def sign(self, epoch: Epoch) -> SignedCommand:
        """Sign the next command: each lamp in turn, on in one round and off in the next."""
        number, self._signed = self._signed, self._signed + 1
        return self._issuer.sign(
            Intent(
                hub=self.hub,
                epoch=epoch,
                devices=[DeviceId(f"lamp-{number % self.lamps:03d}")],
                action=ActionName.POWER,
                arguments={"on": number // self.lamps % 2 == 0},
            )
        )

    def _system(self) -> AgentUnderTest | ReferenceUnderTest:
        place = Place(
            folder=self._folder / "system",
            tools=self._tools,
            broker_port=self._broker.port,
            cloud_port=self._server.port,
            token=self._server.new_hub(self.hub).token,
            lingers=SHIPPED,
        )
        place.folder.mkdir(parents=True)
        if not self._is_agent:
            words = ["bench.reference_commands", "--broker", str(place.broker_port), "--hub", self.hub]
            words += ["--cloud", str(place.cloud_port), "--token", place.token, "--epoch", token_hex(10)]
            return ReferenceUnderTest(place, [*words, "--database", str(place.folder / "inbox.db")])
        (place.folder / "policy.json").write_bytes(self._keys.policy(HUB))
        signer = self._keys.root.public.hex()
        return AgentUnderTest(place, f'[policy]\nfile = "policy.json"\nsigner = "{signer}"\n')


async def measured(rig: CommandRig, count: int) -> Figures:
    """One run."""
    async with rig.client() as cloud:
        epoch = await _said_hello(rig, cloud)
        return {**await _one_at_a_time(rig, cloud, epoch, count), **await _many(rig, cloud, epoch)}


async def _said_hello(rig: CommandRig, cloud: IssuerClient) -> Epoch:
    """Wait until the queue has heard of the hub; the life of its database."""
    while True:
        epoch = (await cloud.hub(rig.hub)).epoch
        if epoch is not None:
            return epoch
        await asyncio.sleep(_POLL)


async def _one_at_a_time(rig: CommandRig, cloud: IssuerClient, epoch: Epoch, count: int) -> Figures:
    """Send a command when the one before has ended, for whole rounds of the lamps."""
    await _ended(rig, cloud, rig.sign(epoch))
    delays = []
    before = rig.system.watch.use()
    for _ in range(count):
        order = rig.sign(epoch)
        began = time.monotonic()
        await _ended(rig, cloud, order)
        delays.append(1000 * (time.monotonic() - began))
    used = rig.system.watch.use().since(before)
    percentiles = quantiles(delays, n=100)
    return {
        "one.p50": percentiles[49],
        "one.p99": percentiles[98],
        "one.written": used.written / 1024 / count,
        **_costs("one", used, count),
    }


async def _ended(rig: CommandRig, cloud: IssuerClient, order: SignedCommand) -> None:
    await cloud.send(order)
    status = await cloud.status(rig.hub, order.command.id, wait=_PATIENCE)
    if [event.type for event in status.results] != [EventType.RECEIPT]:
        raise RuntimeError(f"a command ended as {status.results or status.state}")


async def _many(rig: CommandRig, cloud: IssuerClient, epoch: Epoch) -> Figures:
    """Fill the queue with a command for each lamp while the hub is away; measure from the first receipt."""
    while rig.sign(epoch).command.devices != [DeviceId(f"lamp-{rig.lamps - 1:03d}")]:
        pass  # begin with a whole round: no lamp is to be asked for what it shows already
    after = await _receipts(rig, cloud, 0)
    rig.system.kill()
    for _ in range(rig.lamps):
        await cloud.send(rig.sign(epoch))
    rig.system.launch()
    first = Seen(0, after.last)
    while not first.receipts:
        first = await _receipts(rig, cloud, first.last)
    began, before, seen = time.monotonic(), rig.system.watch.use(), first
    while seen.receipts < rig.lamps:
        more = await _receipts(rig, cloud, seen.last)
        seen = Seen(seen.receipts + more.receipts, more.last)
    count = seen.receipts - first.receipts
    if not count:
        raise RuntimeError(f"too few lamps to measure by: all {rig.lamps} receipts came at once")
    used = rig.system.watch.use().since(before)
    return {"many.rate": count / (time.monotonic() - began), **_costs("many", used, count)}


@dataclass(frozen=True, slots=True)
class Seen:
    """How many receipts there are up to an event of the record stream."""

    receipts: int
    last: int


async def _receipts(rig: CommandRig, cloud: IssuerClient, after: int) -> Seen:
    """The receipts of a page of the record stream; waits a moment when it is empty."""
    page = await cloud.events(rig.hub, Stream.RECORD, after=after, most=2000)
    if not page.events:
        await asyncio.sleep(_POLL)
    return Seen(sum(event.type is EventType.RECEIPT for event in page.events), page.last)


def _costs(name: str, used: Use, count: int) -> Figures:
    return {f"{name}.syncs": used.syncs / count, f"{name}.cpu": 1000 * used.cpu / count}


@contextmanager
def _lamps(port: int, count: int) -> Iterator[None]:
    """The lamps as a process of their own, once they listen."""
    words = [sys.executable, "-m", "bench.echo", str(port), str(count)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE) as lamps:
        try:
            if lamps.stdout is None or not lamps.stdout.readline():
                raise RuntimeError("the lamps do not come on")
            yield
        finally:
            lamps.kill()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="bench.commands", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--lamps", type=int, default=100)
    parser.add_argument("--commands", type=int, default=200, help="one at a time")
    parser.add_argument("--folder", type=Path, help="for databases: on the disk that is to be measured")
    options = parser.parse_args()
    agent: list[Figures] = [gate_costs()]
    reference: list[Figures] = []
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.folder) as folder:
        tools = compiled(Path(folder) / "tools")
        for run in range(options.runs):
            for is_agent, figures in ((True, agent), (False, reference)):
                where = Path(folder) / f"{run}-{'agent' if is_agent else 'reference'}"
                with CommandRig(is_agent=is_agent, folder=where, tools=tools, lamps=options.lamps) as rig:
                    figures.append(asyncio.run(measured(rig, options.commands)))
                print(f"run {run + 1}: {where.name}", flush=True)
    print(f"\n{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, medians of {options.runs} runs\n")
    print(table(ROWS, agent, reference))


if __name__ == "__main__":
    main()
