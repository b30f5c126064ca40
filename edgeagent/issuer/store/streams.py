"""The streams: which numbers of each hub, epoch and stream are stored, and the events themselves.

Owns ``ranges``, ``events`` and ``refused_events``. A repeat is known by its number for ever; one whose
content differs from what is stored under that number is refused, since dropping it would lose it.
"""

import json
from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from pydantic import JsonValue

from edgeagent.adapters.cloud.wire import ranges_of
from edgeagent.contracts.event import Stream
from edgeagent.contracts.reasons import Reason
from edgeagent.ids import Epoch, HubId
from edgeagent.issuer.event_data import Arrived, Upload
from edgeagent.issuer.wire import MOST_RANGES, StreamStatus
from edgeagent.store.database import Snapshot, Transaction

PAGE_BYTES: Final = 512 * 1024
"""About how much one page of events holds at most."""

# The ranges are disjoint, so that besides those that begin inside only the last one before can touch.
_TOUCHED: Final = """
SELECT first, last FROM ranges
 WHERE hub = :hub AND epoch = :epoch AND stream = :stream
   AND first >= coalesce((SELECT max(first) FROM ranges
                           WHERE hub = :hub AND epoch = :epoch AND stream = :stream AND first <= :low), 0)
   AND first <= :high + 1
 ORDER BY first
"""
_DROP_RANGE: Final = """
DELETE FROM ranges WHERE hub = ? AND epoch = ? AND stream = ? AND first = ?
"""
_ADD_RANGE: Final = "INSERT INTO ranges (hub, epoch, stream, first, last) VALUES (?, ?, ?, ?, ?)"
_STORED_TEXT: Final = """
SELECT event FROM events WHERE hub = :hub AND epoch = :epoch AND stream = :stream AND number = :number
"""
_ADD_EVENT: Final = "INSERT INTO events (hub, epoch, stream, number, event) VALUES (?, ?, ?, ?, ?)"
_PRUNE: Final = """
DELETE FROM events WHERE hub = :hub AND epoch = :epoch AND stream = :stream AND number <= :upto
"""
_REFUSE: Final = """
INSERT INTO refused_events (hub, epoch, stream, number, reason) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET reason = excluded.reason
"""
_REFUSE_NO_MORE: Final = """
DELETE FROM refused_events WHERE hub = ? AND epoch = ? AND stream = ? AND number = ?
"""
# Bounded in events and in bytes; the first one in any case.
_PAGE: Final = """
SELECT number, event
  FROM (SELECT number, event, sum(length(event)) OVER (ORDER BY number) - length(event) AS before
          FROM events
         WHERE hub = :hub AND epoch = :epoch AND stream = :stream AND number > :after
         ORDER BY number LIMIT :most)
 WHERE before < :most_bytes
 ORDER BY number
"""
_TOTALS: Final = """
SELECT count(*) AS ranges, coalesce(sum(last - first + 1), 0) AS stored, coalesce(max(last), 0) AS last
  FROM ranges WHERE hub = :hub AND epoch = :epoch AND stream = :stream
"""
_REFUSED_TOTALS: Final = """
SELECT count(*) AS refused, coalesce(max(number), 0) AS last
  FROM refused_events WHERE hub = :hub AND epoch = :epoch AND stream = :stream
"""
_NEWEST_RANGES: Final = """
SELECT first, last FROM ranges WHERE hub = :hub AND epoch = :epoch AND stream = :stream
 ORDER BY first DESC LIMIT :most
"""

Key = tuple[HubId, Epoch, Stream]


def store(tx: Transaction, upload: Upload) -> tuple[list[Arrived], dict[int, str]]:
    """Store what of an upload is new.

    Returns:
        The events that are stored now for the first time, and the numbers that are refused with the
        reason of each. All other events of the upload were stored before.
    """
    key: Key = (upload.hub, upload.query.epoch, upload.query.stream)
    numbers = [event.number for event in upload.events] + list(upload.refused)
    touched = _touched(tx, key, min(numbers), max(numbers))
    refused = dict(upload.refused)
    fresh: list[Arrived] = []
    for event in upload.events:
        if not _holds(touched, event.number):
            fresh.append(event)
        elif not _is_repeat(tx, key, event):
            refused[event.number] = f"{Reason.ID_CONFLICT}: another event was stored under this number"
    _merge(tx, key, touched, [event.number for event in fresh])
    tx.execute_many(_ADD_EVENT, [(*key, event.number, event.text) for event in fresh])
    tx.execute_many(_REFUSE_NO_MORE, [(*key, event.number) for event in fresh])
    tx.execute_many(
        _REFUSE,
        [(*key, number, why) for number, why in upload.refused.items() if not _holds(touched, number)],
    )
    return fresh, refused


