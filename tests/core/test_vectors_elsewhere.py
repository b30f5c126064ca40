"""Other programs come to the same answer about the same bytes: Node's crypto and openssl, both ways."""

import json
import shutil
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from pydantic import JsonValue

from edgeagent.contracts.command import COMMAND_BYTES, COMMAND_TYPE
from edgeagent.contracts.door import encode
from edgeagent.core.envelope import RefusedEnvelopeError, sign, verify
from tests.core.test_vectors import ALL, believed, keys_of
from tests.support.keys import MemoryKey, keyring_of
from tests.vectors.making import payload
from tests.vectors.vector import FILE, Stage, Vector

PROGRAM = FILE.with_name("protocol.mjs")

pytestmark = pytest.mark.requirement("P1", "T1")

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


def node(*words: str, given: bytes = b"") -> JsonValue:
    """What the program in JavaScript says."""
    told = subprocess.run(
        ["node", str(PROGRAM), *words],
        input=given,
        capture_output=True,
        check=True,
    )
    answer: JsonValue = json.loads(told.stdout)
    return answer


def signers_here(vector: Vector) -> list[str] | None:
    """Who has signed a vector, as we see it; None when nobody known has."""
    if vector.stage is Stage.ENVELOPE:
        return None
    return list(believed(vector).signers)


def encoding_by_hand(kind: bytes, body: bytes) -> bytes:
    """What DSSE signs, written once more."""
    return b" ".join([b"DSSEv1", str(len(kind)).encode(), kind, str(len(body)).encode(), body])


@needs_node
def test_node_finds_the_same_signers_of_every_vector() -> None:
    told = node("verify", str(FILE))

    assert told == {vector.name: signers_here(vector) for vector in ALL.vectors}


def mangled(count: int) -> Iterator[Vector]:
    """Good envelopes with a few bytes changed, put in, left out, or said twice; always the same ones."""
    chance = Random(8032)  # noqa: S311 - the same ones each time
    good = [vector for vector in ALL.vectors if vector.answer == "accepted" and not vector.spaces]
    pieces = (
        b'"',
        b"\\",
        b",",
        b"{}",
        b"[]",
        b"\\u0061",
        b" ",
        b"\n",
        b"\0",
        b"\xff",
        b"=",
        b"-",
        b"1",
        b'"sig":"",',
    )
    for number in range(count):
        vector = chance.choice(good)
        raw = vector.envelope
        for _ in range(chance.randint(1, 3)):
            # Half of the time between two tokens, where it may mean nothing at all.
            between = [place for place, byte in enumerate(raw) if byte in b"{}[],:"]
            place = chance.choice((chance.choice(between or [0]), chance.randrange(len(raw))))
            length = chance.choice((0, 0, 0, 1, 30))
            new = chance.choice((b" ", b"\n", b"\t", *pieces, raw[place : place + 40]))
            raw = raw[:place] + new + raw[place + length :]
        yield vector.model_copy(update={"name": f"mangled-{number}", "envelope": raw})


def signers_of(vector: Vector) -> list[str] | None:
    """Who has signed an envelope, as we see it."""
    try:
        return list(believed(vector).signers)
    except RefusedEnvelopeError:
        return None


@needs_node
def test_node_finds_the_same_signers_of_a_thousand_mangled_envelopes(tmp_path: Path) -> None:
    vectors = list(mangled(1000))
    file = tmp_path / "mangled.json"
    file.write_bytes(encode(ALL.model_copy(update={"vectors": vectors})))

    ours = {vector.name: signers_of(vector) for vector in vectors}

    assert node("verify", str(file)) == ours
    # Neither is the corpus all good nor all bad.
    assert 20 < sum(signers is not None for signers in ours.values()) < 980


@needs_node
def test_what_node_signs_we_verify(tmp_path: Path) -> None:
    key, pem = MemoryKey(), tmp_path / "key.pem"
    pem.write_bytes(key.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))

    told = node("sign", str(pem), COMMAND_TYPE, given=payload(arguments={"name": "Küche 🙂"}))

    verified = verify(json.dumps(told).encode(), keyring_of(key), COMMAND_TYPE, limit=COMMAND_BYTES)
    assert verified.payload == payload(arguments={"name": "Küche 🙂"})
    assert verified.signers == (key.id,)


def openssl(*words: str) -> bool:
    """Whether openssl says yes."""
    return subprocess.run(["openssl", "pkeyutl", *words], capture_output=True, check=False).returncode == 0


def openssl_verifies(folder: Path, public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether openssl takes a signature for that of a key."""
    key = Ed25519PublicKey.from_public_bytes(public)
    (folder / "key.pem").write_bytes(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    (folder / "message").write_bytes(message)
    (folder / "signature").write_bytes(signature)
    files = ("-inkey", str(folder / "key.pem"), "-in", str(folder / "message"))
    return openssl("-verify", "-pubin", "-rawin", *files, "-sigfile", str(folder / "signature"))


@pytest.mark.parametrize(
    "vector",
    [vector for vector in ALL.vectors if vector.reason in {None, "bad_signature"}],
    ids=lambda vector: vector.name,
)
def test_openssl_verifies_what_we_do_and_refuses_what_we_do(vector: Vector, tmp_path: Path) -> None:
    fields, keys = json.loads(vector.raw), keys_of(vector)
    message = encoding_by_hand(fields["payloadType"].encode(), b64decode(fields["payload"]))

    signers = {
        one["keyid"]
        for one in fields["signatures"]
        if one["keyid"] in keys
        and openssl_verifies(tmp_path, keys[one["keyid"]], message, b64decode(one["sig"]))
    }

    assert signers == set(signers_here(vector) or [])


def test_what_openssl_signs_we_verify(tmp_path: Path) -> None:
    key, pem = MemoryKey(), tmp_path / "key.pem"
    pem.write_bytes(key.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (tmp_path / "message").write_bytes(encoding_by_hand(COMMAND_TYPE.encode(), payload()))

    files = ("-inkey", str(pem), "-in", str(tmp_path / "message"), "-out", str(tmp_path / "signature"))
    assert openssl("-sign", "-rawin", *files)

    # Ed25519 is deterministic (RFC 8032 section 5.1.6): the same key and message, the same bytes.
    by_us = json.loads(sign(payload(), COMMAND_TYPE, [key]))
    assert b64decode(by_us["signatures"][0]["sig"]) == (tmp_path / "signature").read_bytes()
