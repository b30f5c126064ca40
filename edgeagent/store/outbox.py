"""The outbox: what the cloud has not acknowledged yet.

Owns ``streams``, ``outbox`` and ``outbox_refused``. A number is given in the commit that stores the event,
and never again (SPEC U1): the next one follows the stream's last event, or its counter row once that event is
gone. Whoever deletes the last event of a stream raises the counter in the same commit.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Final

from edgeagent.contracts.event import EventTime, EventType, StoredEvent, Stream
from edgeagent.errors import BrokenInvariantError
from edgeagent.ids import DeviceId
from edgeagent.store import marks as delivery_marks
from edgeagent.store.database import Snapshot, SqlValue, Transaction
from edgeagent.store.event_ids import event_id, within
from edgeagent.store.marks import Laid
from edgeagent.values import dataclass

# The counter is raised when the last event of its stream goes, not for each that comes: that would be a page
# more in each commit of readings. Until then that event stands for it.
_UPCOMING: Final = """
SELECT max(next, coalesce((SELECT id + 1 - :first FROM outbox
                            WHERE id BETWEEN :first AND :last ORDER BY id DESC LIMIT 1), 1))
  FROM streams WHERE stream = :stream
"""
_LAST: Final = "SELECT id FROM outbox WHERE id BETWEEN :first AND :last ORDER BY id DESC LIMIT 1"
_RAISE: Final = "UPDATE streams SET next = :next WHERE stream = :stream AND next < :next"
_APPEND: Final = """
INSERT INTO outbox (id, type, device, at, error, boot, incarnation, data, traceparent, marks_batch, marks)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_BATCH: Final = """
SELECT number, type, device, at, error, boot, incarnation, data, traceparent
  FROM outbox WHERE id BETWEEN :first AND :last ORDER BY id LIMIT :most
"""
# One statement, whatever the far side acknowledged: single numbers, ranges, with or without holes.
_ACKNOWLEDGE: Final = """
DELETE FROM outbox
 WHERE id IN (SELECT :first + value FROM json_each(:numbers) WHERE value BETWEEN 1 AND :last - :first)
"""
_SET_ASIDE: Final = """
INSERT INTO outbox_refused (stream, number, type, device, data, reason)
SELECT stream, number, type, device, data, :reason FROM outbox
 WHERE id = :first + :number AND :number BETWEEN 1 AND :last - :first
"""
_IDS: Final = "SELECT id FROM outbox WHERE id > :after AND id <= :last ORDER BY id LIMIT :most"
_REFUSED_NUMBERS: Final = "SELECT number FROM outbox_refused WHERE stream = :stream ORDER BY number"
_RENUMBER: Final = "UPDATE outbox SET id = ? WHERE id = ?"
_RENUMBER_REFUSED: Final = "UPDATE outbox_refused SET number = ? WHERE stream = ? AND number = ?"
_BEGIN_AT: Final = "UPDATE streams SET next = :next WHERE stream = :stream"
_DEPTH: Final = """
SELECT count(*) AS depth, min(at) AS oldest, coalesce(sum(length(data)), 0) AS bytes,
       (SELECT count(*) FROM outbox_refused WHERE stream = :stream) AS refused
  FROM outbox WHERE id BETWEEN :first AND :last
"""
# A hub that was away for weeks has a million; they are not all to be in memory at once.
_PAGE: Final = 10_000
# Answered by the first entry of the stream in the key, however many wait.
_OLDEST: Final = "SELECT id - :first FROM outbox WHERE id BETWEEN :first AND :last ORDER BY id LIMIT 1"


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


