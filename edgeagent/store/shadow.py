"""The shadows on disk: state readings and their versions.

Owns ``shadows`` and ``shadow_readings``. What changes and what is told is decided in ``core/shadow``;
here a change is stored in the commit that stores its event (SPEC C4).
"""

import json
from collections.abc import Iterable
from typing import Final

from edgeagent.core.shadow import Shadow, StateReading
from edgeagent.ids import DeviceId, ReadingName
from edgeagent.store.database import Snapshot, Transaction
from edgeagent.values import dataclass

# A forgotten device's last message must not bring its shadow back: only what exists is updated.
_SAVE: Final = "UPDATE shadows SET version = :version, etag = :etag WHERE device = :device"
_SAVE_READING: Final = """
INSERT INTO shadow_readings (device, reading, value, version, at, retained, told)
SELECT :device, :reading, :value, :version, :at, :retained, :told
 WHERE EXISTS (SELECT 1 FROM devices WHERE device = :device)
ON CONFLICT (device, reading) DO UPDATE
   SET value = excluded.value, version = excluded.version, at = excluded.at,
       retained = excluded.retained, told = excluded.told
"""
_LOAD: Final = "SELECT device, version, etag FROM shadows"
_LOAD_READINGS: Final = "SELECT device, reading, value, version, at, retained, told FROM shadow_readings"


@dataclass(frozen=True, slots=True)
class Change:
    """State readings of one device that are to be stored, as they are in ``shadow``."""

    device: DeviceId
    shadow: Shadow
    readings: frozenset[ReadingName]


def save(tx: Transaction, changes: Iterable[Change]) -> None:
    """Store changed shadows."""
    for change in changes:
        shadow = change.shadow
        tx.execute(_SAVE, {"device": change.device, "version": shadow.version, "etag": shadow.etag})
        tx.execute_many(
            _SAVE_READING,
            [_fields(change.device, name, shadow.state[name]) for name in change.readings],
        )


def load(db: Snapshot) -> dict[DeviceId, Shadow]:
    """All shadows. Which readings are live is not stored: after a restart none is."""
    shadows = {
        DeviceId(str(row["device"])): Shadow(int(row["version"]), str(row["etag"])) for row in db.rows(_LOAD)
    }
    for row in db.rows(_LOAD_READINGS):
        shadows[DeviceId(str(row["device"]))].state[ReadingName(str(row["reading"]))] = StateReading(
            value=json.loads(row["value"]),
            version=int(row["version"]),
            at=int(row["at"]),
            retained=bool(row["retained"]),
            told=bool(row["told"]),
        )
    return shadows


def _fields(device: DeviceId, name: ReadingName, reading: StateReading) -> dict[str, str | int]:
    return {
        "device": device,
        "reading": name,
        "value": json.dumps(reading.value, ensure_ascii=False, allow_nan=False),
        "version": reading.version,
        "at": reading.at,
        "retained": int(reading.retained),
        "told": int(reading.told),
    }
