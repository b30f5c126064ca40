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

How far a redelivery reaches back is not told by the Receive Maximum. mosquitto 2.0.11 overruns it twelvefold
and more under load, and a PUBACK that it has not read yet is lost with the connection: after a kill it sent
thousands of messages again that had been stored. Only the packet ids bound it: see ``REACH``.
"""

import struct
from array import array
from collections import deque
from collections.abc import Collection, Iterable
from hashlib import blake2b
from typing import Final

_MARK: Final = struct.Struct(">H16s")
MARK_BYTES: Final = _MARK.size
REACH: Final = 65_534
"""Messages back that a redelivery can reach. One less than there are packet ids: a broker that counts through
them gives the same one again with the 65,535th message after."""

# The store forgets marks in portions of so many parts of the window: row by row, it would write two pages
# more in each commit.
_PORTIONS: Final = 16

_DIGEST: Final = 16
_BLOCK: Final = 256
# Of messages that nothing came of; a redelivered one changes nothing again.
_MOST_LOOSE: Final = 2000


Mark = tuple[int, bytes]
"""A packet id, and 16 bytes that stand for the message's content."""


def digest(topic: str, payload: bytes) -> bytes:
    """16 bytes that stand for a message's content."""
    return blake2b(topic.encode(errors="surrogatepass") + b"\0" + payload, digest_size=16).digest()


class _Latest:
    """The last message of each packet id: its content, and the how-manieth message it was.

    Kept in blocks, made when they are needed: 24 bytes for each id of a broker that counts through all of
    them, one block for one that uses a few again and again.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, tuple[bytearray, array[int]]] = {}

    def put(self, packet_id: int, content: bytes, place: int) -> None:
        """Note a message."""
        number, index = divmod(packet_id, _BLOCK)
        if number not in self._blocks:
            self._blocks[number] = bytearray(_BLOCK * _DIGEST), array("Q", bytes(_BLOCK * 8))
        contents, places = self._blocks[number]
        contents[index * _DIGEST : (index + 1) * _DIGEST] = content
        places[index] = place

    def place_of(self, packet_id: int, content: bytes) -> int:
        """The how-manieth message had this id and content; 0 if the last of the id was another, or none."""
        number, index = divmod(packet_id, _BLOCK)
        if number not in self._blocks:
            return 0
        contents, places = self._blocks[number]
        return places[index] if contents[index * _DIGEST : (index + 1) * _DIGEST] == content else 0


class Redeliveries:
    """The marks of one broker session, in memory; the store keeps the same on disk.

    Args:
        window: how many messages back a redelivery may reach; at least what can be in flight.
        stored: what the store kept, oldest commit first, without a hole.
    """

    def __init__(self, window: int, stored: Iterable[tuple[int, bytes]] = ()) -> None:
        self._window = window
        # How many marks each of the last commits has stored, and the number of the next one.
        self._kept: deque[int] = deque()
        self._total = 0
        self._next = 1
        # The first commit that the store has to keep, and how many marks it keeps beyond those needed.
        self._oldest = 1
        self._beyond = 0
        self._latest = _Latest()
        self._heard = 0
        # Marks of messages that were acknowledged without a commit; the next commit takes them along.
        self._loose: deque[Mark] = deque(maxlen=min(window, _MOST_LOOSE))
        for batch, marks in stored:
            self._oldest = self._oldest if self._kept else batch
            self._next = batch
            self._keep(len(marks) // MARK_BYTES)
            for packet_id, content in _MARK.iter_unpack(marks):
                self._note(packet_id, content)

    @property
    def next_batch(self) -> int:
        """The number of the next commit."""
        return self._next

    @property
    def oldest_needed(self) -> int:
        """The first commit that the store has to keep; behind what is needed by a part of the window."""
        return self._oldest

    def is_repeat(self, mark: Mark, *, dup: bool) -> bool:
        """Whether a message was heard already; from now on it was.

        A commit that fails takes nothing back: start again from what is stored.
        """
        packet_id, content = mark
        place = self._latest.place_of(packet_id, content) if dup else 0
        repeat = place > 0 and self._heard - place < self._window
        self._note(packet_id, content)
        return repeat

    def to_store(self, marks: Iterable[Mark]) -> bytes:
        """What the commit of the messages ``marks`` has to store: theirs, and all since the last commit."""
        return b"".join(_MARK.pack(*mark) for mark in (*self._loose, *marks))

    def committed(self, marks: Collection[Mark]) -> None:
        """Note that commit ``next_batch`` has stored ``to_store(marks)``."""
        self._keep(len(self._loose) + len(marks))
        self._loose.clear()

    def unchanged(self, marks: Collection[Mark]) -> None:
        """Note messages that are acknowledged without a commit, since nothing came of them."""
        self._loose.extend(marks)

    def forget_all(self) -> None:
        """Start anew: the broker did not keep the session, so no message of it comes again.

        The numbers of commits go on, so that the next one never meets a row that is still stored.
        """
        self._latest = _Latest()
        self._loose.clear()
        self._kept.clear()
        self._total = 0
        self._oldest, self._beyond = self._next, 0

    def _note(self, packet_id: int, content: bytes) -> None:
        self._heard += 1
        self._latest.put(packet_id, content, self._heard)

    def _keep(self, count: int) -> None:
        self._next += 1
        self._kept.append(count)
        self._total += count
        while len(self._kept) > 1 and self._total - self._kept[0] >= self._window:
            passed = self._kept.popleft()
            self._total -= passed
            self._beyond += passed
        if self._beyond >= self._window // _PORTIONS:
            self._oldest, self._beyond = self._next - len(self._kept), 0