def append(
    tx: Transaction,
    events: Sequence[NewEvent],
    *,
    incarnation: int,
    marks: Mapping[Stream, Laid] | None = None,
) -> list[int]:
    """Store events under the next numbers of their streams.

    Args:
        tx: the transaction.
        events: in order.
        incarnation: the start of the agent in which they happened.
        marks: delivery marks of the commit, by the stream with whose last event they lie; there is one.

    Returns:
        The number of each, in the order given.
    """
    following = {stream: count(upcoming(tx, stream)) for stream in {event.stream for event in events}}
    numbers = [next(following[event.stream]) for event in events]
    rows: list[tuple[SqlValue, ...]] = [
        # As plain text: a member of an enum goes the long way through the module's adapters.
        (
            event_id(event.stream, number),
            str(event.type),
            event.device,
            event.time.at,
            event.time.error,
            event.time.boot,
            incarnation,
            event.data,
            event.traceparent,
            None,
            None,
        )
        for number, event in zip(numbers, events, strict=True)
    ]
    for stream, laid in (marks or {}).items():
        last = max(place for place, event in enumerate(events) if event.stream is stream)
        rows[last] = (*rows[last][:-2], *laid)
    tx.execute_many(_APPEND, rows)
    return numbers


def upcoming(db: Snapshot, stream: Stream) -> int:
    """The number that the next event of a stream will have, if it is appended in this transaction."""
    row = db.row(_UPCOMING, within(stream))
    if row is None:
        raise BrokenInvariantError(f"the stream {stream} has no counter")
    return int(row[0])


def batch(db: Snapshot, stream: Stream, *, most: int, most_bytes: int) -> list[StoredEvent]:
    """The oldest events of a stream, at most so many and so large; the first one in any case."""
    events: list[StoredEvent] = []
    size = 0
    # The table is STRICT: what comes out has the types that went in.
    for number, kind, device, at, error, boot, incarnation, data, traceparent in db.rows(
        _BATCH, {**within(stream), "most": most}
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
    those = {**within(stream), "numbers": json.dumps(list(numbers))}
    last = tx.row(_LAST, those)
    if last is not None and (number := last[0] - event_id(stream, 0)) in numbers:
        tx.execute(_RAISE, {"stream": stream, "next": number + 1})
    delivery_marks.take_over(tx, stream, those)
    return tx.execute(_ACKNOWLEDGE, those)


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
        [{**within(stream), "number": number, "reason": reason} for number, reason in refused.items()],
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
        waiting = 0
        for moves in _renumbered(tx, stream):
            waiting += len(moves)
            if stream is Stream.RECORD:
                records.update(moves)
        refused = [int(row["number"]) for row in tx.rows(_REFUSED_NUMBERS, {"stream": stream})]
        below = max(refused, default=0) + 1
        tx.execute_many(_RENUMBER_REFUSED, [(old - below, str(stream), old) for old in refused])
        tx.execute(_BEGIN_AT, {"stream": stream, "next": waiting + 1})
    return records


def _renumbered(tx: Transaction, stream: Stream) -> Iterator[dict[int, int]]:
    """Number what waits in a stream from 1, and tell the new numbers by the old ones, so many at a time."""
    first, after, following = event_id(stream, 0), event_id(stream, 0), count(1)
    while ids := [int(row[0]) for row in tx.rows(_IDS, {**within(stream), "after": after, "most": _PAGE})]:
        after = ids[-1]
        # Rising, and none is given a number above its own: no two ever meet, and none is seen again.
        moves = {old - first: new for old, new in zip(ids, following, strict=False)}
        tx.execute_many(_RENUMBER, [(first + new, first + old) for old, new in moves.items()])
        yield moves


def depths(db: Snapshot) -> dict[Stream, Depth]:
    """How much of each stream waits."""
    found = {}
    for stream in Stream:
        [row] = db.rows(_DEPTH, within(stream))
        found[stream] = Depth(
            next=upcoming(db, stream),
            events=int(row["depth"]),
            bytes=int(row["bytes"]),
            oldest=row["oldest"],
            refused=int(row["refused"]),
        )
    return found


def extents(db: Snapshot) -> dict[Stream, tuple[int, int]]:
    """From which number on events of each stream wait, and the number of its next one; equal for none.

    Between the two some may be acknowledged already; ``depths`` counts, and takes longer the more wait.
    """
    found = {}
    for stream in Stream:
        following, oldest = upcoming(db, stream), db.row(_OLDEST, within(stream))
        found[stream] = (following if oldest is None else int(oldest[0]), following)
    return found
