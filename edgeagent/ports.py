"""What the flows need of the outside, each named by the need.

An adapter keeps one of these promises towards one outside thing; a test's fake keeps the same, and
one suite of tests holds both to it. Flows and adapters do not know each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from edgeagent.contracts.event import Stream
from edgeagent.contracts.mqtt import (
    Inbound,
    LinkDown,
    LinkUp,
    Outgoing,
    PublishResult,
    Session,
    Subscription,
)
from edgeagent.errors import TransientError
from edgeagent.ids import Epoch


class Trouble(StrEnum):
    """Why a peer could not be used, for people and health."""

    UNREACHABLE = "unreachable"
    """No address, no route, refused, or no answer in time."""
    TLS = "tls"
    """The certificate or the handshake is not in order."""
    LOGIN = "login"
    """It does not know us, or does not let us."""
    CAPTIVE_PORTAL = "captive_portal"
    """Something else answers in its place."""
    BUSY = "busy"
    """It asked us to come later."""
    BROKEN_ANSWER = "broken_answer"
    """What it answered is cut, or not what was asked."""


class LinkError(TransientError):
    """A peer did not do its part this time.

    Attributes:
        trouble: what kind.
        retry_after: how long it asked us to wait; None when it did not say.
    """

    def __init__(self, trouble: Trouble, why: str, retry_after: timedelta | None = None) -> None:
        super().__init__(why)
        self.trouble = trouble
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class LinkState:
    """How a connection stands, for health.

    Attributes:
        connected: whether it stands now.
        since: boot time of the last change.
        attempts: tries since it last stood.
        why: what ended it or keeps it from standing; empty while it stands.
    """

    connected: bool
    since: timedelta
    attempts: int
    why: str


class DeviceBus(Protocol):
    """The hub's broker, over both sessions."""

    async def run(self) -> None:
        """Keep both connections standing; ends only by cancellation."""
        ...

    async def subscribe(self, wanted: Sequence[Subscription]) -> None:
        """Make ``wanted`` the whole set of subscriptions, now and after each reconnect."""
        ...

    async def receive(self, *, within: timedelta | None) -> list[Inbound | LinkUp | LinkDown]:
        """What has come since the last call, control first, each session in its order.

        Waits for the first, at most ``within`` (None: for ever).

        Returns:
            At most a few hundred; empty when the time is over.
        """
        ...

    def acknowledge(self, messages: Sequence[Inbound]) -> None:
        """Send the PUBACKs of ``messages``, in the order in which they were received.

        One of an earlier life of its connection is left out: the broker will send it again.
        """
        ...

    def hold(self, *, held: bool) -> None:
        """Close both connections until further notice, since nothing can be stored; or open them again.

        What was received and not acknowledged is forgotten; the broker sends it again.
        """
        ...

    async def publish(self, message: Outgoing) -> PublishResult:
        """Hand a message to the broker over the control connection and wait for its answer.

        Raises:
            LinkError: the connection does not stand; nothing was sent.
            RejectedError: larger than the broker takes; nothing was sent.
        """
        ...

    async def retained(self, filters: Sequence[str]) -> list[Inbound]:
        """Look what retained messages the broker holds under ``filters``, without subscribing for good."""
        ...

    def state(self, session: Session) -> LinkState:
        """How a connection stands."""
        ...


@dataclass(frozen=True, slots=True)
class Batch:
    """Events of one stream on their way up.

    Attributes:
        epoch: the life of the database that numbers them.
        stream: which stream.
        events: number and CloudEvent as JSON text, numbers rising.
    """

    epoch: Epoch
    stream: Stream
    events: Sequence[tuple[int, bytes]]


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What the far side proved about a batch.

    Attributes:
        taken: the numbers that it has stored.
        refused: numbers that it will never take, with its reason.
    """

    taken: frozenset[int]
    refused: dict[int, str] = field(default_factory=dict)


class EventSink(Protocol):
    """The cloud's side of the outbox."""

    async def upload(self, batch: Batch) -> Acknowledged:
        """Hand events over; return what is proven stored. Sending the same ones again is harmless.

        Raises:
            LinkError: nothing is known to have arrived.
        """
        ...


@dataclass(frozen=True, slots=True)
class Delivery:
    """A command lent to us by the cloud's queue.

    Attributes:
        handle: by which it is acknowledged, extended or handed back.
        envelope: the bytes that the issuer sent.
        until: boot time at which the loan ends.
    """

    handle: str
    envelope: bytes
    until: timedelta


class CommandSource(Protocol):
    """The cloud's side of the inbox."""

    async def lease(self, *, most: int, wait: timedelta, hold: timedelta) -> list[Delivery]:
        """Borrow up to ``most`` commands for ``hold`` each; wait up to ``wait`` for the first.

        Raises:
            LinkError: none are known to be lent.
        """
        ...

    async def acknowledge(self, handles: Sequence[str]) -> None:
        """Tell that these are safe here; the queue forgets them.

        Raises:
            LinkError: they may come again.
        """
        ...

    async def extend(self, handles: Sequence[str], *, hold: timedelta) -> None:
        """Keep these for ``hold`` more.

        Raises:
            LinkError: they may come again.
        """
        ...

    async def hand_back(self, handles: Sequence[str]) -> None:
        """Give these back unread.

        Raises:
            LinkError: they come again when their loan ends.
        """
        ...


class TimeSource(Protocol):
    """Somebody who signs the time."""

    async def statement(self, nonce: str) -> bytes:
        """Ask for a time statement over ``nonce``.

        Returns:
            A DSSE envelope; nothing about it is proven.

        Raises:
            LinkError: there was none.
        """
        ...


class CrashPoint(StrEnum):
    """A place where a test may end the process. Named after what has just happened."""

    EVENTS_COMMITTED = "events_committed"
    """Readings are committed; no PUBACK has left."""
    EVENTS_UPLOADED = "events_uploaded"
    """The cloud has acknowledged; the outbox does not know yet."""
    COMMAND_ADMITTED = "command_admitted"
    """A command stands in the inbox; the cloud's copy is not acknowledged."""
    COMMAND_CLAIMED = "command_claimed"
    """A lock is taken; nothing was sent."""
    STEP_RECORDED = "step_recorded"
    """It is recorded that a step is about to be sent; it was not."""
    STEP_SENT = "step_sent"
    """The message has gone to the broker; nothing is known of its effect."""
    EFFECT_CONFIRMED = "effect_confirmed"
    """The effect is known; the final commit has not begun."""
    COMMAND_SETTLED = "command_settled"
    """The final commit is done; the receipt has not gone up."""


class CrashPoints(Protocol):
    """Told when the agent passes one of the named points; does nothing in the product."""

    def reached(self, point: CrashPoint) -> None:
        """Note that ``point`` was passed."""
        ...
