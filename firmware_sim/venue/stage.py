"""The whole venue: every party put up in order, and taken down whatever happens.

    broker > keys, policy, cloud > line > hub, worker > listener > appliances > admission
        > all known to the cloud

``until`` is how chapters wait: on a condition of what the witnesses saw, with a bound; never on a clock.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from firmware_sim.venue.appliances import DOZEN, Appliance, Appliances
from firmware_sim.venue.broker import Broker, Make, start_broker
from firmware_sim.venue.children import Children
from firmware_sim.venue.cloud import Cloud, Signed
from firmware_sim.venue.errors import VenueError
from firmware_sim.venue.evidence import FIRST_NUMBER, Evidence, Stream
from firmware_sim.venue.hub import Hub
from firmware_sim.venue.line import Line
from firmware_sim.venue.listener import Listener
from firmware_sim.venue.shelf import Shelf
from firmware_sim.venue.telling import Teller
from firmware_sim.venue.verdict import Asked

PATIENCE: Final = 30.0
"""Seconds after which something counts as never happening; a slow machine is no broken promise."""
_LOOK: Final = 0.1
_INTRODUCING: Final = 5.0


class Venue:
    """See the module's docstring. ``put_up`` makes one.

    Attributes:
        evidence: what the witnesses saw, as of the last look.
        asked: what was asked of hub and appliances so far.
        took: how long each part has taken, in seconds.
    """

    def __init__(self, folder: Path, children: Children, teller: Teller) -> None:
        self.folder = folder
        self.teller = teller
        self.cloud = Cloud(folder / "cloud", children)
        self.line = Line()
        self.shelf = Shelf(self.cloud.repository)
        self.hub = Hub(folder / "hub", children)
        self.listener = Listener()
        self.appliances = Appliances(folder, children)
        self.evidence = Evidence(heard=self.listener.heard)
        self.asked = Asked()
        self.took: dict[str, float] = {}
        self._broker: Broker | None = None
        self._children = children
        self._next_number = FIRST_NUMBER

    async def build(self, make: Make, stack: AsyncExitStack) -> None:
        """Put everything up; ``stack`` takes it down.

        Raises:
            VenueError: something does not start.
        """
        broker = self._broker = await start_broker(make, self.folder / "broker", self._children)
        self.say(f"Broker: {broker.words()}.")
        await self.cloud.prepare()
        cloud = await self.cloud.start()
        await self.line.open(self.cloud.url)
        self.say(f"Cloud: the reference queue at {self.cloud.url} (process {cloud.pid}); it signs the time.")
        await self.shelf.open()
        self.hub.prepare(broker, self.line.url, self.shelf.url, self.cloud)
        await self.hub.start()
        await self.hub.take_policy(self.cloud.version)
        self.say(
            f"Hub: the real agent (process {self.hub.pid}). It reaches the cloud by a line at "
            f"{self.line.url}, which can be cut."
        )
        worker = await self.hub.start_worker()
        self.say(f"Worker: a process of its own for the high tier ({worker.pid}), without any network.")
        await stack.enter_async_context(self.listener.at(broker.port, mqtt5=broker.all_speak_mqtt5))
        await self._plug_in(broker)

    @property
    def broker(self) -> Broker:
        """Its broker."""
        assert self._broker is not None, "nothing is put up yet"  # noqa: S101 - our own mistake
        return self._broker

    def say(self, text: str) -> None:
        """Tell what is done."""
        self.teller.say(text)

    async def look(self) -> None:
        """Ask the witnesses anew."""
        self.evidence.journal = self.appliances.journal()
        for stream in Stream:
            self.evidence.take(stream, await self.cloud.news(stream))
        self.evidence.versions.update(await self.cloud.versions() - self.evidence.versions)
        self.teller.counts(self._counts())

    async def until(self, condition: Callable[[], bool], what: str, *, within: float = PATIENCE) -> bool:
        """Wait until the witnesses have seen something.

        Args:
            condition: of the evidence.
            what: it is, for people.
            within: seconds.

        Returns:
            Whether they have; if not, the verdict will say what is missing.
        """
        deadline = asyncio.get_running_loop().time() + within
        while True:
            await self.look()
            if condition():
                return True
            if asyncio.get_running_loop().time() > deadline:
                self.say(f"Waited {within:g} s in vain for {what}.")
                return False
            await asyncio.sleep(_LOOK)

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Note how long a part takes."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        yield
        self.took[part] = clock() - begun

    async def watch(self, work: Coroutine[None, None, None]) -> None:
        """Let something be done, and show how the counts move meanwhile."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(work)
            while not task.done():
                await self.look()
                await asyncio.wait([task], timeout=_LOOK)

    def burst(self, count: int) -> range:
        """Numbers for a burst of readings, used by no other."""
        first, self._next_number = self._next_number, self._next_number + count
        return range(first, first + count)

    async def until_kept(self, burst: range) -> bool:
        """Wait until the cloud holds whatever of a burst was acknowledged, and the listener has heard it."""
        evidence = self.evidence
        return await self.until(
            lambda: evidence.acknowledged(burst) <= evidence.stored.keys() & evidence.heard.keys(),
            "the readings to reach the cloud",
        )

    async def until_ended(self, *commands: str) -> bool:
        """Wait until the cloud has a receipt of each command."""
        return await self.until(
            lambda: set(commands) <= {receipt.command for receipt in self.evidence.receipts()},
            "the receipt at the cloud",
        )

    async def give(self, signed: Signed, appliances: int = 1) -> None:
        """Send a signed command that is to reach the hub, for so many appliances.

        Raises:
            VenueError: the queue does not take it.
        """
        answer = await self.cloud.send(signed)
        if not answer.good:
            raise VenueError(
                f"the queue refuses the command: {answer.text('reason')} {answer.text('detail')}"
            )
        self.asked.commands += [signed.id] * appliances

    def expect(self, appliance: Appliance, action: str, times: int = 1) -> None:
        """Note that something was asked that will change an appliance."""
        self.asked.changes[appliance.id, action] += times

    async def _plug_in(self, broker: Broker) -> None:
        """Start the appliances, admit them, and wait until the cloud knows them all."""
        child = await self.appliances.start(broker.port, mqtt5=broker.all_speak_mqtt5)
        everyone = self.appliances.all
        await self._until_proposed(everyone)
        await self.hub.admit(everyone)
        versions = self.evidence.versions
        if not await self.until(
            lambda: all(versions[one.id] for one in everyone), "the cloud to know how all appliances are"
        ):
            raise VenueError("the appliances' states do not reach the cloud")
        models = [model.partition("-")[0].title() for model in DOZEN.values()]
        families = ", ".join(f"{models.count(family)} {family}" for family in dict.fromkeys(models))
        self.say(
            f"Appliances: {len(everyone)} simulated ones ({families}; process {child.pid}), each admitted by "
            "name with edgeagent devices admit."
        )

    async def _until_proposed(self, everyone: Sequence[Appliance]) -> None:
        """Wait until the hub has seen them all; who introduced itself too early does it again."""
        loop = asyncio.get_running_loop()
        deadline, patience = loop.time() + PATIENCE, loop.time() + _INTRODUCING
        while missing := {one.id for one in everyone} - await self.hub.proposed():
            if loop.time() > deadline:
                raise VenueError(f"the hub does not see {', '.join(sorted(missing))}")
            if loop.time() > patience:
                patience += _INTRODUCING
                for one in everyone:
                    if one.id in missing:
                        await self.appliances.reconnect(one)
            await asyncio.sleep(_LOOK)

    def _counts(self) -> str:
        evidence = self.evidence
        numbered = range(FIRST_NUMBER, self._next_number)
        return (
            f"readings: {len(evidence.acknowledged(numbered)):,} acknowledged, "
            f"{len(evidence.heard):,} heard, "
            f"{len(evidence.stored):,} at the cloud · {len(evidence.effects())} effects · "
            f"{len(evidence.receipts())} receipts"
        )


@asynccontextmanager
async def put_up(make: Make, folder: Path, children: Children, teller: Teller) -> AsyncIterator[Venue]:
    """A venue in a folder, while inside.

    Raises:
        VenueError: it cannot be put up.
    """
    venue = Venue(folder, children, teller)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(venue.line.close)
        stack.push_async_callback(venue.shelf.close)
        stack.push_async_callback(venue.cloud.close)
        # Before the line closes: whoever has gone holds no request open.
        stack.push_async_callback(children.close)
        with venue.timed("putting it up"):
            await venue.build(make, stack)
        yield venue
