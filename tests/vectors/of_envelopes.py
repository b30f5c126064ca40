"""Envelopes: those that prove something however oddly they are written, and those that prove nothing."""

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from hashlib import sha256
from typing import Final

from pydantic import JsonValue

from edgeagent.contracts.command import COMMAND_BYTES, COMMAND_TYPE
from edgeagent.contracts.order import ORDER_TYPE
from edgeagent.contracts.policy import POLICY_TYPE
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.timestatement import TIME_TYPE
from edgeagent.core.envelope import pre_authentication_encoding
from tests.vectors.making import (
    CLOCK,
    DESK,
    GUEST,
    NIGHT,
    STRANGER,
    Fields,
    accepted,
    compact,
    envelope,
    no_proof,
    payload,
    signed,
)
from tests.vectors.vector import Vector

BODY: Final = payload()
GOOD: Final = signed(BODY)
OVER: Final = DESK.sign(pre_authentication_encoding(COMMAND_TYPE, BODY))
"""``DESK``'s signature over ``BODY``."""
ORDER_OF_THE_GROUP: Final = 2**252 + 27742317777372353535851937790883648493


def vectors() -> Iterator[Vector]:
    """All of them."""
    yield from _odd_and_good()
    yield from _no_json()
    yield from _no_envelope()
    yield from _no_base64()
    yield from _another_kind()
    yield from _unsigned()
    yield from _other_signatures()


def _changed(**changes: JsonValue) -> bytes:
    """The good envelope with some fields changed; None takes one away."""
    fields: Fields = envelope(BODY, [(DESK.id, OVER)]) | changes
    return compact({name: value for name, value in fields.items() if value is not None})


def _signatures(*pairs: tuple[str, bytes]) -> bytes:
    return compact(envelope(BODY, pairs))


def _odd_and_good() -> Iterator[Vector]:
    text, bad = GOOD.decode(), OVER[:-1] + bytes([OVER[-1] ^ 1])
    pretty = json.dumps(json.loads(text), indent=2).encode()
    backwards = compact(dict(reversed(json.loads(text).items())))
    escaped = text.replace('"payload"', '"payl\\u006fad"').replace("application/", "application\\/").encode()
    keys = [DESK, NIGHT, GUEST, CLOCK]
    eight = [(key.id, key.sign(pre_authentication_encoding(COMMAND_TYPE, BODY))) for key in keys * 2]
    spaced = json.dumps(json.loads(BODY), indent=1).encode()
    yield accepted("one-signature", "An ordinary command.", GOOD)
    yield accepted("two-signatures", "Two known keys have signed.", signed(BODY, NIGHT, DESK))
    yield accepted("a-stranger-beside", "An unknown key counts for nothing.", signed(BODY, STRANGER, DESK))
    yield accepted(
        "a-bad-signature-before",
        "It does not hide the good one.",
        _signatures((DESK.id, bad), (DESK.id, OVER)),
    )
    yield accepted(
        "another-name-beside",
        "A signature under the id of another key counts for nothing.",
        _signatures((NIGHT.id, OVER), (DESK.id, OVER)),
    )
    yield accepted(
        "the-same-signature-twice", "It counts once.", _signatures((DESK.id, OVER), (DESK.id, OVER))
    )
    yield accepted("eight-signatures", "As many as are looked at.", _signatures(*eight))
    yield accepted("white-space", "White space between the tokens of the envelope.", pretty)
    yield accepted("another-order", "The envelope's fields in another order.", backwards)
    yield accepted("escapes", "Characters of the envelope written as escapes.", escaped)
    yield accepted("a-payload-with-spaces", "The payload is signed as it is, to the byte.", signed(spaced))


