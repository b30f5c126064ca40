"""What the flows need of the outside, each named by the need.

An adapter keeps one of these promises; a test's fake keeps the same, and one suite holds both to it.
"""

from collections.abc import Mapping, Sequence
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
from edgeagent.contracts.policy import Level, Tier
from edgeagent.contracts.reports import (
    AdmitRequest,
    CommandReport,
    CommandsReport,
    DeviceReport,
    DevicesReport,
    HealthReport,
    OutboxReport,
    SendReport,
    SendRequest,
    StatusReport,
)
from edgeagent.core.gate import World
from edgeagent.core.work import Answered, Claim, Ending, Later, StepName
from edgeagent.errors import TransientError
from edgeagent.ids import CommandId, DeviceId, Epoch, TopicFilter


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
        """What has come since the last call, control first, each session in its order; a few hundred at most.

        Waits for the first, at most ``within`` (None: for ever); empty when the time is over.
        """
        ...

    def acknowledge(self, messages: Sequence[Inbound]) -> None:
        """Send the PUBACKs, in receive order; not of an earlier life, whose messages will come again."""
        ...

    def hold(self, *, held: bool) -> None:
        """Close both connections since nothing can be stored, or open them; the unacknowledged come again."""
        ...

    async def publish(self, message: Outgoing) -> PublishResult:
        """Hand a message to the broker over the control connection and wait for its answer.

        Raises:
            LinkError: the connection does not stand; nothing was sent.
            RejectedError: larger than the broker takes; nothing was sent.
        """
        ...

    async def retained(self, filters: Sequence[str]) -> list[Inbound]:
        """What retained messages the broker holds under ``filters``; without subscribing for good."""
        ...

    def concerns(self) -> Sequence[str] | None:
        """What the broker's configuration says that could lose messages; None when it cannot be read."""
        ...

    async def dropped(self) -> int | None:
        """How many messages the broker has dropped since its start; None when it does not say."""
        ...

    def refused(self, session: Session) -> Mapping[TopicFilter, int]:
        """The filters that the broker does not let us have with QoS 1, with its reason codes."""
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
            RejectedError: the far side itself refuses the batch as a whole; smaller pieces may pass, and
                a single event that is refused so never will.
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


class WorkDesk(Protocol):
    """Where whoever works commands gets them and brings them back.

    Whoever works never names a topic, a payload or an address: it asks for a step of the claimed
    command's plan, and the desk sends it if the lock is still held (DESIGN decision 9).
    """

    async def claim(self, lane: Tier, holder: str) -> Claim:
        """Wait for a command of a lane and lock its device."""
        ...

    async def renew(self, claim: Claim) -> None:
        """Lengthen the lease.

        Raises:
            LostRaceError: somebody else may have the device by now.
        """
        ...

    async def publish(self, claim: Claim, step: StepName) -> PublishResult:
        """Send a step, recorded before it leaves; and begin to wait for what answers it.

        Raises:
            LostRaceError: the lock is not ours any more; nothing was sent.
            LinkError: the broker cannot be reached; nothing was sent.
            RejectedError: the device has no such step, or the message is too large; nothing was sent.
        """
        ...

    async def await_confirmation(self, claim: Claim, *, level: Level, within: timedelta) -> Answered:
        """Wait until the last step is proven to ``level``, denied, read back or over; at most so long."""
        ...

    async def read_device(self, claim: Claim) -> World:
        """What is known now of everything that the gate judges by."""
        ...

    async def finish(self, claim: Claim, ending: Ending) -> None:
        """End the command, in one commit.

        Raises:
            LostRaceError: the lock is not ours any more; nothing was written.
        """
        ...

    async def postpone(self, claim: Claim, later: Later) -> None:
        """Give the command back, to be taken up again later.

        Raises:
            LostRaceError: the lock is not ours any more; nothing was written.
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


class Operator(Protocol):
    """What a person at the hub may ask of the agent.

    Each ``actor`` is who the operating system says is asking.
    """

    async def health(self) -> HealthReport:
        """Look at everything."""
        ...

    async def status(self) -> StatusReport:
        """The hub at a glance."""
        ...

    async def devices(self) -> DevicesReport:
        """All devices and proposals."""
        ...

    async def device(self, device: DeviceId) -> DeviceReport:
        """One admitted device.

        Raises:
            RejectedError: it is not admitted.
        """
        ...

    async def admit(self, request: AdmitRequest, actor: str) -> DeviceReport:
        """Take a device in.

        Raises:
            RejectedError: it cannot be taken in; the message says why.
        """
        ...

    async def forget(self, device: DeviceId, actor: str) -> None:
        """Let a device go.

        Raises:
            RejectedError: it is not admitted.
        """
        ...

    async def commands(self) -> CommandsReport:
        """The commands that came last."""
        ...

    async def command(self, command: CommandId) -> CommandReport:
        """One command.

        Raises:
            RejectedError: none of that id has come.
        """
        ...

    async def send(self, request: SendRequest, actor: str) -> SendReport:
        """Make a command in the hub's own name, and wait for its end.

        Raises:
            StorageError: it was not stored, and so not done.
        """
        ...

    async def outbox(self) -> OutboxReport:
        """How much waits for the cloud."""
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
