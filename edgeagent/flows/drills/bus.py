"""The broker of a drill: in memory, with the virtual appliance alone on it.

A ``DeviceBus`` that has no network: nothing that is published here can reach anybody. It loses no message
while it stands, and keeps nothing for a client that is gone, as a broker does with a session that ends.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from edgeagent.contracts.mqtt import (
    Inbound,
    LinkDown,
    LinkUp,
    Outgoing,
    PublishResult,
    Session,
    Subscription,
)
from edgeagent.flows.drills.appliance import Appliance
from edgeagent.flows.drills.timepiece import Timepiece
from edgeagent.ids import TopicFilter
from edgeagent.ports.links import LinkError, LinkState, Trouble

_PACKET_IDS: Final = 65_535


class DrillBus:
    """The broker, and both connections to it.

    Attributes:
        sent: what was published to the appliance, oldest first.
        stuck: set when what it says cannot be stored.
    """

    def __init__(self, time: Timepiece, appliance: Appliance) -> None:
        self._time = time
        self._appliance = appliance
        self._wanted: dict[str, Session] = {}
        self._came: deque[Inbound | LinkUp | LinkDown] = deque()
        self._unacknowledged: set[int] = set()
        self._stirred = asyncio.Event()
        self._drained = asyncio.Event()
        self._up = False
        self._epoch = 0
        self._last_id = 0
        self.sent: list[Outgoing] = []
        self.stuck = asyncio.Event()

    # The port.

    async def run(self) -> None:
        """Wait for the end; it stands by itself."""
        await asyncio.Event().wait()

    async def subscribe(self, wanted: Sequence[Subscription]) -> None:
        """Make ``wanted`` the whole set of subscriptions."""
        self._wanted = {entry.filter: entry.session for entry in wanted}

    async def receive(self, *, within: timedelta | None) -> list[Inbound | LinkUp | LinkDown]:
        """What has come since the last call."""
        try:
            async with asyncio.timeout(None if within is None else within.total_seconds()):
                while not self._came:
                    self._stirred.clear()
                    await self._stirred.wait()
        except TimeoutError:
            return []
        items = list(self._came)
        self._came.clear()
        return items

    def acknowledge(self, messages: Sequence[Inbound]) -> None:
        """Note that these are stored."""
        self._unacknowledged -= {message.packet_id for message in messages}
        if not self._unacknowledged:
            self._drained.set()

    def hold(self, *, held: bool) -> None:
        """Note that nothing can be stored, which ends the drill."""
        if held:
            self.stuck.set()

    async def publish(self, message: Outgoing) -> PublishResult:
        """Hand a message to the appliance.

        Raises:
            LinkError: the bus does not stand.
        """
        if not self._up:
            raise LinkError(Trouble.UNREACHABLE, "the drill's bus does not stand")
        self.sent.append(message)
        self._appliance.hears(message)
        return PublishResult.TAKEN

    async def retained(self, filters: Sequence[str]) -> list[Inbound]:  # noqa: ARG002 - the port's
        """Nothing is retained here."""
        return []

    def concerns(self) -> Sequence[str] | None:
        """None: it has no configuration."""
        return None

    async def dropped(self) -> int | None:
        """It drops nothing."""
        return 0

    def refused(self, session: Session) -> Mapping[TopicFilter, int]:  # noqa: ARG002 - the port's
        """It lets us hear everything."""
        return {}

    def state(self, session: Session) -> LinkState:  # noqa: ARG002 - both stand or fall together
        """How the connection stands."""
        return LinkState(self._up, self._time.boot(), 0, "" if self._up else "not begun")

    # What a drill does with it.

    @property
    def commands(self) -> int:
        """How many messages were sent that were to change something."""
        return sum("/set/" in message.topic for message in self.sent)

    def comes_up(self) -> None:
        """Let both connections stand, and the appliance speak."""
        self._up = True
        self._epoch += 1
        self._came.extend(LinkUp(session, self._epoch, session_present=False) for session in Session)
        self._appliance.connects(self.delivers)

    def loses_client(self) -> None:
        """Our side is gone, and what it has not stored with it."""
        self._up = False
        self._came.clear()
        self._unacknowledged.clear()

    def delivers(self, topic: str, payload: bytes) -> None:
        """The appliance publishes."""
        session = self._wanted.get(topic)
        if session is None or not self._up:
            return
        self._last_id = self._last_id % _PACKET_IDS + 1
        heard = self._time.boot() // timedelta(microseconds=1) * 1000
        message = Inbound(
            session,
            self._epoch,
            topic,
            payload,
            qos=1,
            retain=False,
            dup=False,
            packet_id=self._last_id,
            heard=heard,
        )
        self._unacknowledged.add(self._last_id)
        self._drained.clear()
        self._came.append(message)
        self._stirred.set()

    async def drains(self) -> None:
        """Wait until all that the appliance has said is stored."""
        if self._unacknowledged:
            await self._drained.wait()
