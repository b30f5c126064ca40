"""What known keys have signed: commands that may be done, that may not, and what is no command at all."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from pydantic import JsonValue

from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.scalars import timestamp_text
from tests.vectors.making import (
    DAY,
    DESK,
    ERROR,
    GUEST,
    MINUTE,
    NIGHT,
    NOW,
    SECOND,
    STRANGER,
    accepted,
    command,
    compact,
    held,
    no_command,
    payload,
    refused,
    sequence,
    signed,
)
from tests.vectors.vector import Vector

_MILLISECOND: Final = timedelta(milliseconds=1)
_ERROR: Final = ERROR * _MILLISECOND


def vectors() -> Iterator[Vector]:
    """All of them."""
    yield from _no_json()
    yield from _wrong_fields()
    yield from _wrong_values()
    yield from _in_and_out_of_time()
    yield from _addressed()
    yield from _allowed()
    yield from _possible()


def _said(**changes: JsonValue) -> bytes:
    return signed(payload(**changes))


def _put(text: bytes) -> bytes:
    """An ordinary payload with something before its first field."""
    return payload().replace(b"{", b"{" + text, 1)


def _no_json() -> Iterator[Vector]:
    body = payload()
    yield no_command("no-payload-at-all", "An empty payload.", b"")
    yield no_command("a-payload-of-words", "No JSON.", b"switch the lamp on")
    yield no_command("a-payload-that-is-a-list", "An array.", compact([command()]))
    yield no_command("two-commands", "A second one follows.", body + body)
    yield no_command("half-a-command", "The first half.", body[: len(body) // 2])
    yield no_command("a-marked-payload", "A byte order mark before it.", b"\xef\xbb\xbf" + body)
    yield no_command(
        "a-payload-not-utf-8", "A byte that UTF-8 does not have.", body.replace(b"c-1", b"c\xff1")
    )
    yield no_command("the-action-twice", "Which one would be done?", _put(b'"action":"toggle",'))
    yield no_command("the-action-twice-by-an-escape", "The same.", _put(b'"acti\\u006fn":"toggle",'))
    yield no_command(
        "an-argument-twice", "The same.", body.replace(b'{"on":true}', b'{"on":false,"on":true}')
    )
    yield no_command("nan-for-an-argument", "No number.", body.replace(b'"on":true', b'"level":NaN'))
    yield no_command(
        "infinity-for-an-argument", "No number.", body.replace(b'"on":true', b'"level":-Infinity')
    )
    yield no_command(
        "1e400-for-an-argument", "Beyond a double.", body.replace(b'"on":true', b'"level":1e400')
    )
    yield no_command(
        "1e-400-for-an-argument", "Zero, to a double.", body.replace(b'"on":true', b'"level":1e-400')
    )
    yield no_command("beyond-int64", "2 to the power of 63.", payload(sequence=2**63))
    yield no_command("a-deep-command", "Nested 17 deep.", _put(b'"x":' + b"[" * 16 + b"]" * 16 + b","))
    yield no_command("half-a-surrogate", "Half a character.", body.replace(b"c-1", b"\\udc00"))


def _wrong_fields() -> Iterator[Vector]:
    for field in (
        "id",
        "hub",
        "epoch",
        "devices",
        "action",
        "operation",
        "sequence",
        "issued_at",
        "expires_at",
    ):
        yield no_command(
            f"without-{field.replace('_', '-')}", "A field is missing.", payload(**{field: None})
        )
    yield no_command("an-unknown-field-of-a-command", "It might have meant something.", payload(urgent=True))
    yield no_command("a-topic", "A command names no topic.", payload(topic="cmnd/lamp/POWER"))
    yield no_command("another-type", "A policy in an envelope for commands.", payload(type="policy"))


def _wrong_values() -> Iterator[Vector]:
    changes: tuple[tuple[str, str, dict[str, JsonValue]], ...] = (
        ("an-unknown-action", "The catalogue is closed.", {"action": "explode"}),
        ("an-action-in-capitals", "Names are small.", {"action": "POWER"}),
        ("a-number-for-an-id", "An id is a text.", {"id": 1}),
        ("an-id-of-65", "One character too many.", {"id": "c" * 65}),
        ("an-empty-id", "No character at all.", {"id": ""}),
        ("a-path-for-an-id", "Ids name files and rows.", {"id": "../c"}),
        ("a-wildcard-for-a-hub", "A command is for one hub.", {"hub": "*"}),
        ("one-device-as-a-text", "A list also for one.", {"devices": "lamp-1"}),
        ("no-devices", "For nobody.", {"devices": []}),
        ("a-device-twice", "It would be done twice.", {"devices": ["lamp-1", "lamp-2", "lamp-1"]}),
        ("257-devices", "One too many.", {"devices": [f"lamp-{n}" for n in range(257)]}),
        ("a-wildcard-for-a-device", "Whoever signs says which.", {"devices": ["*"]}),
        (
            "one-device-in-its-old-field",
            "An unknown field, and a missing one.",
            {"devices": None, "device": "lamp-1"},
        ),
        ("an-epoch-in-capitals", "Hexadecimal digits are small.", {"epoch": "0190163D8694739B4FC1"}),
        ("a-blank-in-an-operation", "An operation has no blanks.", {"operation": "evening lights"}),
        ("a-sequence-of-0", "The least is 1.", {"sequence": 0}),
        ("a-negative-sequence", "The least is 1.", {"sequence": -1}),
        ("a-float-for-a-sequence", "As of a parser that knows doubles only.", {"sequence": 7.0}),
        ("a-text-for-a-sequence", "A number is written as one.", {"sequence": "7"}),
        ("a-truth-for-a-sequence", "True is no 1.", {"sequence": True}),
        ("a-time-without-zone", "It could be anywhere.", {"issued_at": "2026-01-02T03:04:04"}),
        ("a-time-in-seconds", "A time is a text.", {"issued_at": 1767323044}),
        ("a-day-that-is-not", "February has no 30th.", {"expires_at": "2026-02-30T00:00:00Z"}),
        (
            "over-before-it-begins",
            "It expires when it is issued.",
            {"expires_at": timestamp_text(NOW - SECOND)},
        ),
        ("a-list-for-an-argument", "Arguments are flat.", {"arguments": {"on": [True]}}),
        ("null-for-an-argument", "Nothing is no value.", {"arguments": {"on": None}}),
        ("a-dot-in-an-argument", "A name that no argument has.", {"arguments": {"on.x": True}}),
        ("nine-arguments", "More than any action has.", {"arguments": {f"a_{c}": 1 for c in "abcdefghi"}}),
        ("an-escape-sequence", "What a terminal would act on.", {"arguments": {"name": "\x1b[2J"}}),
        ("a-text-of-201", "One character too many.", {"arguments": {"name": "x" * 201}}),
        ("a-wrong-etag", "16 hexadecimal digits.", {"precondition": {"etag": "latest"}}),
        ("an-unknown-precondition", "It might have meant something.", {"precondition": {"if": "on"}}),
    )
    for name, why, changed in changes:
        yield no_command(name, why, payload(**changed))


def _in_and_out_of_time() -> Iterator[Vector]:
    late, over = Reason.EXPIRED, NOW + 5 * MINUTE
    yield accepted(
        "just-in-time",
        "The last moment at which it is certainly good.",
        _said(),
        time=over - _ERROR - _MILLISECOND,
    )
    yield held("perhaps-over", "It may be over by now, and may not.", _said(), Reason.CLOCK_UNSURE, time=over)
    yield refused(
        "just-over", "The first moment at which it is certainly over.", _said(), late, time=over + _ERROR
    )
    yield refused("a-year-old", "Recorded and sent again.", _said(), late, time=NOW + 365 * DAY)
    yield held("no-clock", "The hub does not know the time.", _said(), Reason.CLOCK_UNSURE, error=None)
    yield refused(
        "no-clock-and-over", "But it is later than that.", _said(), late, time=over + DAY, error=None
    )
    yield accepted("an-issuer-ahead", "By 30 seconds, which an issuer's clock may be.", _issued(30 * SECOND))
    yield held("an-issuer-far-ahead", "By more.", _issued(31 * SECOND), Reason.NOT_YET_VALID)
    yield accepted(
        "a-sequence-ahead", "By a day, as after a clock was set back.", _said(sequence=sequence(NOW + DAY))
    )
    yield held(
        "a-sequence-far-ahead",
        "It would stand before all that its issuer signs until then.",
        _said(sequence=sequence(NOW + DAY + MINUTE)),
        Reason.NOT_YET_VALID,
    )
    yield held("the-largest-sequence", "The same.", _said(sequence=2**63 - 1), Reason.NOT_YET_VALID)
    yield refused(
        "valid-too-long",
        "The policy lets a command of this action be valid for ten minutes.",
        _said(expires_at=timestamp_text(NOW + 10 * MINUTE)),
        Reason.VALID_TOO_LONG,
    )
    yield refused(
        "an-old-policy", "The policy's own time is over.", _said(), Reason.POLICY_EXPIRED, policy="over"
    )


def _issued(ahead: timedelta) -> bytes:
    # The hub's latest time, plus what is allowed.
    return _said(issued_at=timestamp_text(NOW + _ERROR + ahead))


def _addressed() -> Iterator[Vector]:
    yield refused("another-hub", "Signed for another hub.", _said(hub="venue-8"), Reason.WRONG_HUB)
    yield refused(
        "the-hub-in-capitals", "Ids are compared by the byte.", _said(hub="VENUE-7"), Reason.WRONG_HUB
    )
    yield refused(
        "an-earlier-life",
        "Signed before the database was lost.",
        _said(epoch="00000000000000000001"),
        Reason.WRONG_EPOCH,
    )
    yield refused(
        "another-hub-and-old",
        "The address comes before the time.",
        _said(hub="venue-8"),
        Reason.WRONG_HUB,
        time=NOW + DAY,
    )
    yield refused("no-such-device", "Nobody admitted it.", _for("lamp-2"), Reason.DEVICE_UNKNOWN)
    both = _for("lamp-1", "lamp-2")
    yield accepted("the-first-of-two", "Each device is judged on its own.", both, device="lamp-1")
    yield refused("the-second-of-two", "The same.", both, Reason.DEVICE_UNKNOWN, device="lamp-2")
    theirs = signed(payload(devices=["lamp-1", "lamp-2"]), NIGHT)
    yield accepted("one-device-covered", "The role covers this device.", theirs, device="lamp-1")
    yield refused("one-device-not-covered", "And not this.", theirs, Reason.NOT_ALLOWED, device="lamp-2")


def _for(*devices: str) -> bytes:
    return _said(devices=[*devices])


def _allowed() -> Iterator[Vector]:
    no, dim = Reason.NOT_ALLOWED, payload(action="brightness", arguments={"level": 50})
    yield accepted("by-who-may", "A role covers action and device.", signed(payload(), NIGHT))
    yield refused("another-action", "A role that does not cover the action.", signed(dim, NIGHT), no)
    yield accepted("another-signer-may", "One signer may; the other need not.", signed(dim, NIGHT, DESK))
    yield refused("a-role-that-is-over", "A role whose time is over.", signed(payload(), GUEST), no)
    yield refused("a-guest-and-a-stranger", "Nobody who may.", signed(payload(), STRANGER, GUEST), no)
    yield refused(
        "no-rule", "The policy has no rule for the action.", _said(action="reboot", arguments={}), no
    )


def _possible() -> Iterator[Vector]:
    bad = Reason.BAD_ARGUMENTS
    wrong: tuple[tuple[str, str, str, JsonValue], ...] = (
        ("no-arguments", "One is missing.", "power", {}),
        ("an-argument-too-many", "The action has no such argument.", "power", {"on": True, "level": 1}),
        ("one-for-true", "1 is no truth.", "power", {"on": 1}),
        ("true-for-one", "True is no number.", "brightness", {"level": True}),
        ("a-float-for-a-whole-number", "50.0 is no whole number.", "brightness", {"level": 50.0}),
        ("101-percent", "Beyond the catalogue's range.", "brightness", {"level": 101}),
        ("a-channel-of-0", "Below the catalogue's range.", "power", {"on": True, "channel": 0}),
        ("5-percent", "Below this lamp's range.", "brightness", {"level": 5}),
    )
    for name, why, action, arguments in wrong:
        yield refused(name, why, _said(action=action, arguments=arguments), bad)
    yield accepted(
        "half-as-bright", "Within every range.", _said(action="brightness", arguments={"level": 50})
    )
    yield refused(
        "a-lamp-has-no-volume",
        "The policy would allow it.",
        _said(action="volume", arguments={"level": 5}),
        Reason.UNSUPPORTED_ACTION,
    )
