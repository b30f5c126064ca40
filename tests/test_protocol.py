"""``docs/protocol.md`` is what the code does: its example can be made again, its tables are whole."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.checkpoint import CHECKPOINT_BYTES, CHECKPOINT_TYPE, Checkpoint
from edgeagent.contracts.command import COMMAND_BYTES, COMMAND_TYPE, Command
from edgeagent.contracts.door import DEPTH, Contract, decode
from edgeagent.contracts.envelope import MOST_SIGNATURES
from edgeagent.contracts.order import ORDER_BYTES, ORDER_TYPE, Order
from edgeagent.contracts.policy import POLICY_BYTES, POLICY_TYPE, Policy
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import RECEIPT_BYTES, RECEIPT_TYPE, Outcome, Receipt
from edgeagent.contracts.timestatement import TIME_BYTES, TIME_TYPE, TimeStatement
from edgeagent.core.envelope import digest_of, pre_authentication_encoding, sign, verify
from tests.support.published_keys import TEST_1
from tests.vectors.making import payload
from tests.vectors.vector import load

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "protocol.md").read_text("utf-8")

pytestmark = pytest.mark.requirement("P1")


def block(name: str) -> str:
    """The text in the fence after a mark."""
    found = re.search(rf"<!-- {name} -->\n```[a-z]*\n(.*?)\n```", PAGE, re.DOTALL)
    assert found is not None, name
    return found[1]


def section(title: str) -> str:
    """What stands below a heading."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_example_can_be_made_again_to_the_byte() -> None:
    body = block("payload").encode()
    message = pre_authentication_encoding(COMMAND_TYPE, body)

    assert body == payload()
    assert block("public key") == pem(TEST_1.public)
    assert block("key id") == TEST_1.id
    assert block("identity") == digest_of(body)
    assert bytes.fromhex(block("encoding")) == message
    assert bytes.fromhex(block("signature")) == TEST_1.sign(message)
    assert block("envelope").encode() == sign(body, COMMAND_TYPE, [TEST_1])


def pem(public: bytes) -> str:
    """A public key as openssl reads it."""
    key = Ed25519PublicKey.from_public_bytes(public)
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode().strip()


def test_the_examples_payload_is_a_command_that_its_key_has_signed() -> None:
    verified = verify(
        block("envelope").encode(), {TEST_1.id: TEST_1.public}, COMMAND_TYPE, limit=COMMAND_BYTES
    )

    assert decode(Command, verified.payload, limit=COMMAND_BYTES).id == "c-1"
    assert verified.sha256 == block("identity")


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
@pytest.mark.parametrize("is_whole", [True, False])
def test_the_lines_for_a_shell_check_the_example(*, is_whole: bool, tmp_path: Path) -> None:
    envelope = block("envelope") if is_whole else block("envelope").replace('"sig":"', '"sig":"AAAA', 1)
    (tmp_path / "envelope.json").write_text(envelope)
    (tmp_path / "key.pem").write_text(block("public key") + "\n")

    told = subprocess.run(
        ["sh", "-e", "-c", block("check")], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert (told.returncode == 0) is is_whole
    assert ("Signature Verified Successfully" in told.stdout) is is_whole
    assert told.stdout.splitlines()[0].split()[0] == TEST_1.id


@pytest.mark.parametrize(
    ("kind", "most"),
    [
        (COMMAND_TYPE, COMMAND_BYTES),
        (ORDER_TYPE, ORDER_BYTES),
        (POLICY_TYPE, POLICY_BYTES),
        (TIME_TYPE, TIME_BYTES),
        (RECEIPT_TYPE, RECEIPT_BYTES),
        (CHECKPOINT_TYPE, CHECKPOINT_BYTES),
    ],
)
def test_every_kind_is_listed_with_the_most_bytes_of_its_envelope(kind: str, most: int) -> None:
    assert re.search(rf"\| `{re.escape(kind)}` \| [^|]+ \| {most} \|", section("The envelope"))


@pytest.mark.parametrize(
    ("title", "contract"),
    [
        ("A command", Command),
        ("An order", Order),
        ("A policy", Policy),
        ("A time statement", TimeStatement),
        ("What a hub signs", Receipt),
        ("What a hub signs", Checkpoint),
    ],
)
def test_every_field_of_a_document_is_listed(title: str, contract: type[Contract]) -> None:
    missing = [name for name in contract.model_fields if f"`{name}`" not in section(title)]

    assert missing == []


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    assert f"a list of 1 to {MOST_SIGNATURES} objects" in PAGE
    assert f"At most {DEPTH} objects and arrays" in PAGE
    assert f"has {len(load().vectors)} envelopes" in PAGE
    assert all(f"`{action}`" in section("A command") for action in ActionName)
    assert all(f"`{outcome}`" in section("What a hub signs") for outcome in Outcome)


@pytest.mark.parametrize("reason", Reason, ids=str)
def test_every_reason_says_what_it_means_for_an_issuer(reason: Reason) -> None:
    assert f"`{reason}`" in section("What a hub answers")


def test_every_reason_of_a_vector_is_one_that_an_issuer_can_look_up() -> None:
    table = re.findall(r"^\| `([a-z_]+)` \|", section("What a hub answers"), re.MULTILINE)

    assert {each.reason for each in load().vectors} - {None} <= set(table)
    assert len(table) == len(set(table))


def test_the_example_is_one_line_of_json() -> None:
    assert list(json.loads(block("envelope"))) == ["payload", "payloadType", "signatures"]
    assert "\n" not in block("envelope")
