"""A second implementation of ``DeviceBus``, in memory, for tests of flows.

    bus = FakeBus(clock)
    bus.comes_up()
    bus.delivers("tele/1/data", b"{}")     # a device speaks
    bus.goes_down()                        # what was not acknowledged will come again
    bus.comes_up(session_present=True)

It keeps the promises of the port and those of MQTT that flows rely on: packet ids, redelivery with the
DUP flag, retained messages by the subscription's retain handling, sessions that are kept or lost.
``tests/adapters/test_mqtt_contract.py`` holds it and the real adapter to one suite.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from paho.mqtt.client import topic_matches_sub

from edgeagent.clock import Clock
from edgeagent.contracts.mqtt import (
    Inbound,
    LinkDown,
    LinkUp,
    Outgoing,
    PublishResult,
    RetainHandling,
    Session,
    Subscription,
)
from edgeagent.errors import BrokenInvariantError, RejectedError
from edgeagent.ids import TopicFilter
from edgeagent.ports.links import HELD, LinkError, LinkState, Trouble

_MOST = 500
_PACKET_IDS = 65_535


@dataclass(slots=True)
class _Kept:
    """What the broker keeps for one session."""

    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    unacknowledged: dict[int, Inbound] = field(default_factory=dict)
    queued: deque[Inbound] = field(default_factory=deque)
    last_id: int = 0
    epoch: int = 0
    exists: bool = False


class FakeBus:
    """A broker and both connections to it, down until ``comes_up``.

    Attributes:
        published: what was handed to the broker, oldest first.
        acknowledged: the messages whose PUBACK has left, oldest first.
        largest: bytes of payload that the broker takes.
        configured: what its configuration says that could lose messages; None: it cannot be read.
        has_dropped: how many messages it has dropped; None: it does not say.
        does_not_let: filters that it refuses, with its reason codes.
        says_nothing: whether what is handed to it is never answered: no broker, a mistake of ours.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._up = False
        self._held = False
        self._why = "not tried yet"
        self._changed = clock.boot()
        self._wanted: tuple[Subscription, ...] = ()
        self._kept = {session: _Kept() for session in Session}
        self._came: dict[Session, deque[Inbound | LinkUp | LinkDown]] = {s: deque() for s in Session}
        self._stir = asyncio.Event()
        self._retained: dict[str, bytes] = {}
        self._answers: deque[PublishResult | LinkError | RejectedError] = deque()
        self._reactions: dict[str, Callable[[Outgoing], None]] = {}
        self.published: list[Outgoing] = []
        self.acknowledged: list[Inbound] = []
        self.largest = 256 * 1024
        self.configured: Sequence[str] | None = None
        self.has_dropped: int | None = None
        self.does_not_let: Mapping[TopicFilter, int] = {}
        self.says_nothing = False

    # The port.

    async def run(self) -> None:
        """Wait for the end; connections come and go by the verbs below."""
        await asyncio.Event().wait()

    async def subscribe(self, wanted: Sequence[Subscription]) -> None:
        """Make ``wanted`` the whole set of subscriptions; a filter belongs to one session."""
        filters = [entry.filter for entry in wanted]
        if len(set(filters)) != len(filters):
            raise BrokenInvariantError("both sessions claim a filter")
        self._wanted = tuple(wanted)
        if self._is_open():
            for session in Session:
                self._settle(session)

    async def receive(self, *, within: timedelta | None) -> list[Inbound | LinkUp | LinkDown]:
        """What has come, control first."""
        try:
            async with asyncio.timeout(None if within is None else within.total_seconds()):
                while not any(self._came.values()):
                    self._stir.clear()
                    await self._stir.wait()
        except TimeoutError:
            return []
        items: list[Inbound | LinkUp | LinkDown] = []
        for came in self._came.values():
            while came and len(items) < _MOST:
                items.append(came.popleft())
        return items

    def acknowledge(self, messages: Sequence[Inbound]) -> None:
        """Forget what need not be sent again."""
        for message in messages:
            waiting = self._kept[message.session].unacknowledged
            if waiting.get(message.packet_id) is message and self._is_open():
                del waiting[message.packet_id]
                self.acknowledged.append(message)

    def hold(self, *, held: bool) -> None:
        """Close both connections, or open them again."""
        self._held = held
        if held and self._up:
            for came in self._came.values():
                kept = [item for item in came if not isinstance(item, Inbound)]
                came.clear()
                came.extend(kept)
            self._close(HELD)
        elif not held and self._up:
            self._open()

    async def publish(self, message: Outgoing) -> PublishResult:
        """Take a message and answer as told; by default that it is taken."""
        if not self._is_open():
            raise LinkError(Trouble.UNREACHABLE, f"no connection to the broker: {self._why}")
        if len(message.payload) > self.largest:
            raise RejectedError(f"{len(message.payload)} bytes, where the broker takes {self.largest}")
        answer = self._answers.popleft() if self._answers else PublishResult.TAKEN
        if isinstance(answer, Exception):
            raise answer
        self.published.append(message)
        if self.says_nothing:
            await asyncio.Event().wait()
        reaction = self._reactions.get(message.topic)
        if reaction is not None and answer is PublishResult.TAKEN:
            reaction(message)
        return answer

    async def retained(self, filters: Sequence[str]) -> list[Inbound]:
        """The retained messages under ``filters``."""
        if not self._up:
            raise LinkError(Trouble.UNREACHABLE, self._why)
        return [
            self._inbound(Session.CONTROL, 0, topic, payload, retain=True)
            for topic, payload in self._retained.items()
            if any(topic_matches_sub(wanted, topic) for wanted in filters)
        ]

    def concerns(self) -> Sequence[str] | None:
        """What the broker's configuration says; by default it cannot be read."""
        return self.configured

    async def dropped(self) -> int | None:
        """How many messages it has dropped; by default it does not say."""
        return self.has_dropped

    def refused(self, session: Session) -> Mapping[TopicFilter, int]:
        """Which filters it refuses; by default none."""
        return self.does_not_let if session is Session.CONTROL else {}

    def state(self, session: Session) -> LinkState:
        """How a connection stands; both do alike."""
        assert session in self._kept
        standing = self._is_open()
        return LinkState(standing, self._changed, 0 if standing else 1, "" if standing else self._why)

    # What a test may see.

    @property
    def arrived(self) -> int:
        """How much has come that nobody has received yet."""
        return sum(len(came) for came in self._came.values())

    @property
    def unacknowledged(self) -> int:
        """How many messages the broker would send again, were the connections to break now."""
        return sum(len(kept.unacknowledged) for kept in self._kept.values())

    # The verbs.

    def comes_up(self, *, session_present: bool = True) -> None:
        """The broker is there: both connect, at the first time to new sessions anyway."""
        if not session_present:
            for session, kept in self._kept.items():
                self._kept[session] = _Kept(epoch=kept.epoch)
        self._up = True
        if not self._held:
            self._open()

    def goes_down(self, why: str = "closed by the broker") -> None:
        """The broker is gone; it keeps sessions and retained messages."""
        if self._is_open():
            self._close(why)
        self._up = False
        self._why = why

    def loses_client(self) -> None:
        """The process on our side is gone, and all that it had received with it; the broker lives on."""
        self.goes_down("the client is gone")
        self._held = False
        for came in self._came.values():
            came.clear()

    def delivers(self, topic: str, payload: bytes, *, qos: int = 1, retain: bool = False) -> None:
        """A device publishes; with ``retain`` the broker keeps it too. It comes as a live message."""
        if retain and payload:
            self._retained[topic] = payload
        elif retain:
            self._retained.pop(topic, None)
        for session, kept in self._kept.items():
            if any(topic_matches_sub(name, topic) for name in kept.subscriptions):
                self._hand_over(session, self._inbound(session, qos, topic, payload, retain=False))

    def delivers_twice(self, topic: str, payload: bytes) -> None:
        """A device publishes and is not sure that it was heard: two messages, alike but for the id."""
        self.delivers(topic, payload)
        self.delivers(topic, payload)

    def answers_publish_with(self, *answers: PublishResult | LinkError | RejectedError) -> None:
        """What the next publishes get."""
        self._answers.extend(answers)

    def reacts(self, topic: str, reaction: Callable[[Outgoing], None]) -> None:
        """What a device does when a command for it is taken."""
        self._reactions[topic] = reaction

    # Behind them.

    def _is_open(self) -> bool:
        return self._up and not self._held

    def _open(self) -> None:
        for session, kept in self._kept.items():
            kept.epoch += 1
            self._came[session].append(LinkUp(session, kept.epoch, kept.exists))
            kept.exists = True
            heard = self._heard()
            again = [
                replace(m, dup=True, epoch=kept.epoch, heard=heard) for m in kept.unacknowledged.values()
            ]
            kept.unacknowledged = {message.packet_id: message for message in again}
            self._came[session].extend(again)
            waiting, kept.queued = kept.queued, deque()
            for message in waiting:
                self._hand_over(session, message)
            self._settle(session, anew=True)
        self._changed = self._clock.boot()
        self._stir.set()

    def _close(self, why: str) -> None:
        self._why = why
        self._changed = self._clock.boot()
        for session, kept in self._kept.items():
            self._came[session].append(LinkDown(session, kept.epoch, why))
        self._stir.set()

    def _settle(self, session: Session, *, anew: bool = False) -> None:
        kept = self._kept[session]
        before = kept.subscriptions
        kept.subscriptions = {entry.filter: entry for entry in self._wanted if entry.session is session}
        for entry in kept.subscriptions.values():
            again = entry.retain_handling is RetainHandling.ALWAYS and (
                anew or before.get(entry.filter) != entry
            )
            first = entry.retain_handling is RetainHandling.WHEN_NEW and entry.filter not in before
            for topic, payload in self._retained.items() if again or first else ():
                if topic_matches_sub(entry.filter, topic):
                    self._hand_over(session, self._inbound(session, 1, topic, payload, retain=True))

    def _inbound(self, session: Session, qos: int, topic: str, payload: bytes, *, retain: bool) -> Inbound:
        epoch = self._kept[session].epoch
        return Inbound(
            session, epoch, topic, payload, qos, retain, dup=False, packet_id=0, heard=self._heard()
        )

    def _heard(self) -> int:
        return self._clock.boot() // timedelta(microseconds=1) * 1000

    def _hand_over(self, session: Session, message: Inbound) -> None:
        """Send a message over a session, or keep it for later if it is QoS 1."""
        kept = self._kept[session]
        if not self._is_open():
            if message.qos:
                kept.queued.append(message)
            return
        if message.qos:
            kept.last_id = kept.last_id % _PACKET_IDS + 1
            message = replace(message, packet_id=kept.last_id, epoch=kept.epoch, heard=self._heard())
            kept.unacknowledged[message.packet_id] = message
        self._came[session].append(message)
        self._stir.set()