def _no_json() -> Iterator[Vector]:
    text = GOOD.decode()
    yield no_proof("nothing", "No bytes at all.", b"")
    yield no_proof("half", "The first half.", GOOD[: len(GOOD) // 2])
    yield no_proof("trailing-bytes", "Something follows.", GOOD + b"x")
    yield no_proof("trailing-nul", "A zero byte follows.", GOOD + b"\0")
    yield no_proof("two-envelopes", "A second envelope follows.", GOOD + GOOD)
    yield no_proof("a-byte-order-mark", "A byte order mark before it.", b"\xef\xbb\xbf" + GOOD)
    yield no_proof("utf-16", "Another encoding than UTF-8.", text.encode("utf-16"))
    yield no_proof("invalid-utf-8", "A byte that UTF-8 does not have.", GOOD.replace(b"vnd", b"v\xffd"))
    yield no_proof("overlong-utf-8", "A slash in two bytes.", GOOD.replace(b"n/v", b"n\xc0\xafv"))
    yield no_proof("single-quotes", "Quotes of another language.", text.replace('"', "'").encode())
    yield no_proof("a-comment", "JSON has no comments.", b"/* */" + GOOD)
    yield no_proof("a-trailing-comma", "A comma too many.", GOOD[:-1] + b",}")
    yield no_proof("a-raw-newline", "A control character in a text.", GOOD.replace(b"vnd", b"v\nd"))
    yield no_proof("nan", "A number that JSON does not have.", _put(b'"x":NaN,'))
    yield no_proof("a-huge-number", "A number beyond every double.", _put(b'"x":1e400,'))
    yield no_proof(
        "a-number-of-5000-digits", "Longer than any number is read.", _put(b'"x":' + b"9" * 5000 + b",")
    )
    yield no_proof("deep", "Nested a thousand deep.", _put(b'"x":' + b"[" * 1000 + b"]" * 1000 + b","))
    yield no_proof(
        "half-a-surrogate-pair", "An escape for half a character.", GOOD.replace(b"vnd", b"\\ud800")
    )
    yield no_proof(
        "the-payload-twice",
        "One parser would verify the first, another execute the second.",
        _put(b'"payload":"' + b64encode(payload(action="toggle")) + b'",'),
    )
    yield no_proof(
        "a-field-twice-by-an-escape", "The same name in two spellings.", _put(b'"payl\\u006fad":"",')
    )


def _put(text: bytes) -> bytes:
    """The good envelope with something before its first field."""
    return GOOD.replace(b"{", b"{" + text, 1)


def _no_envelope() -> Iterator[Vector]:
    one: Fields = {"keyid": DESK.id, "sig": b64encode(OVER).decode()}
    yield no_proof("an-array", "An array around it.", b"[" + GOOD + b"]")
    yield no_proof("null", "JSON, and no object.", b"null")
    yield no_proof("an-empty-object", "No field at all.", b"{}")
    yield no_proof("no-payload", "The payload is missing.", _changed(payload=None))
    yield no_proof("a-number-for-a-payload", "A payload that is no text.", _changed(payload=7))
    yield no_proof("an-object-for-a-payload", "The command itself.", _changed(payload=json.loads(BODY)))
    yield no_proof("no-type", "The payload's type is missing.", _changed(payloadType=None))
    yield no_proof("an-empty-type", "A type of no characters.", _changed(payloadType=""))
    yield no_proof("a-long-type", "A type of 129 characters.", _changed(payloadType="a" * 129))
    yield no_proof("an-unknown-field", "What nobody knows might mean something.", _changed(unsigned={}))
    yield no_proof("no-signatures", "The signatures are missing.", _changed(signatures=None))
    yield no_proof("an-empty-list", "A list of no signatures.", _changed(signatures=[]))
    yield no_proof("an-object-for-the-list", "One signature outside a list.", _changed(signatures=one))
    yield no_proof("nine-signatures", "More than are looked at.", _changed(signatures=[one] * 9))
    yield no_proof("no-key-id", "DSSE lets it be absent.", _changed(signatures=[{"sig": one["sig"]}]))
    yield no_proof(
        "a-name-for-a-key-id", "A key is known by its hash.", _changed(signatures=[one | {"keyid": "desk"}])
    )
    yield no_proof(
        "a-key-id-in-capitals",
        "Hexadecimal digits are small.",
        _changed(signatures=[one | {"keyid": DESK.id.upper()}]),
    )
    yield no_proof(
        "a-public-key-for-a-key-id-and-more",
        "65 digits.",
        _changed(signatures=[one | {"keyid": DESK.id + "0"}]),
    )
    yield no_proof("no-signature-by-a-key", "A key id alone.", _changed(signatures=[{"keyid": DESK.id}]))
    yield no_proof(
        "an-unknown-field-of-a-signature",
        "Certificates are not looked at.",
        _changed(signatures=[one | {"cert": ""}]),
    )


def _no_base64() -> Iterator[Vector]:
    text = b64encode(BODY).decode()
    # A payload whose base64 has both characters in which the two alphabets differ, and padding.
    odd = b"\xfb\xef\xbe\xff~?>" * 3
    url = urlsafe_b64encode(odd).decode()
    yield no_proof("a-blank-in-base64", "White space.", _changed(payload=text[:8] + " " + text[8:]))
    yield no_proof(
        "a-newline-after-base64", "As some programs end their output.", _changed(payload=text + "\n")
    )
    yield no_proof("lines-of-base64", "As in mail.", _changed(payload=text[:76] + "\r\n" + text[76:]))
    yield no_proof("url-safe-base64", "The alphabet of RFC 4648 section 5.", _changed(payload=url))
    yield no_proof(
        "no-padding", "A sign that fills up is missing.", _changed(payload=b64encode(b"ab").decode()[:-1])
    )
    yield no_proof("too-much-padding", "One sign too many.", _changed(payload="YWJj="))
    # 64 bytes end in one byte and two "="; the character before them carries four bits that mean nothing.
    last = b64encode(OVER).decode()
    unused = last[:-3] + chr(ord(last[-3]) + 1) + "=="
    yield no_proof(
        "unused-bits",
        "Bits that no byte needs: one signature would have sixteen spellings.",
        _changed(signatures=[{"keyid": DESK.id, "sig": unused}]),
    )
    yield no_proof("padding-inside", "Two pieces.", _changed(payload="YQ==YWJj"))
    yield no_proof("another-alphabet", "A character beyond ASCII.", _changed(payload="Y\u00e9=="))
    yield no_proof("hexadecimal", "A signature in hexadecimal with a colon.", _hexadecimal())


def _hexadecimal() -> bytes:
    return _changed(signatures=[{"keyid": DESK.id, "sig": OVER.hex(":")}])


def _another_kind() -> Iterator[Vector]:
    kind = Reason.WRONG_PAYLOAD_TYPE
    for name, other in (("a-time-statement", TIME_TYPE), ("an-order", ORDER_TYPE), ("a-policy", POLICY_TYPE)):
        yield no_proof(name, "A signed document of another kind.", signed(BODY, kind=other), kind)
    yield no_proof(
        "a-type-in-capitals", "Types are compared by the byte.", signed(BODY, kind=COMMAND_TYPE.upper()), kind
    )
    yield no_proof("a-type-with-a-blank", "The same.", signed(BODY, kind=COMMAND_TYPE + " "), kind)
    yield no_proof(
        "too-large",
        "A good envelope with white space up to one byte too many.",
        GOOD,
        Reason.TOO_LARGE,
        spaces=COMMAND_BYTES + 1 - len(GOOD),
    )
    yield accepted(
        "as-large-as-may-be", "The same with one byte less.", GOOD, spaces=COMMAND_BYTES - len(GOOD)
    )


def _unsigned() -> Iterator[Vector]:
    bad = Reason.BAD_SIGNATURE
    flipped = bytes([OVER[0] ^ 1]) + OVER[1:]
    other = payload(action="toggle", arguments={})
    relabelled = envelope(BODY, [(DESK.id, DESK.sign(pre_authentication_encoding(TIME_TYPE, BODY)))])
    yield no_proof("a-flipped-bit", "One bit of the signature.", _signatures((DESK.id, flipped)), bad)
    yield no_proof(
        "another-payload",
        "The signature of another command.",
        compact(envelope(other, [(DESK.id, OVER)])),
        bad,
    )
    yield no_proof("a-stranger", "A good signature by a key that is in no role.", signed(BODY, STRANGER), bad)
    yield no_proof("a-key-of-another-role", "Who tells the time commands nothing.", signed(BODY, CLOCK), bad)
    yield no_proof(
        "another-name", "A good signature under the id of another key.", _signatures((NIGHT.id, OVER)), bad
    )
    yield no_proof("relabelled", "Signed as a time statement, called a command.", compact(relabelled), bad)


def _other_signatures() -> Iterator[Vector]:
    bad, digest = Reason.BAD_SIGNATURE, sha256(BODY)
    encoded = pre_authentication_encoding(COMMAND_TYPE, BODY)
    scalar = int.from_bytes(OVER[32:], "little") + ORDER_OF_THE_GROUP
    longer = OVER[:32] + scalar.to_bytes(32, "little")
    second = encoded.replace(b"DSSEv1", b"DSSEv2")
    for name, why, signature in (
        ("not-encoded", "The payload alone is signed.", DESK.sign(BODY)),
        ("a-digest", "Its sha256 is signed.", DESK.sign(digest.digest())),
        (
            "a-digest-of-the-encoding",
            "The sha256 of what ought to be signed.",
            DESK.sign(sha256(encoded).digest()),
        ),
        (
            "base64-signed",
            "The payload's base64 is signed.",
            DESK.sign(pre_authentication_encoding(COMMAND_TYPE, b64encode(BODY))),
        ),
        ("another-version", "DSSEv2.", DESK.sign(second)),
        ("a-newline-signed-too", "A line's end after the encoding.", DESK.sign(encoded + b"\n")),
        ("no-bytes", "A signature of no bytes.", b""),
        ("63-bytes", "A byte is missing.", OVER[:-1]),
        ("65-bytes", "A byte too many.", OVER + b"\0"),
        ("zeros", "64 zero bytes.", bytes(64)),
        (
            "s-beyond-the-order",
            "S + L: the same signature once more, if it were taken (RFC 8032 5.1.7).",
            longer,
        ),
        ("halves-swapped", "S before R.", OVER[32:] + OVER[:32]),
    ):
        yield no_proof(name, why, _signatures((DESK.id, signature)), bad)
