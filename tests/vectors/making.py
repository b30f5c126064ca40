"""Builders of vectors, with boring defaults: a lamp is switched on, in time, by somebody who may."""

import json
from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from pydantic import JsonValue

from edgeagent.contracts.command import COMMAND_TYPE
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.scalars import timestamp_text
from edgeagent.core.envelope import sign
from edgeagent.ids import Epoch, HubId
from tests.support.published_keys import TEST_1, TEST_2, TEST_3, TEST_1024, TEST_SHA_ABC, PublishedKey
from tests.vectors.vector import Kind, Stage, Terms, Vector

DESK, NIGHT, CLOCK, GUEST, STRANGER = TEST_1, TEST_2, TEST_3, TEST_1024, TEST_SHA_ABC
"""``DESK`` may do all, ``NIGHT`` may switch one lamp, ``CLOCK`` tells the time, ``GUEST`` might once,
``STRANGER`` is in no policy."""

HUB: Final = HubId("venue-7")
EPOCH: Final = Epoch("0190163d8694739b4fc1")
NOW: Final = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ERROR: Final = 20
SECOND: Final = timedelta(seconds=1)
MINUTE: Final = timedelta(minutes=1)
DAY: Final = timedelta(days=1)
_SINCE_1970: Final = datetime(1970, 1, 1, tzinfo=UTC)

Fields = dict[str, JsonValue]
Answer = Literal["accepted", "held", "refused"]


def sequence(at: datetime, chance: int = 7) -> int:
    """41 bits of milliseconds over 20 of chance."""
    return (at - _SINCE_1970) // timedelta(milliseconds=1) << 20 | chance


def command(**changes: JsonValue) -> Fields:
    """The payload of a command; a field that is None is left out."""
    fields: Fields = {
        "type": "command",
        "id": "c-1",
        "hub": HUB,
        "epoch": EPOCH,
        "devices": ["lamp-1"],
        "action": "power",
        "arguments": {"on": True},
        "operation": "evening-lights",
        "sequence": sequence(NOW),
        "issued_at": timestamp_text(NOW - SECOND),
        "expires_at": timestamp_text(NOW + 5 * MINUTE),
    }
    return {name: value for name, value in (fields | changes).items() if value is not None}


def compact(value: JsonValue) -> bytes:
    """JSON without a space, in UTF-8."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def payload(**changes: JsonValue) -> bytes:
    """The bytes of a command."""
    return compact(command(**changes))


def signed(body: bytes, *signers: PublishedKey, kind: str = COMMAND_TYPE) -> bytes:
    """An envelope around a payload; by ``DESK`` where nobody is named."""
    return sign(body, kind, signers or [DESK])


def envelope(
    body: bytes, signatures: Sequence[tuple[str, bytes]], *, kind: JsonValue = COMMAND_TYPE
) -> Fields:
    """The JSON of an envelope with any signatures: pairs of key id and raw signature."""
    return {
        "payload": b64encode(body).decode(),
        "payloadType": kind,
        "signatures": [{"keyid": keyid, "sig": b64encode(raw).decode()} for keyid, raw in signatures],
    }


def accepted(name: str, why: str, raw: bytes, **rest: object) -> Vector:
    """A vector that the hub takes."""
    return _vector(name, why, raw, Stage.GATE, "accepted", None, rest)


def held(name: str, why: str, raw: bytes, reason: Reason, **rest: object) -> Vector:
    """A vector of which the hub cannot say yet."""
    return _vector(name, why, raw, Stage.GATE, "held", reason, rest)


def refused(name: str, why: str, raw: bytes, reason: Reason, **rest: object) -> Vector:
    """A command that the gate refuses."""
    return _vector(name, why, raw, Stage.GATE, "refused", reason, rest)


def no_command(name: str, why: str, body: bytes, **rest: object) -> Vector:
    """Something that a known key has signed as a command, and that is none."""
    return _vector(name, why, signed(body), Stage.COMMAND, "refused", Reason.MALFORMED, rest)


def no_proof(name: str, why: str, raw: bytes, reason: Reason = Reason.MALFORMED, **rest: object) -> Vector:
    """An envelope that proves nothing."""
    return _vector(name, why, raw, Stage.ENVELOPE, "refused", reason, rest)


def terms(*guards: PublishedKey, **changes: JsonValue) -> Terms:
    """The ordinary policy, with changes; ``guards`` hold its ``stop`` roles."""
    document: Fields = {
        "type": "policy",
        "version": 1,
        "issued_at": timestamp_text(NOW - DAY),
        "expires_at": timestamp_text(NOW + 30 * DAY),
        "keys": {
            "desk": DESK.public.hex(),
            "night": NIGHT.public.hex(),
            "clock": CLOCK.public.hex(),
            "guest": GUEST.public.hex(),
        },
        "roles": {
            "operators": {"kind": "command", "keys": ["desk"], "actions": "*", "devices": "*"},
            "evening": {"kind": "command", "keys": ["night"], "actions": ["power"], "devices": ["lamp-1"]},
            "visitors": {
                "kind": "command",
                "keys": ["guest"],
                "actions": "*",
                "devices": "*",
                "not_after": timestamp_text(NOW - MINUTE),
            },
            "timekeepers": {"kind": "time", "keys": ["clock"]},
        },
        "actions": {
            "power": {"tier": "low"},
            "brightness": {"tier": "low"},
            "volume": {"tier": "low"},
            "toggle": {"tier": "medium", "longest_validity": "1m"},
        },
    }
    speakers = {Kind.COMMAND: (DESK, NIGHT, GUEST), Kind.ORDER: guards}
    keys = {kind: {key.id: key.public.hex() for key in those} for kind, those in speakers.items()}
    return Terms(keys=keys, document=document | changes)


def _vector(
    name: str,
    why: str,
    raw: bytes,
    stage: Stage,
    answer: Answer,
    reason: Reason | None,
    rest: dict[str, object],
) -> Vector:
    fields: dict[str, object] = {
        "name": name,
        "why": why,
        "policy": "ordinary",
        "hub": HUB,
        "epoch": EPOCH,
        "time": NOW,
        "error": ERROR,
        "stage": stage,
        "answer": answer,
        "reason": None if reason is None else reason.value,
        "envelope": raw,
    }
    return Vector(**(fields | rest))  # type: ignore[arg-type]  # checked as it is built
