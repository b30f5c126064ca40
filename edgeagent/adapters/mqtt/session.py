"""The owner of one of the two sessions: one connection after the other.

    held, or queue not low ──> waits
    otherwise ──> dial ──> Life ──> filters ──> LinkUp ... LinkDown ──> backoff ──> again

There is never more than one connection of a session, and never a hot loop: each end but one on purpose
counts as a failure, a kick right after CONNACK too, and failures are forgotten only once a connection
has stood for a while (SPEC E4, R8).

When the queue is full its reader is paused, for half a keepalive at most; then the connection is closed
on purpose and opened again when the queue is low. Of control, too, that delays nothing: whatever is not
read stands behind a full queue. Its Receive Maximum keeps it from filling, but mosquitto 2.0 sends a
whole backlog at once when a session is resumed; who was cut off for that would never catch up.

A message that cannot be read would end each connection of a kept session: see ``poison``.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from edgeagent.adapters.mqtt.arrivals import Arrivals
from edgeagent.adapters.mqtt.dial import dial
from edgeagent.adapters.mqtt.filters import Filters
from edgeagent.adapters.mqtt.handshake import Identity
from edgeagent.adapters.mqtt.life import Life
from edgeagent.adapters.mqtt.poison import Poison, UnreadableError, is_topic
from edgeagent.adapters.mqtt.settings import Means, MqttSettings
from edgeagent.contracts.mqtt import Inbound, LinkDown, LinkUp, Outgoing, Session
from edgeagent.core.retry import Backoff
from edgeagent.ports.links import HELD, LinkError, LinkState, Trouble

log = logging.getLogger(__name__)

# So many connections in a row have to end early before a second client of our name is suspected.
_TURNS: Final = 2


class BrokerSession:
    """One session's connections.

    Args:
        session: which.
        client_id: its name at the broker.
        settings: of the room.
        means: of the room.
        stirred: told when there is something to fetch.

    Attributes:
        filters: its subscriptions.
    """

    def __init__(
        self,
        session: Session,
        client_id: str,
        settings: MqttSettings,
        means: Means,
        stirred: Callable[[], None],
    ) -> None:
        self._session = session
        self._client_id = client_id
        self._settings = settings
        self._means = means
        self._stirred = stirred
        self._received = means.metrics.messages.labels(session)
        self._arrivals = Arrivals(settings.queue_messages, settings.queue_bytes)
        self._backoff = Backoff(settings.backoff)
        self._may_open = asyncio.Event()
        self._may_open.set()
        self._held = False
        self._epoch = 0
        self._life: Life | None = None
        self._standing = False
        self._on_purpose = False
        self._patience: asyncio.TimerHandle | None = None
        self._changed = means.clock.boot()
        self._why = LinkError(Trouble.UNREACHABLE, "not tried yet")
        self._poison = Poison()
        self.filters = Filters(session)

    async def run(self) -> None:
        """Keep a connection standing; ends only by cancellation."""
        while True:
            await self._may_open.wait()
            why = await self._one_life()
            if not self._on_purpose:
                now = self._means.clock.boot()
                wait = self._backoff.failed(now, chance=self._means.chance(), at_least=why.retry_after)
                await self._means.wait(wait)

    @property
    def state(self) -> LinkState:
        """How it stands."""
        if self._standing:
            self._backoff.worked(self._means.clock.boot())
        return LinkState(
            connected=self._standing,
            since=self._changed,
            attempts=self._backoff.failures,
            why="" if self._standing else str(self._why),
            poisoned=self._poison.last,
            unfit=self._poison.topics,
            cleared=self._poison.cleared,
        )

    @property
    def has_more(self) -> bool:
        """Whether there is anything to fetch."""
        return len(self._arrivals) > 0

    def fetch(self, most: int) -> list[Inbound | LinkUp | LinkDown]:
        """Up to ``most`` of what has come, in order."""
        items = self._arrivals.fetch(most)
        if self._patience is not None and self._arrivals.low:
            self._patience.cancel()
            self._patience = None
            if self._life is not None:
                self._life.resume()
        self._reconsider()
        return items

    async def settle_filters(self) -> None:
        """Bring the broker's subscriptions to what is wanted, if the connection stands."""
        if self._life is not None and self._standing:
            with contextlib.suppress(LinkError):  # done again over the next connection
                await self.filters.settle(self._life)

    def adopt(self, settings: MqttSettings) -> None:
        """Log in with another password from the next connection on; all else is as it was."""
        self._settings = settings

    def acknowledge(self, messages: Sequence[Inbound]) -> None:
        """Send the PUBACKs of those messages that are of the present life."""
        if self._life is not None:
            self._life.acknowledge(messages)

    def publish(self, message: Outgoing) -> Awaitable[list[int]]:
        """Send a message here and now; see ``Life.publish``.

        Raises:
            RejectedError: larger than the broker takes; nothing was sent.
            LinkError: the connection does not stand, or too much is on its way; nothing was sent.
        """
        if self._life is None or not self._standing:
            raise LinkError(self._why.trouble, f"no connection to the broker: {self._why}")
        return self._life.publish(message)

    def hold(self, *, held: bool) -> None:
        """Close the connection and forget what came over it, until further notice; or open it again."""
        self._held = held
        if held:
            self._end(LinkError(Trouble.BUSY, HELD), on_purpose=True)
            self._arrivals.forget()
        self._reconsider()

    async def _one_life(self) -> LinkError:
        """One connection, from dialling to its end.

        Returns:
            Why it ended; ``_on_purpose`` tells whether we wanted it to.
        """
        self._epoch += 1
        self._on_purpose = False
        try:
            dialled = await dial(self._settings, self._means.resolve)
        except LinkError as why:
            return self._note_failure(why)
        if self._held:
            dialled.close()
            self._on_purpose = True
            return self._why
        identity = Identity(
            client_id=self._client_id,
            session=self._session,
            epoch=self._epoch,
            window=self._settings.window(self._session),
            expiry=self._settings.session_expiry,
            afresh=self._poison.is_enough,
        )
        life = self._life = Life(identity, self._settings, self._means.clock, self._arrived)
        try:
            await self._stand(life, dialled)
            await life.over()
        except LinkError as why:
            life.leave(why)
        finally:
            life.leave(LinkError(Trouble.UNREACHABLE, "the agent stops"))
            self._fallen(life.ended.result())
        return self._why

    async def _stand(self, life: Life, dialled: socket.socket) -> None:
        """From CONNECT to LinkUp.

        Raises:
            LinkError: it did not come to that; the life is over.
        """
        welcome = await life.open(dialled)
        if life.identity.afresh:
            self._poison.begun_afresh()
            log.error("session begun afresh", extra={"session": self._session, "why": str(self._why)})
        self.filters.connected(session_present=welcome.session_present)
        await self.filters.settle(life)
        if life.ended.done():
            return
        self._standing = True
        self._changed = self._means.clock.boot()
        self._backoff.worked(self._changed)
        self._means.metrics.link_up.labels(self._session).set(1)
        log.info("link up", extra={"session": self._session, "present": welcome.session_present})
        self._arrivals.link_up(LinkUp(self._session, self._epoch, welcome.session_present))
        self._stirred()

    def _fallen(self, why: LinkError) -> None:
        """Put down what belonged to a life."""
        now = self._means.clock.boot()
        if self._standing and now - self._changed >= self._settings.backoff.stable_after:
            self._poison.stood_long()
        if self._life is not None and self._life.is_greeted and isinstance(why, UnreadableError):
            self._poison.ended(now)
        why = self._suspicion(why)
        self._life = None
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        self._arrivals.link_down(LinkDown(self._session, self._epoch, str(why)))
        self._stirred()
        if self._standing:
            self._standing = False
            self._changed = now
            self._means.metrics.link_up.labels(self._session).set(0)
            log.warning("link down", extra={"session": self._session, "why": str(why)})
            self._why = why
        else:
            self._note_failure(why)
        self._reconsider()

    def _suspicion(self, why: LinkError) -> LinkError:
        """Say what a connection that ends soon after each connect may mean.

        Two clients of one name throw each other out in turns. MQTT 5 has a reason code for it, 0x8E,
        but mosquitto 2.0 just closes.
        """
        if not self._standing or self._on_purpose or self._backoff.failures < _TURNS:
            return why
        hint = f"soon after each connect: is another agent connected as {self._client_id}?"
        return LinkError(why.trouble, f"{why}, {hint}", why.retry_after)

    def _note_failure(self, why: LinkError) -> LinkError:
        if why.trouble is not self._why.trouble or not self._backoff.failures:
            # The same trouble at each attempt is one line, not one a minute.
            log.warning("no link", extra={"session": self._session, "trouble": why.trouble, "why": str(why)})
        self._why = why
        return why

    def _arrived(self, messages: list[Inbound]) -> None:
        self._received.inc(len(messages))
        unfit = sum(not is_topic(message.topic) for message in messages)
        self._poison.came(unfit, self._means.clock.boot())
        arrivals = self._arrivals
        arrivals.add(messages)
        if self._standing:
            self._stirred()
        if self._standing and arrivals.full:
            self._pause()
        elif arrivals.overrun:
            why = "overrun: more came than the broker was asked for"
            self._end(LinkError(Trouble.BUSY, why), on_purpose=False)

    def _pause(self) -> None:
        """Read no more until the queue is low, for half a keepalive."""
        if self._patience is None and self._life is not None:
            self._life.pause()
            half = self._life.keepalive.total_seconds() / 2
            why = LinkError(Trouble.BUSY, "backpressure: the store does not follow")
            self._patience = asyncio.get_running_loop().call_later(
                half, lambda: self._end(why, on_purpose=True)
            )

    def _end(self, why: LinkError, *, on_purpose: bool) -> None:
        if self._life is not None:
            self._on_purpose = on_purpose
            self._life.leave(why)

    def _reconsider(self) -> None:
        """Whether a connection may be opened."""
        if self._held or not self._arrivals.low:
            self._may_open.clear()
        else:
            self._may_open.set()
