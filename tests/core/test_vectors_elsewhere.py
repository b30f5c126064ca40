"""Other programs come to the same answer about the same bytes: Node's crypto and openssl, both ways."""

import json
import os
import shutil
import subprocess
from base64 import b64decode
from pathlib import Path

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
from edgeagent.core.envelope import sign, verify
from tests.core.test_vectors import ALL, keys_of
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
        env={**os.environ, "COMMAND_BYTES": str(COMMAND_BYTES)},
        capture_output=True,
        check=True,
    )
    answer: JsonValue = json.loads(told.stdout)
    return answer


def signers_here(vector: Vector) -> list[str] | None:
    """Who has signed a vector, as we see it; None when nobody known has."""
    if vector.stage is Stage.ENVELOPE:
        return None
    keys = keys_of(ALL.policies[vector.policy])
    return list(verify(vector.raw, keys, COMMAND_TYPE, limit=COMMAND_BYTES).signers)


def encoding_by_hand(kind: bytes, body: bytes) -> bytes:
    """What DSSE signs, written once more."""
    return b" ".join([b"DSSEv1", str(len(kind)).encode(), kind, str(len(body)).encode(), body])


@needs_node
def test_node_finds_the_same_signers_of_every_vector() -> None:
    told = node("verify", str(FILE))

    assert told == {vector.name: signers_here(vector) for vector in ALL.vectors}


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
    fields, keys = json.loads(vector.raw), keys_of(ALL.policies[vector.policy])
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
