"""Telling a redelivery from a new message (SPEC Q2).

A broker that has had no PUBACK sends a QoS 1 message again, with the DUP flag and the same packet id
(MQTT 5 section 4.4). It may be one that we have stored already: the process died between the commit
and the PUBACK. So each commit leaves *marks*: packet id and digest of its messages. A message is a
repeat only if the broker says that it sends again (``dup``), had kept the session, and the last mark
of that packet id has its digest. Content alone proves nothing: a switch that is turned on, off and on
again says the same thing twice.

Marks are kept for the last ``window`` messages of a session: an older one of the same packet id and
content is another message. A new message under a packet id means that the broker has had our PUBACK for
the former one, and takes its mark away.
"""

import struct
from collections import deque
from collections.abc import Collection, Iterable
from hashlib import blake2b
from typing import Final

_MARK: Final = struct.Struct(">H16s")
MARK_BYTES: Final = _MARK.size


Mark = tuple[int, bytes]
"""A packet id, and 16 bytes that stand for the message's content."""


def digest(topic: str, payload: bytes) -> bytes:
    """16 bytes that stand for a message's content."""
    return blake2b(topic.encode(errors="surrogatepass") + b"\0" + payload, digest_size=16).digest()


class Redeliveries:
    """The marks of one broker session, in memory; the store keeps the same on disk.

    Args:
        window: how many messages back a redelivery may reach; at least what can be in flight.
        stored: what the store kept, oldest commit first.
    """

    def __init__(self, window: int, stored: Iterable[tuple[int, bytes]] = ()) -> None:
        self._window = window
        self._kept: deque[tuple[int, int]] = deque()  # commit, how many marks
        self._total = 0
        # By packet id: the content of its last message, and the how-manieth message that was.
        self._last: dict[int, tuple[bytes, int]] = {}
        self._heard = 0
        self._recent: deque[int] = deque()  # packet ids of the last messages
        # Marks of messages that were acknowledged without a commit; the next commit takes them along.
        self._loose: deque[Mark] = deque(maxlen=window)
        for batch, marks in stored:
            self._keep(batch, len(marks) // MARK_BYTES)
            for packet_id, content in _MARK.iter_unpack(marks):
                self._note(packet_id, content)

    @property
    def next_batch(self) -> int:
        """The number of the next commit."""
        return self._kept[-1][0] + 1 if self._kept else 1

    @property
    def oldest_needed(self) -> int:
        """The first commit whose marks are still needed; the store may forget those before it."""
        return self._kept[0][0] if self._kept else 0

    def is_repeat(self, mark: Mark, *, dup: bool) -> bool:
        """Whether a message was heard already; from now on it was.

        A commit that fails takes nothing back: start again from what is stored.
        """
        packet_id, content = mark
        repeat = dup and self._last.get(packet_id, (b"", 0))[0] == content
        self._note(packet_id, content)
        return repeat

    def to_store(self, marks: Iterable[Mark]) -> bytes:
        """What the commit of the messages ``marks`` has to store: theirs, and all since the last commit."""
        return b"".join(_MARK.pack(*mark) for mark in (*self._loose, *marks))

    def committed(self, marks: Collection[Mark]) -> None:
        """Note that commit ``next_batch`` has stored ``to_store(marks)``."""
        self._keep(self.next_batch, len(self._loose) + len(marks))
        self._loose.clear()

    def unchanged(self, marks: Collection[Mark]) -> None:
        """Note messages that are acknowledged without a commit, since nothing came of them."""
        self._loose.extend(marks)

    def forget_all(self) -> None:
        """Start anew: the broker did not keep the session, so no message of it comes again."""
        self._last.clear()
        self._recent.clear()
        self._loose.clear()
        self._total = 0
        # The number goes on, so that the next commit never meets a row that is still stored.
        if self._kept:
            self._kept = deque([(self._kept[-1][0], 0)])

    def _note(self, packet_id: int, content: bytes) -> None:
        self._heard += 1
        self._last[packet_id] = content, self._heard
        self._recent.append(packet_id)
        if len(self._recent) > self._window:
            oldest = self._recent.popleft()
            if self._last[oldest][1] == self._heard - self._window:
                del self._last[oldest]

    def _keep(self, batch: int, count: int) -> None:
        self._kept.append((batch, count))
        self._total += count
        while len(self._kept) > 1 and self._total - self._kept[0][1] >= self._window:
            self._total -= self._kept.popleft()[1]
