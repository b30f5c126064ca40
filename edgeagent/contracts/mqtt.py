"""What goes to and comes from the hub's broker."""

from enum import IntEnum, StrEnum

from edgeagent.ids import Topic, TopicFilter
from edgeagent.values import dataclass


class Session(StrEnum):
    """One of the agent's two connections to the broker, each a persistent session."""

    CONTROL = "control"
    """What can confirm a command or tells availability; publishes commands."""
    TELEMETRY = "telemetry"
    """Everything else."""


class RetainHandling(IntEnum):
    """When the broker sends its retained messages (MQTT 5 section 3.8.3.1)."""

    ALWAYS = 0
    """At each subscribe: for what tells the present, such as a last will."""
    WHEN_NEW = 1
    """Only if the session did not have the subscription yet."""
    NEVER = 2
    """Not at all."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A topic filter, the session it belongs to, and its options. Always QoS 1 and noLocal."""

    filter: TopicFilter
    session: Session
    retain_handling: RetainHandling = RetainHandling.WHEN_NEW


@dataclass(slots=True)
class Inbound:
    """A PUBLISH that came from the broker. Not frozen, since it is made for every message.

    Attributes:
        session: on which connection.
        epoch: which life of that connection; an acknowledgement is good for that life only.
        topic: as sent; may hold anything that the broker lets pass.
        payload: as sent; any bytes.
        qos: 0 or 1.
        retain: the broker's stored copy rather than a live message.
        dup: the broker has sent it before.
        packet_id: to acknowledge it by; 0 for QoS 0.
        heard: nanoseconds of boot time at which it was read.
    """

    session: Session
    epoch: int
    topic: str
    payload: bytes
    qos: int
    retain: bool
    dup: bool
    packet_id: int
    heard: int


@dataclass(frozen=True, slots=True)
class LinkUp:
    """A connection stands and its subscriptions are made. Comes before its first message.

    Attributes:
        session: which.
        epoch: its new life.
        session_present: whether the broker had kept the session: if not, packet ids start anew and
            what was queued is gone.
    """

    session: Session
    epoch: int
    session_present: bool


@dataclass(frozen=True, slots=True)
class LinkDown:
    """A connection is gone; no message of that life follows.

    Attributes:
        session: which.
        epoch: the life that ended.
        why: for people.
    """

    session: Session
    epoch: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A message to a device. QoS 1, never retained (SPEC M3).

    Attributes:
        topic: where to.
        payload: what.
        expires_in: whole seconds until the broker drops it (MQTT 5 section 3.3.2.3.3), at least 1.
        traceparent: goes along as a user property (MQTT 5 section 3.3.2.3.7).
    """

    topic: Topic
    payload: bytes
    expires_in: int
    traceparent: str | None = None


class PublishResult(StrEnum):
    """What the broker said to a message."""

    TAKEN = "taken"
    """It will pass it on."""
    NOBODY_LISTENS = "nobody_listens"
    """PUBACK 0x10: nobody subscribes to the topic. Any ``#`` subscriber hides it."""
    REFUSED = "refused"
    """It did not take it: not allowed, too large."""
    NO_ANSWER = "no_answer"
    """The connection went before the answer came: it may or may not pass it on."""
