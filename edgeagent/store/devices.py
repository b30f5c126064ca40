"""Admitted devices.

Owns ``devices``: who they are, what people call them, and the profile and parameters by which they
are spoken to. A device's id never changes; the label is for people.
"""

import json
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from edgeagent.errors import RejectedError, UnknownError
from edgeagent.ids import DeviceId, Label
from edgeagent.store.database import Snapshot, Transaction
from edgeagent.values import dataclass

_ADMIT: Final = """
INSERT INTO devices (device, label, profile, parameters, admitted_at, admitted_by)
VALUES (:device, :label, :profile, :parameters, :at, :by)
ON CONFLICT (device) DO NOTHING
"""
_FORGET: Final = "DELETE FROM devices WHERE device = :device"
_MOVE: Final = "UPDATE devices SET parameters = :parameters WHERE device = :device"
_ALL: Final = (
    "SELECT device, label, profile, parameters, admitted_at, admitted_by FROM devices ORDER BY device"
)
_SHADOW: Final = "INSERT INTO shadows (device, version, etag) VALUES (:device, 0, :etag)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A device that the hub works with.

    Attributes:
        device: its native identity.
        label: what people call it.
        profile: the id of its family's profile.
        parameters: the values of the profile's parameters.
        at: when it was admitted, RFC 3339.
        by: who admitted it.
    """

    device: DeviceId
    label: Label
    profile: str
    parameters: dict[str, JsonValue]
    at: str
    by: str


def admit(tx: Transaction, admitted: Admitted, *, etag: str) -> None:
    """Store a device, and its empty shadow under ``etag``.

    Raises:
        RejectedError: it is admitted already.
    """
    fields = {
        "device": admitted.device,
        "label": admitted.label,
        "profile": admitted.profile,
        "parameters": _text(admitted.parameters),
        "at": admitted.at,
        "by": admitted.by,
    }
    if tx.execute(_ADMIT, fields) != 1:
        raise RejectedError(f"{admitted.device} is admitted already")
    tx.execute(_SHADOW, {"device": admitted.device, "etag": etag})


def forget(tx: Transaction, device: DeviceId) -> None:
    """Remove a device and its shadow.

    Raises:
        RejectedError: no such device is admitted.
    """
    if tx.execute(_FORGET, {"device": device}) != 1:
        raise UnknownError(f"{device} is not admitted")


def move(tx: Transaction, device: DeviceId, parameters: Mapping[str, JsonValue]) -> None:
    """Store other parameters of a device.

    Raises:
        RejectedError: no such device is admitted.
    """
    if tx.execute(_MOVE, {"device": device, "parameters": _text(parameters)}) != 1:
        raise RejectedError(f"{device} is not admitted")


def load(db: Snapshot) -> list[Admitted]:
    """All admitted devices, by id."""
    return [
        Admitted(
            device=DeviceId(str(row["device"])),
            label=Label(str(row["label"])),
            profile=str(row["profile"]),
            parameters=json.loads(row["parameters"]),
            at=str(row["admitted_at"]),
            by=str(row["admitted_by"]),
        )
        for row in db.rows(_ALL)
    ]


def _text(parameters: Mapping[str, JsonValue]) -> str:
    return json.dumps(parameters, ensure_ascii=False, sort_keys=True)
