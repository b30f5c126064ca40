"""Evidence of a command: put together from queue and export, checked by us and by the document's lines."""

import asyncio
import json
import re
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import COMMAND_TYPE, Command
from edgeagent.contracts.door import decode, encode
from edgeagent.contracts.receipt import Outcome, Receipt
from edgeagent.core.audit_chain import next_hash
from edgeagent.core.envelope import merged, sign
from edgeagent.core.evidence import signed_receipt
from edgeagent.errors import RejectedError
from edgeagent.issuer.evidence import EVIDENCE_BYTES, Evidence, Known, checked, collected
from edgeagent.issuer.keys import save_public_key
from edgeagent.store import audit
from edgeagent.store.database import Transaction
from tests.cli.building import typed
from tests.cli.commanded import commanded
from tests.flows.commanding import Hub
from tests.flows.signing import POWER
from tests.support.agents_venue import HUB, Venue
from tests.support.keys import MemoryKey
from tests.support.private import write_private
from tests.support.waiting import DEADLINE

pytestmark = pytest.mark.requirement("A4", "A3")

DOCUMENT: Final = (Path(__file__).parents[2] / "docs" / "evidence.md").read_text("utf-8")
LINES: Final = "\n".join(re.findall(r"```bash\n(.*?)```", DOCUMENT, re.DOTALL))

Json = dict[str, Any]  # a document that is spoilt in a hundred ways before anything reads it


@dataclass(frozen=True, slots=True)
class Case:
    """A command that has ended, and all that is known of it.

    Attributes:
        known: what the queue says.
        export: the lines of an audit export of its hub.
        forged: the same after somebody has edited a row in the hub's database and made the hashes anew.
        evidence: the file.
        other: another receipt of the same hub.
    """

    known: Known
    export: list[bytes]
    forged: list[bytes]
    evidence: Json
    other: Receipt

    @property
    def hub_key(self) -> bytes:
        """The hub's public key, as somebody knows it from elsewhere."""
        return self.known.hub_key


async def worked(folder: Path) -> Case:
    """Work two commands, one of them approved by a second key, and export the trail."""
    async with commanded(folder) as terminal:
        hub = terminal.hub
        await hub.television()
        earlier, wanted = hub.command(POWER, on=True), hub.command(POWER, on=False)
        await hub.admits(hub.signed(earlier))
        await has_ended(hub, earlier)
        envelopes = [hub.signed(wanted, hub.keys.desk), hub.signed(wanted, hub.keys.night)]
        await hub.admits(merged(*envelopes))
        await has_ended(hub, wanted)
        export = [folder / "trail.jsonl", folder / "forged.jsonl"]
        assert (await terminal.types("audit", "export", str(export[0]))).status == 0
        settled = (await hub.ended(wanted)).audit.number
        await hub.store.write(lambda tx: forge(tx, settled))
        assert (await terminal.types("audit", "export", str(export[1]))).status == 0
        known = Known(
            envelopes=envelopes,
            receipts=[await hub.ended(wanted)],
            hub_key=hub.keys.hub.public,
            keys=[hub.keys.desk.public, hub.keys.night.public],
        )
        lines, forged = (file.read_bytes().splitlines() for file in export)
        evidence = json.loads(encode(collected(known, lines)))
        return Case(known, lines, forged, evidence, await hub.ended(earlier))


async def has_ended(hub: Hub, command: Command) -> None:
    """Wait for a command's end."""
    async with asyncio.timeout(DEADLINE):
        while await hub.receipt(command) is None:
            await hub.breathes()


