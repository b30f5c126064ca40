"""The subscriptions of one session: which are wanted, and which the broker has.

``want`` says what; ``settle`` brings the broker there over a standing connection, with the difference
only. What the broker has is known for as long as it keeps the session. After a start it may hold more
than is known: the filters of the other session are taken back, so that one which changed sides does
not bring each message twice.

A filter that asks for retained messages ALWAYS is subscribed anew over each connection, so that what
they say of the present, such as a last will, is heard again.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from paho.mqtt.subscribeoptions import SubscribeOptions

from edgeagent.adapters.mqtt.life import Life
from edgeagent.adapters.mqtt.words import FAILURE, GRANTED_QOS_1
from edgeagent.contracts.mqtt import RetainHandling, Session, Subscription
from edgeagent.ids import TopicFilter

T = TypeVar("T")

log = logging.getLogger(__name__)

# Of one SUBSCRIBE: 64 filters of at most 512 bytes stay far below what any broker takes in a packet.
_MOST: Final = 64


class Filters:
    """The subscriptions of a session.

    Attributes:
        refused: what the broker did not grant as asked, with its reason code; 0 for one that it sends
            with QoS 0 only, for which nothing is promised then.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._wanted: dict[TopicFilter, Subscription] = {}
        self._foreign: list[TopicFilter] = []
        self._made: dict[TopicFilter, Subscription] = {}
        self._stale: set[TopicFilter] = set()
        self._unknown = True
        self._wishes = 0
        self._taken_back: set[TopicFilter] = set()
        self._settling = asyncio.Lock()
        self.refused: dict[TopicFilter, int] = {}

    def want(self, wanted: Sequence[Subscription]) -> None:
        """Set what both sessions want; ours is the part that names it."""
        self._wishes += 1
        self._wanted = {entry.filter: entry for entry in wanted if entry.session is self._session}
        self._foreign = [entry.filter for entry in wanted if entry.session is not self._session]

    def connected(self, *, session_present: bool) -> None:
        """Note what is left of a session after a connect."""
        if not session_present:
            self._made.clear()
            self._unknown = False
        self._stale = {
            name for name, entry in self._made.items() if entry.retain_handling is RetainHandling.ALWAYS
        }

    async def settle(self, life: Life) -> None:
        """Subscribe what is missing, then unsubscribe what is too much, in that order: twice, not never.

        Raises:
            LinkError: the connection is over; what is not answered is asked for again over the next.
        """
        async with self._settling:
            settled = -1
            while settled != self._wishes:  # ``want`` may come while we wait for the broker
                settled = self._wishes
                await self._subscribe(life, [e for e in self._wanted.values() if self._is_missing(e)])
                gone = [name for name in self._made if name not in self._wanted]
                await self._unsubscribe(life, gone + self._strays())

    def _is_missing(self, entry: Subscription) -> bool:
        return self._made.get(entry.filter) != entry or entry.filter in self._stale

    def _strays(self) -> list[TopicFilter]:
        """Filters of the other session that an earlier start may have left here."""
        if not self._unknown:
            return []
        return [name for name in self._foreign if name not in self._taken_back and name not in self._made]

    async def _subscribe(self, life: Life, entries: Sequence[Subscription]) -> None:
        self.refused = {name: code for name, code in self.refused.items() if name in self._wanted}
        for part in parts(entries):
            codes = await life.subscribe([(entry.filter, _options(entry)) for entry in part])
            for entry, code in zip(part, codes, strict=True):
                self._stale.discard(entry.filter)
                if code < FAILURE:
                    self._made[entry.filter] = entry
                else:
                    self._made.pop(entry.filter, None)
                if code == GRANTED_QOS_1:
                    self.refused.pop(entry.filter, None)
                    continue
                self.refused[entry.filter] = code
                log.warning(
                    "subscription refused",
                    extra={"session": self._session, "filter": entry.filter, "code": code},
                )

    async def _unsubscribe(self, life: Life, names: Sequence[TopicFilter]) -> None:
        for part in parts(names):
            await life.unsubscribe(part)
            self._taken_back.update(part)
            for name in part:
                self._made.pop(name, None)


def _options(entry: Subscription) -> SubscribeOptions:
    """QoS 1, and none of what we publish ourselves; RETAIN says stored or live (retainAsPublished off)."""
    return SubscribeOptions(qos=1, noLocal=True, retainHandling=entry.retain_handling)


def parts(entries: Sequence[T]) -> Iterator[Sequence[T]]:
    """Filters in portions that fit into a packet."""
    for start in range(0, len(entries), _MOST):
        yield entries[start : start + _MOST]
