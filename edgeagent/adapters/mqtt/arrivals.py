"""What has come over one session and waits to be fetched, within bounds.

    messages before LinkUp ──> early ──LinkUp──┐
    messages after it ─────────────────────────┴──> queue ──> fetched, in order

A present session's messages may come before the answer to SUBSCRIBE; they wait for their LinkUp, which
is what the receiver hears of a life first. The queue is *full* at its bounds and *low* again at half of
them; who is full has to be stopped by its owner. Messages of a life that has ended stay in the queue:
with QoS 1 the broker sends them again, with QoS 0 nobody does.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from edgeagent.contracts.mqtt import Inbound, LinkDown, LinkUp

# A whole window may come before LinkUp, when the reader cannot be paused: SUBACK comes behind it.
_PACKET_IDS: Final = 0xFFFF
_OVERRUN: Final = 8


class Arrivals:
    """The queue of one session.

    Args:
        most: messages at which it is full.
        most_bytes: bytes of payload at which it is full.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._queue: deque[Inbound | LinkUp | LinkDown] = deque()
        self._early: list[Inbound] = []
        self._up = False
        self._bytes = 0

    def __len__(self) -> int:
        """How much can be fetched now."""
        return len(self._queue)

    @property
    def full(self) -> bool:
        """Whether it is at its bounds."""
        return len(self._queue) + len(self._early) >= self._most or self._bytes >= self._most_bytes

    @property
    def overrun(self) -> bool:
        """Whether more has come early than a broker can send that heeds any window."""
        return len(self._early) > _PACKET_IDS or self._bytes >= _OVERRUN * self._most_bytes

    @property
    def low(self) -> bool:
        """Whether it is at most half full."""
        return 2 * len(self._queue) <= self._most and 2 * self._bytes <= self._most_bytes

    def add(self, messages: Sequence[Inbound]) -> None:
        """Take what came. Before LinkUp, what is QoS 0 and no longer fits is dropped: nobody reads yet."""
        if not self._up and self.full:
            messages = [message for message in messages if message.qos]
        self._bytes += sum(len(message.payload) for message in messages)
        if self._up:
            self._queue.extend(messages)
        else:
            self._early.extend(messages)

    def link_up(self, event: LinkUp) -> None:
        """Begin a life: it, then what came early, then all that comes."""
        self._up = True
        self._queue.append(event)
        self._queue.extend(self._early)
        self._early.clear()

    def link_down(self, event: LinkDown) -> None:
        """End a life. One that never came up leaves nothing behind."""
        if self._up:
            self._queue.append(event)
        self._bytes -= sum(len(message.payload) for message in self._early)
        self._early.clear()
        self._up = False

    def fetch(self, most: int) -> list[Inbound | LinkUp | LinkDown]:
        """Up to ``most`` of what waits, oldest first."""
        queue = self._queue
        items = [queue.popleft() for _ in range(min(most, len(queue)))]
        self._bytes -= sum(len(item.payload) for item in items if isinstance(item, Inbound))
        return items

    def forget(self) -> None:
        """Drop all messages; what happened to the link stays."""
        self._queue = deque(item for item in self._queue if not isinstance(item, Inbound))
        self._early.clear()
        self._bytes = 0
