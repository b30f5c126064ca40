"""The hub's broker, as the flows need it."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from edgeagent.contracts.mqtt import Inbound, LinkDown, LinkUp, Outgoing, PublishResult, Session, Subscription
from edgeagent.ids import TopicFilter
from edgeagent.ports.links import LinkState


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
