"""Orders to stop and resume: obeyed, refused, and what is none."""

from collections.abc import Iterator
from typing import Final

from pydantic import JsonValue

from edgeagent.contracts.order import ORDER_TYPE
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.scalars import timestamp_text
from tests.support.published_keys import PublishedKey
from tests.vectors.making import (
    DAY,
    DESK,
    EPOCH,
    GUEST,
    HUB,
    MINUTE,
    NIGHT,
    NOW,
    SECOND,
    STRANGER,
    Fields,
    accepted,
    compact,
    no_proof,
    payload,
    refused,
    sequence,
    signed,
    terms,
)
from tests.vectors.vector import Kind, Stage, Terms, Vector

WATCHED: Final = "watched"
"""The policy by which all of these are judged."""


def watched() -> Terms:
    """``NIGHT`` may stop and resume; so might ``GUEST``, were he not banned."""
    roles: Fields = {
        "operators": {"kind": "command", "keys": ["desk", "guest", "night"], "actions": "*", "devices": "*"},
        "guards": {"kind": "stop", "keys": ["night", "guest"]},
    }
    return terms(NIGHT, GUEST, roles=roles, bans={"keys": ["guest"]})


def vectors() -> Iterator[Vector]:
    """All of them."""
    for vector in (*_proven(), *_unproven()):
        yield vector.model_copy(update={"kind": Kind.ORDER, "policy": WATCHED})


def _order(*signers: PublishedKey, about: str = "all", **changes: JsonValue) -> bytes:
    fields: Fields = {
        "type": "order",
        "id": "o-1",
        "hub": HUB,
        "epoch": EPOCH,
        "verb": "stop",
        "kind": about,
        "why": "The fire alarm is being tested.",
        "sequence": sequence(NOW),
        "issued_at": timestamp_text(NOW - SECOND),
        "expires_at": timestamp_text(NOW + 5 * MINUTE),
    }
    whole: Fields = {name: value for name, value in (fields | changes).items() if value is not None}
    return signed(compact(whole), *(signers or (NIGHT,)), kind=ORDER_TYPE)


def _proven() -> Iterator[Vector]:
    resume, of, unsure = _order(verb="resume"), sequence(NOW), Reason.CLOCK_UNSURE
    ahead = Reason.NOT_YET_VALID
    late, soon = NOW + DAY, timestamp_text(NOW + MINUTE)
    yield accepted("stop-all", "An ordinary order.", _order())
    yield accepted("stop-a-tier", "The same of one tier.", _order(about="tier:high"))
    yield accepted("stop-an-action", "The same of one action.", _order(about="action:power"))
    yield accepted("stop-without-a-word", "Nobody says why.", _order(why=None))
    yield accepted("resume-all", "Taken back.", resume, last=of - 1)
    yield refused("resume-too-soon", "A later stop has come.", resume, Reason.NOT_LATER, last=of + 1)
    yield refused("stop-again", "The same word in another order.", _order(), Reason.NOT_LATER, last=of)
    yield accepted("stop-without-a-clock", "Nothing is done by it.", _order(), error=None)
    yield refused("resume-without-a-clock", "It might be an old one.", resume, unsure, error=None)
    yield accepted("stop-of-the-future", "The guard's clock is ahead.", _order(issued_at=soon))
    yield refused("resume-of-the-future", "The same.", _order(verb="resume", issued_at=soon), ahead)
    yield refused(
        "stop-for-ever", "A sequence of a far future.", _order(sequence=2**63 - 1), Reason.NOT_YET_VALID
    )
    yield refused("an-old-stop", "Its time is over.", _order(), Reason.EXPIRED, time=late)
    yield refused("stop-another-hub", "Signed for another.", _order(hub="venue-8"), Reason.WRONG_HUB)
    yield refused("stop-an-earlier-life", "The same.", _order(epoch="0" * 20), Reason.WRONG_EPOCH)
    yield refused("stop-by-a-banned-key", "Its holder may nothing.", _order(GUEST), Reason.BANNED)


def _unproven() -> Iterator[Vector]:
    bad, other = Reason.BAD_SIGNATURE, Reason.WRONG_PAYLOAD_TYPE
    yield no_proof("stop-by-the-desk", "Who commands need not stop.", _order(DESK), bad)
    yield no_proof("stop-by-a-stranger", "An unknown key.", _order(STRANGER), bad)
    yield no_proof("a-command-for-an-order", "Another kind.", signed(payload(), NIGHT), other)
    for name, why, changes in (
        ("stop-and-go", "No such word.", {"verb": "pause"}),
        ("stop-a-device", "There is no such kind.", {"kind": "device:lamp-1"}),
        ("stop-an-unknown-action", "The catalogue is closed.", {"kind": "action:explode"}),
        ("stop-an-unknown-tier", "There are three.", {"kind": "tier:all"}),
        ("stop-with-many-words", "201 characters.", {"why": "x" * 201}),
        ("stop-with-a-device", "An unknown field.", {"device": "lamp-1"}),
        ("stop-of-another-type", "A command in an envelope for orders.", {"type": "command"}),
    ):
        vector = refused(name, why, _order(**changes), Reason.MALFORMED)
        yield vector.model_copy(update={"stage": Stage.COMMAND})