def forge(tx: Transaction, number: int) -> None:
    """Edit a row and make all hashes from it on anew, as somebody does who has the database."""
    [(_, last)] = audit.rows(tx, after=number - 2, most=1)
    tx.execute("UPDATE audit SET actor = 'nobody' WHERE number = ?", (number,))
    for row, _ in audit.rows(tx, after=number - 1, most=100_000):
        last = next_hash(last, row)
        tx.execute("UPDATE audit SET hash = ? WHERE number = ?", (last, row.number))


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A command that has ended."""
    return asyncio.run(worked(tmp_path_factory.mktemp("evidence")))


def by_the_document(folder: Path, evidence: Json, hub_key: bytes) -> subprocess.CompletedProcess[str]:
    """Check a file by typing the lines of the document."""
    empty = folder / "empty"
    empty.mkdir()
    (folder / "evidence.json").write_text(json.dumps(evidence), "utf-8")
    environment = {
        "PATH": "/usr/bin:/bin",
        "LC_ALL": "C",
        "FILE": str(folder / "evidence.json"),
        "HUB_KEY": hub_key.hex(),
    }
    return subprocess.run(
        ["/bin/bash", "-c", LINES], cwd=empty, env=environment, capture_output=True, text=True, check=False
    )


def read(evidence: Json) -> Evidence:
    return decode(Evidence, json.dumps(evidence).encode(), limit=EVIDENCE_BYTES)


def payload_changed(envelope: Json) -> None:
    """Change one byte of what was signed, so that it still reads."""
    changed = (
        b64decode(envelope["payload"])
        .replace(b'"finished_at":"2', b'"finished_at":"1')
        .replace(b'"at":"2', b'"at":"1')
        .replace(b'"issued_at":"2', b'"issued_at":"1')
    )
    envelope["payload"] = b64encode(changed).decode()


def signature_changed(envelope: Json) -> None:
    raw = bytearray(b64decode(envelope["signatures"][0]["sig"]))
    raw[7] ^= 1
    envelope["signatures"][0]["sig"] = b64encode(raw).decode()


@pytest.mark.slow
def test_the_lines_of_the_document_and_we_find_good_evidence_good(case: Case, tmp_path: Path) -> None:
    proven = checked(read(case.evidence), case.hub_key)
    said = by_the_document(tmp_path, case.evidence, case.hub_key)

    [receipt] = proven.receipts
    assert receipt.outcome is Outcome.SUCCEEDED
    assert (len(proven.signers), proven.unknown) == (2, ())
    assert proven.rows == len(case.evidence["trail"]["rows"]) > 3
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.count("Signature Verified Successfully") == 4


Spoiling = Callable[[Json, Case], object]

SPOILINGS: Final[dict[str, Spoiling]] = {
    "a changed byte of the command": lambda e, _: payload_changed(e["envelope"]),
    "a changed byte of the receipt": lambda e, _: payload_changed(e["receipts"][0]),
    "a changed byte of the checkpoint": lambda e, _: payload_changed(e["checkpoint"]),
    "a changed signature of the issuer": lambda e, _: signature_changed(e["envelope"]),
    "a changed signature of the hub": lambda e, _: signature_changed(e["receipts"][0]),
    "a changed byte of a row": lambda e, _: e["trail"]["rows"][1].__setitem__(5, "nobody"),
    "a changed number of a row": lambda e, _: e["trail"]["rows"][1].__setitem__(0, 999),
    "a changed basis": lambda e, _: e["trail"]["basis"].__setitem__("hash", "0" * 64),
    "the first row dropped": lambda e, _: e["trail"]["rows"].pop(0),
    "a row dropped": lambda e, _: e["trail"]["rows"].pop(1),
    "the last row dropped": lambda e, _: e["trail"]["rows"].pop(),
    "rows swapped": lambda e, _: e["trail"]["rows"].insert(1, e["trail"]["rows"].pop(2)),
    "a row too many": lambda e, _: e["trail"]["rows"].append(e["trail"]["rows"][-1]),
    "another key slipped in": lambda e, _: e["keys"].update(
        dict.fromkeys(e["keys"], MemoryKey().public.hex())
    ),
    "the receipt of another command": lambda e, case: e["receipts"].__setitem__(0, as_json(case.other)),
    "another hub's receipt": lambda e, case: e["receipts"].__setitem__(
        0, as_json(signed_receipt(case.known.receipts[0].model_copy(update={"proof": None}), MemoryKey()))
    ),
    "a checkpoint in the receipt's place": lambda e, _: e["receipts"].__setitem__(0, e["checkpoint"]),
    "a command without its issuer": lambda e, _: e.__setitem__("envelope", resigned(e)),
    "another command's id": lambda e, _: e.__setitem__("command", "command-1"),
    "another hub's key": lambda e, _: e.__setitem__("hub_key", MemoryKey().public.hex()),
}


def as_json(receipt: Receipt) -> Json:
    assert receipt.proof is not None
    value: Json = json.loads(encode(receipt.proof))
    return value


def resigned(evidence: Json) -> Json:
    """The same command, signed by somebody who has nothing to say."""
    somebody = MemoryKey()
    evidence["keys"][somebody.id] = somebody.public.hex()
    value: Json = json.loads(sign(b64decode(evidence["envelope"]["payload"]), COMMAND_TYPE, [somebody]))
    return value


@pytest.mark.slow
@pytest.mark.parametrize("spoil", SPOILINGS.values(), ids=SPOILINGS)
def test_what_was_changed_is_refused_by_the_lines_and_by_us(
    case: Case, tmp_path: Path, spoil: Spoiling
) -> None:
    spoilt = deepcopy(case.evidence)
    spoil(spoilt, case)
    assert spoilt != case.evidence

    with pytest.raises(RejectedError):
        checked(read(spoilt), case.hub_key)
    assert by_the_document(tmp_path, spoilt, case.hub_key).returncode != 0


@pytest.mark.slow
def test_a_file_that_another_hub_has_made_up_is_one_with_itself_only(case: Case, tmp_path: Path) -> None:
    liar = MemoryKey()
    lie = signed_receipt(case.known.receipts[0].model_copy(update={"proof": None}), liar)
    made_up = read(case.evidence).model_copy(
        update={"hub_key": liar.public.hex(), "receipts": [lie.proof], "trail": None, "checkpoint": None}
    )

    assert checked(made_up).rows == 0
    with pytest.raises(RejectedError, match="not the one that is known"):
        checked(made_up, case.hub_key)
    assert by_the_document(tmp_path, json.loads(encode(made_up)), case.hub_key).returncode != 0


def test_a_row_that_was_forged_in_the_database_fits_no_receipt(case: Case) -> None:
    with pytest.raises(RejectedError, match="not the one that the receipt names"):
        collected(case.known, case.forged)


def test_an_export_that_was_edited_cut_or_is_none_gives_no_evidence(case: Case) -> None:
    rows = [line for line in case.export if line.startswith(b'{"row"')]
    for export in (
        [line for line in case.export if line != rows[-2]],
        [line.replace(b"uid:0 root", b"uid:1 root") for line in case.export],
        [line for line in case.export if b'"checkpoint"' not in line],
        case.export[:5],
        [],
        [b"{}"],
        [b"not json"],
        case.export[1:],
    ):
        with pytest.raises(RejectedError):
            collected(case.known, export)


def test_without_receipt_or_with_an_unsigned_one_there_is_no_evidence(case: Case) -> None:
    unsigned = [each.model_copy(update={"proof": None}) for each in case.known.receipts]
    for known in (
        replace(case.known, receipts=[]),
        replace(case.known, envelopes=[]),
        replace(case.known, receipts=unsigned),
        replace(case.known, hub_key=MemoryKey().public),
    ):
        with pytest.raises(RejectedError):
            collected(known, case.export)


def test_evidence_without_export_or_keys_says_what_it_does_not_prove(case: Case, tmp_path: Path) -> None:
    file = tmp_path / "evidence.json"
    file.write_bytes(encode(collected(replace(case.known, keys=[]), None)))

    said = typed("issuer", "prove-check", str(file))

    assert said.status == 0
    assert said.out.count("unchecked") == 3
    assert "audit rows 0" in said.out


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff", b'{"type":"evidence"}'])
def test_what_is_no_evidence_proves_nothing(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "evidence.json"
    file.write_bytes(content)

    said = typed("issuer", "prove-check", str(file), "--hub-key", "00" * 32)

    assert (said.status, said.out) == (1, "")
    assert typed("issuer", "prove-check", str(tmp_path / "none")).status == 1


@pytest.mark.slow
def test_from_a_running_hub_to_evidence_that_a_third_party_checks(tmp_path: Path) -> None:
    with Venue(tmp_path) as venue:
        venue.open()
        order = venue.order(venue.devices[0], ActionName.POWER, {"on": True})
        venue.end_of(order)
        export, out, token, key = (
            tmp_path / name for name in ("trail.jsonl", "evidence.json", "token", "desk.pub")
        )
        assert venue.agent.run("audit", "export", str(export)).returncode == 0
        write_private(token, venue.server.issuer_token)
        save_public_key(venue.keys.desk.public, key)
        login = ("--queue", venue.server.url, "--token-file", str(token))

        hub = typed("issuer", "hub", "show", HUB, *login)
        said = typed(
            "issuer", "prove", HUB, order.command.id, *login, "--audit", str(export), "--key", str(key),
            "--out", str(out),
        )  # fmt: skip
        again = typed("issuer", "prove", HUB, order.command.id, *login, "--out", str(out))
        none = typed("issuer", "prove", HUB, "c-unheard-of", *login)
        head = re.search(r"audit +(\d+-[0-9a-f]{64}), 0 forks", hub.out)
        assert head is not None, hub.out
        verified = venue.agent.run("audit", "verify", "--head", head[1])
        assert venue.agent.stop() == 0
        alone = venue.agent.run("audit", "verify", "--head", head[1])

    assert (said.status, said.err) == (0, "")
    assert (again.status, none.status) == (1, 1)
    hub_key = re.search(r"key +([0-9a-f]{64})", hub.out)
    assert hub_key is not None
    checked_by_us = typed("issuer", "prove-check", str(out), "--hub-key", hub_key[1])
    assert (checked_by_us.status, checked_by_us.err) == (0, "")
    assert "unchecked" not in checked_by_us.out
    evidence = json.loads(out.read_bytes())
    assert by_the_document(tmp_path, evidence, bytes.fromhex(hub_key[1])).returncode == 0
    assert (verified.returncode, alone.returncode) == (0, 0), verified.stderr + alone.stderr
    # The orderly stop has signed the trail's last row.
    assert re.search(r"whole: (\d+) rows, 2 checkpoints\n", alone.stdout), alone.stdout