def prune(tx: Transaction, upload: Upload, *, keep: int) -> None:
    """Forget the content of all but the newest ``keep`` events; their numbers stay known.

    Records are evidence and are never forgotten.
    """
    if upload.query.stream is Stream.RECORD or not upload.events:
        return
    newest = upload.events[-1].number
    key = _named((upload.hub, upload.query.epoch, upload.query.stream))
    tx.execute(_PRUNE, {**key, "upto": newest - keep})


def page(
    db: Snapshot, hub: HubId, life: Epoch, stream: Stream, *, after: int, most: int
) -> list[tuple[int, str]]:
    """Events of a stream after a number: number and CloudEvent, rising; at most about ``PAGE_BYTES``."""
    bounds = {"after": after, "most": most, "most_bytes": PAGE_BYTES}
    rows = db.rows(_PAGE, {**_named((hub, life, stream)), **bounds})
    return [(int(row["number"]), str(row["event"])) for row in rows]


def status(db: Snapshot, hub: HubId, life: Epoch, stream: Stream) -> StreamStatus:
    """How much of a stream is stored, and whether a number is missing."""
    key = _named((hub, life, stream))
    totals = db.rows(_TOTALS, key)[0]
    refusals = db.rows(_REFUSED_TOTALS, key)[0]
    newest = db.rows(_NEWEST_RANGES, {**key, "most": MOST_RANGES})
    last = max(int(totals["last"]), int(refusals["last"]))
    # Stored and refused numbers are disjoint, and none is beyond the last: no hole if they fill it.
    return StreamStatus(
        stream=stream,
        last=last,
        stored=int(totals["stored"]),
        refused=int(refusals["refused"]),
        ranges=[[int(row["first"]), int(row["last"])] for row in reversed(newest)],
        contiguous=int(totals["stored"]) + int(refusals["refused"]) == last,
    )


def _named(key: Key) -> dict[str, str | int]:
    hub, life, stream = key
    return {"hub": hub, "epoch": life, "stream": stream}


def _touched(tx: Transaction, key: Key, low: int, high: int) -> list[tuple[int, int]]:
    # One below: a range that ends right before the first new number grows.
    rows = tx.rows(_TOUCHED, {**_named(key), "low": max(low - 1, 1), "high": high})
    return [(int(row["first"]), int(row["last"])) for row in rows]


def _holds(ranges: Sequence[tuple[int, int]], number: int) -> bool:
    place = bisect_right(ranges, number, key=itemgetter(0)) - 1
    return place >= 0 and number <= ranges[place][1]


def _merge(tx: Transaction, key: Key, touched: list[tuple[int, int]], numbers: list[int]) -> None:
    if not numbers:
        return
    merged: list[list[int]] = []
    for first, last in sorted([*touched, *((first, last) for first, last in ranges_of(numbers))]):
        if merged and first <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], last)
        else:
            merged.append([first, last])
    tx.execute_many(_DROP_RANGE, [(*key, first) for first, _ in touched])
    tx.execute_many(_ADD_RANGE, [(*key, first, last) for first, last in merged])


def _is_repeat(tx: Transaction, key: Key, event: Arrived) -> bool:
    """Whether what is stored under the number is the same event.

    Its words are compared, not its bytes: a newer hub may write the same event differently. One whose
    content is forgotten is taken for the same.
    """
    row = tx.row(_STORED_TEXT, {**_named(key), "number": event.number})
    if row is None or row["event"] == event.text:
        return True
    return _said(json.loads(row["event"])) == _said(json.loads(event.text))


def _said(event: dict[str, JsonValue]) -> str:
    # As text, since Python takes 1, 1.0 and True for equal.
    return json.dumps([event["type"], event.get("subject"), event["data"]], sort_keys=True)
