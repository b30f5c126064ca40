"""Commands that others have to agree to, and what is banned whoever asks."""

from collections.abc import Iterator

from edgeagent.contracts.reasons import Reason
from tests.vectors.making import (
    CLOCK,
    DESK,
    GUEST,
    NIGHT,
    STRANGER,
    Fields,
    accepted,
    held,
    payload,
    refused,
    signed,
    terms,
)
from tests.vectors.vector import Terms, Vector

GUARDED = "guarded"
"""The policy by which all of these are judged."""


def guarded() -> Terms:
    """Power needs one who agrees; ``NIGHT`` may agree and issue nothing; some things are banned."""
    roles: Fields = {
        "operators": {"kind": "command", "keys": ["desk", "guest"], "actions": "*", "devices": "*"},
        "deputies": {"kind": "approve", "keys": ["night", "desk"], "actions": ["power"], "devices": "*"},
        "timekeepers": {"kind": "time", "keys": ["clock"]},
    }
    actions: Fields = {
        "power": {"tier": "low", "approvals": {"signatures": 1}},
        "brightness": {"tier": "low"},
        "toggle": {"tier": "low"},
    }
    bans: Fields = {"actions": ["toggle"], "devices": ["lamp-3"], "keys": ["guest"]}
    return terms(roles=roles, actions=actions, bans=bans)


def vectors() -> Iterator[Vector]:
    """All of them."""
    wanted, banned = Reason.NEEDS_APPROVAL, Reason.BANNED
    body, dim = payload(), payload(action="brightness", arguments={"level": 50})
    yield held("nobody-agrees", "The issuer alone.", signed(body), wanted, policy=GUARDED)
    yield accepted("somebody-agrees", "A second signature.", signed(body, DESK, NIGHT), policy=GUARDED)
    yield accepted("agreed-before", "In any order.", signed(body, NIGHT, DESK), policy=GUARDED)
    yield held(
        "agreed-with-himself",
        "An issuer's own signature is no approval, though his key may approve others' commands.",
        signed(body, DESK, DESK),
        wanted,
        policy=GUARDED,
    )
    yield held("a-stranger-agrees", "An unknown key.", signed(body, DESK, STRANGER), wanted, policy=GUARDED)
    yield held(
        "the-clock-agrees", "A key of another role.", signed(body, DESK, CLOCK), wanted, policy=GUARDED
    )
    yield refused(
        "an-approver-alone",
        "Who may agree may not issue.",
        signed(body, NIGHT),
        Reason.NOT_ALLOWED,
        policy=GUARDED,
    )
    yield accepted("nobody-need-agree", "The rule of this action asks nobody.", signed(dim), policy=GUARDED)
    yield refused(
        "a-banned-action",
        "However many have signed.",
        signed(payload(action="toggle", arguments={}), DESK, NIGHT),
        banned,
        policy=GUARDED,
    )
    yield refused(
        "a-banned-device",
        "Known to the hub or not.",
        signed(payload(devices=["lamp-3"])),
        banned,
        policy=GUARDED,
    )
    yield refused("a-banned-key", "Its holder may nothing.", signed(dim, GUEST), banned, policy=GUARDED)
