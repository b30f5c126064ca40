"""The outbox: what the cloud has not acknowledged yet.

Owns ``streams``, ``outbox`` and ``outbox_refused``. A number is drawn from its stream's counter row in
the commit that stores the event, and is never given again (SPEC U1).
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from edgeagent.contracts.event import EventTime, EventType, StoredEvent, Stream
from edgeagent.errors import BrokenInvariantError
from edgeagent.ids import DeviceId
from edgeagent.store.database import Snapshot, Transaction

_UPCOMING: Final = "SELECT next FROM streams WHERE stream = :stream"
_DRAW: Final = "UPDATE streams SET next = next + :count WHERE stream = :stream RETURNING next - :count"
_APPEND: Final = """
INSERT INTO outbox (stream, number, type, device, at, error, boot, incarnation, data, traceparent)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_BATCH: Final = """
SELECT number, type, device, at, error, boot, incarnation, data, traceparent
  FROM outbox WHERE stream = :stream ORDER BY number LIMIT :most
"""
# One statement, whatever the far side acknowledged: single numbers, ranges, with or without holes.
_ACKNOWLEDGE: Final = """
DELETE FROM outbox WHERE stream = :stream AND number IN (SELECT value FROM json_each(:numbers))
"""
_SET_ASIDE: Final = """
INSERT INTO outbox_refused (stream, number, type, device, data, reason)
SELECT stream, number, type, device, data, :reason FROM outbox
 WHERE stream = :stream AND number = :number
"""
_NUMBERS: Final = "SELECT number FROM outbox WHERE stream = :stream ORDER BY number"
_REFUSED_NUMBERS: Final = "SELECT number FROM outbox_refused WHERE stream = :stream ORDER BY number"
_RENUMBER: Final = "UPDATE outbox SET number = ? WHERE stream = ? AND number = ?"
_RENUMBER_REFUSED: Final = "UPDATE outbox_refused SET number = ? WHERE stream = ? AND number = ?"
_BEGIN_AT: Final = "UPDATE streams SET next = :next WHERE stream = :stream"
_DEPTHS: Final = """
SELECT s.stream AS stream, s.next AS next, count(o.number) AS depth, min(o.at) AS oldest,
       coalesce(sum(length(o.data)), 0) AS bytes,
       (SELECT count(*) FROM outbox_refused r WHERE r.stream = s.stream) AS refused
  FROM streams s LEFT JOIN outbox o ON o.stream = s.stream
 GROUP BY s.stream, s.next
"""


@dataclass(slots=True)
class NewEvent:
    """An event that has no number yet. Not frozen, since it is made for every message.

    Attributes:
        stream: where it goes.
        type: what happened.
        device: whom it is about; None for the hub.
        time: when.
        data: the JSON text of what there is to say.
        traceparent: the place in a trace, of what a command has caused.
    """

    stream: Stream
    type: EventType
    device: DeviceId | None
    time: EventTime
    data: bytes
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """How much of a stream waits.

    Attributes:
        next: the number that its next event will have.
        events: how many wait.
        bytes: of their data.
        oldest: microseconds since 1970 of the oldest; None when none waits.
        refused: how many were set aside for good.
    """

    next: int
    events: int
    bytes: int
    oldest: int | None
    refused: int


def append(tx: Transaction, events: Sequence[NewEvent], *, incarnation: int) -> list[int]:
    """Store events under the next numbers of their streams.

    Returns:
        The number of each, in the order given.
    """
    counts = Counter(event.stream for event in events)
    following = {stream: count(draw(tx, stream, many)) for stream, many in counts.items()}
    numbers = [next(following[event.stream]) for event in events]
    rows = [
        # As plain text: a member of an enum goes the long way through the module's adapters.
        (
            str(event.stream),
            number,
            str(event.type),
            event.device,
            event.time.at,
            event.time.error,
            event.time.boot,
            incarnation,
            event.data,
            event.traceparent,
        )
        for number, event in zip(numbers, events, strict=True)
    ]
    tx.execute_many(_APPEND, rows)
    return numbers


def upcoming(db: Snapshot, stream: Stream) -> int:
    """The number that the next event of a stream will have, if it is appended in this transaction."""
    row = db.row(_UPCOMING, {"stream": stream})
    if row is None:
        raise BrokenInvariantError(f"the stream {stream} has no counter")
    return int(row[0])


def batch(db: Snapshot, stream: Stream, *, most: int, most_bytes: int) -> list[StoredEvent]:
    """The oldest events of a stream, at most so many and so large; the first one in any case."""
    events: list[StoredEvent] = []
    size = 0
    # The table is STRICT: what comes out has the types that went in.
    for number, kind, device, at, error, boot, incarnation, data, traceparent in db.rows(
        _BATCH, {"stream": stream, "most": most}
    ):
        size += len(data)
        if events and size > most_bytes:
            break
        events.append(
            StoredEvent(
                number=number,
                type=EventType(kind),
                device=device,
                time=EventTime(at, error, boot),
                incarnation=incarnation,
                data=data,
                traceparent=traceparent,
            )
        )
    return events


def acknowledge(tx: Transaction, stream: Stream, numbers: Sequence[int]) -> int:
    """Forget the events that the cloud has proven to hold.

    Returns:
        How many of them were still here.
    """
    return tx.execute(_ACKNOWLEDGE, {"stream": stream, "numbers": json.dumps(list(numbers))})


def set_aside(tx: Transaction, stream: Stream, refused: Mapping[int, str]) -> int:
    """Move events that the cloud will never take out of the way of the others (SPEC U5).

    Args:
        tx: the transaction.
        stream: whose they are.
        refused: numbers with the cloud's reason.

    Returns:
        How many of them were still here.
    """
    tx.execute_many(
        _SET_ASIDE,
        [{"stream": stream, "number": number, "reason": reason} for number, reason in refused.items()],
    )
    return acknowledge(tx, stream, list(refused))


def begin_anew(tx: Transaction) -> dict[int, int]:
    """Let every stream begin at 1 again, for a new epoch: what waits keeps its order.

    What the cloud refused goes below all numbers, out of the way of what it may refuse yet.

    Returns:
        The new number of each record that waits, by its old one.
    """
    records: dict[int, int] = {}
    for stream in Stream:
        # Rising, and none is given a number above its own: no two ever meet.
        moves = {old: new for new, (old,) in enumerate(tx.rows(_NUMBERS, {"stream": stream}), start=1)}
        tx.execute_many(_RENUMBER, [(new, str(stream), old) for old, new in moves.items()])
        refused = [int(row["number"]) for row in tx.rows(_REFUSED_NUMBERS, {"stream": stream})]
        below = max(refused, default=0) + 1
        tx.execute_many(_RENUMBER_REFUSED, [(old - below, str(stream), old) for old in refused])
        tx.execute(_BEGIN_AT, {"stream": stream, "next": len(moves) + 1})
        if stream is Stream.RECORD:
            records = moves
    return records


def depths(db: Snapshot) -> dict[Stream, Depth]:
    """How much of each stream waits."""
    return {
        Stream(row["stream"]): Depth(
            next=int(row["next"]),
            events=int(row["depth"]),
            bytes=int(row["bytes"]),
            oldest=row["oldest"],
            refused=int(row["refused"]),
        )
        for row in db.rows(_DEPTHS)
    }


def draw(tx: Transaction, stream: Stream, count: int) -> int:
    """Take the next numbers of a stream.

    Returns:
        The first of them.
    """
    row = tx.row(_DRAW, {"stream": stream, "count": count})
    if row is None:
        raise BrokenInvariantError(f"the stream {stream} has no counter")
    return int(row[0])
