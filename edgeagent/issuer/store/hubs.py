"""What the queue knows of hubs and their devices, from their events.

Owns ``epochs``, ``devices`` and ``readings``; all of it could be made again from the events. An epoch is
current from its first hello until the first hello of another; one that was replaced never comes back
(SPEC T8), and its late events change no state.
"""

import json
from collections.abc import Iterable
from typing import Final

from edgeagent.contracts.event import CloudEvent, EventType, Stream
from edgeagent.contracts.scalars import timestamp, timestamp_text
from edgeagent.errors import BrokenInvariantError
from edgeagent.ids import DeviceId, Epoch, HubId, ReadingName
from edgeagent.issuer.event_data import AdmittedData, Arrived, StateData, TelemetryData, Upload
from edgeagent.issuer.wire import DeviceStatus, ReadingStatus
from edgeagent.store.database import Snapshot, SqlValue, Transaction
from edgeagent.values import dataclass

_HELLO: Final = """
INSERT INTO epochs (hub, epoch, place, hello, number)
VALUES (:hub, :epoch, (SELECT coalesce(max(place), 0) + 1 FROM epochs WHERE hub = :hub), :hello, :number)
    ON CONFLICT (hub, epoch) DO UPDATE SET hello = excluded.hello, number = excluded.number
     WHERE excluded.number > number
"""
_CURRENT: Final = "SELECT epoch, hello FROM epochs WHERE hub = :hub ORDER BY place DESC LIMIT 1"
# An epoch that has not said hello is not yet replaced: its states may arrive before its hello does.
_IS_REPLACED: Final = """
SELECT 1 FROM epochs WHERE hub = :hub AND epoch = :epoch
   AND place < (SELECT max(place) FROM epochs WHERE hub = :hub)
"""
_ADMITTED: Final = """
INSERT INTO devices (hub, device, label, profile, actions)
VALUES (:hub, :device, :label, :profile, :actions)
    ON CONFLICT (hub, device) DO UPDATE
   SET label = excluded.label, profile = excluded.profile, actions = excluded.actions
"""
_FORGET_READINGS: Final = "DELETE FROM readings WHERE hub = :hub AND device = :device"
_FORGET: Final = "DELETE FROM devices WHERE hub = :hub AND device = :device"
# Numbers are compared within one epoch only; the events of a replaced one do not come here.
_STATE: Final = """
INSERT INTO devices (hub, device, epoch, number, version, etag)
VALUES (:hub, :device, :epoch, :number, :version, :etag)
    ON CONFLICT (hub, device) DO UPDATE
   SET epoch = excluded.epoch, number = excluded.number, version = excluded.version, etag = excluded.etag
 WHERE epoch IS NULL OR epoch <> excluded.epoch OR number < excluded.number
"""
_READING: Final = """
INSERT INTO readings (hub, device, reading, stream, epoch, number, value, version, retained, time)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (hub, device, reading) DO UPDATE
   SET stream = excluded.stream, epoch = excluded.epoch, number = excluded.number, value = excluded.value,
       version = excluded.version, retained = excluded.retained, time = excluded.time
 WHERE epoch <> excluded.epoch OR stream <> excluded.stream OR number < excluded.number
"""
_SEEN: Final = "INSERT INTO devices (hub, device) VALUES (:hub, :device) ON CONFLICT DO NOTHING"
_DEVICES: Final = """
SELECT device, label, profile, actions, version, etag FROM devices WHERE hub = :hub ORDER BY device
"""
_READINGS: Final = """
SELECT device, reading, stream, value, version, retained, time FROM readings WHERE hub = :hub
 ORDER BY device, reading
"""


@dataclass(frozen=True, slots=True)
class CurrentEpoch:
    """The life of a hub's database that counts now, with its newest hello."""

    epoch: Epoch
    hello: CloudEvent


def current_epoch(db: Snapshot, hub: HubId) -> CurrentEpoch | None:
    """The hub's epoch by its newest hello; None before the first."""
    row = db.row(_CURRENT, {"hub": hub})
    if row is None:
        return None
    return CurrentEpoch(Epoch(str(row["epoch"])), CloudEvent.model_validate_json(row["hello"]))


def note(tx: Transaction, upload: Upload, fresh: Iterable[Arrived]) -> None:
    """Draw from new events what they say of hub and devices."""
    hub, life = upload.hub, upload.query.epoch
    events = list(fresh)
    for event in events:
        if event.event.type is EventType.HUB_HELLO and upload.query.stream is Stream.RECORD:
            tx.execute(_HELLO, {"hub": hub, "epoch": life, "hello": event.text, "number": event.number})
    if tx.row(_IS_REPLACED, {"hub": hub, "epoch": life}) is not None:
        return
    for event in events:
        if event.device is not None:
            _note_device(tx, upload, event, event.device)
    _note_readings(tx, upload, events)


def devices(db: Snapshot, hub: HubId) -> list[DeviceStatus]:
    """All devices of a hub with the newest value of each reading."""
    readings: dict[str, dict[ReadingName, ReadingStatus]] = {}
    for row in db.rows(_READINGS, {"hub": hub}):
        readings.setdefault(str(row["device"]), {})[ReadingName(row["reading"])] = ReadingStatus(
            value=json.loads(row["value"]),
            time=timestamp(row["time"]),
            stream=Stream(row["stream"]),
            version=row["version"],
            retained=bool(row["retained"]),
        )
    return [
        DeviceStatus(
            device=DeviceId(row["device"]),
            label=row["label"],
            profile=row["profile"],
            actions=json.loads(row["actions"] or "[]"),
            version=row["version"],
            etag=row["etag"],
            readings=readings.get(row["device"], {}),
        )
        for row in db.rows(_DEVICES, {"hub": hub})
    ]


def _note_device(tx: Transaction, upload: Upload, event: Arrived, device: DeviceId) -> None:
    names: dict[str, SqlValue] = {"hub": upload.hub, "device": device}
    match event.data:
        case AdmittedData() as data:
            actions = json.dumps(data.actions, ensure_ascii=False)
            tx.execute(_ADMITTED, {**names, "label": data.label, "profile": data.profile, "actions": actions})
        case StateData() as data:
            mark: dict[str, SqlValue] = {"epoch": upload.query.epoch, "number": event.number}
            tx.execute(_STATE, {**names, **mark, "version": data.version, "etag": data.etag})
        case TelemetryData():
            tx.execute(_SEEN, names)
        case _ if event.event.type is EventType.DEVICE_FORGOTTEN:
            tx.execute(_FORGET_READINGS, names)
            tx.execute(_FORGET, names)
        case _:
            pass


def _note_readings(tx: Transaction, upload: Upload, events: list[Arrived]) -> None:
    """Keep the newest value of each reading; of several in one upload only the last is written."""
    newest: dict[tuple[str, str], tuple[SqlValue, ...]] = {}
    for event in events:
        values: dict[ReadingName, tuple[SqlValue, int | None, bool]]
        match event.data:
            case StateData() as data:
                values = {
                    name: (told.value, told.version, told.retained) for name, told in data.readings.items()
                }
            case TelemetryData() as data:
                values = {name: (value, None, False) for name, value in data.readings.items()}
            case _:
                continue
        if event.device is None:
            raise BrokenInvariantError("readings of no device")
        for name, (value, version, retained) in values.items():
            newest[event.device, name] = (
                upload.hub,
                event.device,
                name,
                upload.query.stream,
                upload.query.epoch,
                event.number,
                json.dumps(value, ensure_ascii=False),
                version,
                int(retained),
                timestamp_text(event.event.time),
            )
    tx.execute_many(_READING, newest.values())
