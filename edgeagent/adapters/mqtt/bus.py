"""The hub's broker as the flows see it: ``ports.DeviceBus`` over two persistent MQTT 5 sessions.

    control ────> what confirms a command or tells availability; publishes commands
    telemetry ──> the rest

Under a flood one shared connection delayed acknowledgements by 5 s; a second one keeps them at 7 ms.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from edgeagent.adapters.mqtt.broker_config import read_limits
from edgeagent.adapters.mqtt.retained import Look
from edgeagent.adapters.mqtt.session import BrokerSession
from edgeagent.adapters.mqtt.settings import Means, MqttSettings
from edgeagent.adapters.mqtt.words import FAILURE, NO_MATCHING_SUBSCRIBERS
from edgeagent.contracts.mqtt import (
    Inbound,
    LinkDown,
    LinkUp,
    Outgoing,
    PublishResult,
    Session,
    Subscription,
)
from edgeagent.errors import BrokenInvariantError, RejectedError
from edgeagent.ids import HubId, TopicFilter
from edgeagent.ports.links import LinkError, LinkState

# Of one ``receive``: control first, but never so much that telemetry starves.
_MOST: Final = 500
_MOST_CONTROL: Final = 300
_DROPPED: Final = "$SYS/broker/publish/messages/dropped"
_DIGITS: Final = 19


class MqttBus:
    """Implements ``ports.DeviceBus``; it belongs to the loop that it is built on."""

    def __init__(self, hub: HubId, settings: MqttSettings, means: Means) -> None:
        self._settings = settings
        self._means = means
        self._stir = asyncio.Event()
        self._look_id = f"edgeagent-{hub}-look"
        self._looking = asyncio.Lock()
        self._sessions = {
            session: BrokerSession(session, f"edgeagent-{hub}-{session}", settings, means, self._stir.set)
            for session in Session
        }

    def adopt(self, settings: MqttSettings) -> None:
        """Log in with another password from the next connection on; all else is as it was."""
        self._settings = settings
        for owner in self._sessions.values():
            owner.adopt(settings)

    def refused(self, session: Session) -> Mapping[TopicFilter, int]:
        """The filters that the broker does not let us subscribe to, with its reason codes."""
        return self._sessions[session].filters.refused

    async def run(self) -> None:
        """Keep both connections standing; ends only by cancellation."""
        async with asyncio.TaskGroup() as group:
            for session, owner in self._sessions.items():
                group.create_task(owner.run(), name=f"mqtt {session}")

    async def subscribe(self, wanted: Sequence[Subscription]) -> None:
        """Make ``wanted`` the whole set of subscriptions, now and after each reconnect.

        What the broker refuses stands in ``refused``.

        Raises:
            BrokenInvariantError: a filter is claimed by both sessions; nothing has changed.
        """
        owners: dict[TopicFilter, Session] = {}
        for entry in wanted:
            if owners.setdefault(entry.filter, entry.session) is not entry.session:
                raise BrokenInvariantError(f"both sessions claim the filter {entry.filter}")
        for owner in self._sessions.values():
            owner.filters.want(wanted)
        for owner in self._sessions.values():
            await owner.settle_filters()

    async def receive(self, *, within: timedelta | None) -> list[Inbound | LinkUp | LinkDown]:
        """What has come since the last call, control first, each session in its order.

        Waits for the first, at most ``within`` (None: for ever).

        Returns:
            At most 500; empty when the time is over.
        """
        items = self._fetch()
        if items:
            return items
        try:
            async with asyncio.timeout(None if within is None else within.total_seconds()):
                while not items:
                    await self._stir.wait()
                    items = self._fetch()
        except TimeoutError:
            pass
        return items

    def acknowledge(self, messages: Sequence[Inbound]) -> None:
        """Send the PUBACKs of ``messages``, in the order in which they were received.

        One that is given before an earlier one waits for it. One of an earlier life of its connection
        is left out: the broker will send it again.
        """
        for session, owner in self._sessions.items():
            owner.acknowledge([message for message in messages if message.session is session])

    def hold(self, *, held: bool) -> None:
        """Close both connections until further notice, since nothing can be stored; or open them again.

        What was received and not acknowledged is forgotten; the broker sends it again.
        """
        for owner in self._sessions.values():
            owner.hold(held=held)

    async def publish(self, message: Outgoing) -> PublishResult:
        """Hand a message to the broker over the control connection and wait for its answer.

        It is sent before the first wait, in the same turn of the loop as whatever the caller checked.

        Raises:
            LinkError: the connection does not stand, or too much is on its way; nothing was sent.
            RejectedError: larger than the broker takes, or expired; nothing was sent.
        """
        if message.expires_in < 1:
            raise RejectedError("it would expire before it is sent")
        answer = self._sessions[Session.CONTROL].publish(message)
        try:
            code = (await answer)[0]
        except LinkError:
            return PublishResult.NO_ANSWER
        if code >= FAILURE:
            return PublishResult.REFUSED
        return PublishResult.NOBODY_LISTENS if code == NO_MATCHING_SUBSCRIBERS else PublishResult.TAKEN

    async def retained(self, filters: Sequence[str]) -> list[Inbound]:
        """Look what retained messages the broker holds under ``filters``, without subscribing for good.

        Raises:
            LinkError: the broker cannot be reached, or does not let us look.
        """
        if not filters:
            return []
        async with self._looking:  # two of one name would throw each other out
            return await Look(self._look_id, self._settings, self._means).at(filters)

    def concerns(self) -> Sequence[str] | None:
        """What the broker's configuration says that could lose messages; None when it cannot be read."""
        path = self._settings.broker_config
        limits = None if path is None else read_limits(path)
        return None if limits is None else limits.concerns

    async def dropped(self) -> int | None:
        """How many messages the broker has dropped since its start; None when it does not say.

        mosquitto answers PUBACK to a message that it then drops, because a queue is full; only this
        tells. It is looked up, not subscribed to: some brokers hang up on who asks for ``$SYS``.
        """
        try:
            found = await self.retained([_DROPPED])
        except LinkError:
            return None
        said = found[-1].payload if found else b""
        return int(said) if said.isdigit() and len(said) <= _DIGITS else None

    def state(self, session: Session) -> LinkState:
        """How a connection stands."""
        return self._sessions[session].state

    def _fetch(self) -> list[Inbound | LinkUp | LinkDown]:
        control, telemetry = self._sessions[Session.CONTROL], self._sessions[Session.TELEMETRY]
        items = control.fetch(_MOST_CONTROL)
        items += telemetry.fetch(_MOST - len(items))
        if not control.has_more and not telemetry.has_more:
            self._stir.clear()
        return items
