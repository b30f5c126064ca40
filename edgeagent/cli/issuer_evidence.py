"""``edgeagent issuer hub show | prove | prove-check``: what is known of a hub, and what can be proved."""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from edgeagent.cli.issuer_asking import add_login, client_of, finished
from edgeagent.cli.issuer_claim import add_hub_revoke
from edgeagent.cli.printing import safe, show_json
from edgeagent.cli.words import Nouns
from edgeagent.contracts.door import decode, encode
from edgeagent.contracts.event import EventType
from edgeagent.contracts.receipt import Receipt
from edgeagent.errors import RejectedError
from edgeagent.ids import command_id, hub_id

if TYPE_CHECKING:
    from edgeagent.issuer.evidence import Evidence
    from edgeagent.issuer.wire import HubStatus


def add_evidence(verbs: Nouns) -> None:
    """Add the words about what a hub has told and signed."""
    hubs = verbs.add_parser("hub", help="what the queue knows of hubs").add_subparsers(
        required=True, metavar="VERB"
    )
    show = hubs.add_parser("show", help="a hub's epoch, key and audit head")
    show.add_argument("hub", type=hub_id, metavar="HUB")
    add_login(show, required=True)
    show.set_defaults(handler=_show)
    add_hub_revoke(hubs)
    prove = verbs.add_parser(
        "prove",
        help="put all evidence of a command into one file",
        description="Put all evidence of a command into one file, which docs/evidence.md says how to check.",
    )
    prove.add_argument("hub", type=hub_id, metavar="HUB")
    prove.add_argument("command", type=command_id, metavar="COMMAND")
    prove.add_argument(
        "--audit", type=Path, metavar="EXPORT.jsonl", help="of the hub, made by edgeagent audit export"
    )
    prove.add_argument(
        "--key", type=Path, action="append", default=[], metavar="FILE.pub", help="of who signed it"
    )
    prove.add_argument("--out", type=Path, metavar="FILE", help="a new file; printed if absent")
    add_login(prove, required=True)
    prove.set_defaults(handler=_prove)
    check = verbs.add_parser("prove-check", help="check a file of evidence; exit 1 if it proves nothing")
    check.add_argument("file", type=Path, metavar="FILE")
    check.add_argument("--hub-key", type=bytes.fromhex, metavar="HEX", help="known from elsewhere")
    check.set_defaults(handler=_check)


def _show(arguments: argparse.Namespace) -> int:
    async def ask() -> "HubStatus":
        async with client_of(arguments) as client:
            return await client.hub(arguments.hub)

    status = finished(ask())
    if arguments.json:
        show_json(status)
        return 0
    key = None if status.hello is None else status.hello.data.get("key")
    print(f"hub      {status.hub}")
    print(f"epoch    {status.epoch or 'unknown: it has not said hello'}")
    print(f"key      {safe(str(key or 'unknown'))}")
    if status.audit is not None:
        print(f"audit    {status.audit.number}-{status.audit.hash}, {status.audit.forks} forks")
    print(f"waiting  {status.waiting}")
    return 0


def _prove(arguments: argparse.Namespace) -> int:
    from edgeagent.issuer.evidence import Known, collected
    from edgeagent.issuer.keys import load_public_key

    async def ask() -> Known:
        async with client_of(arguments) as client:
            status = await client.status(arguments.hub, arguments.command)
            receipts = [
                Receipt.model_validate(event.data)
                for event in status.results
                if event.type is EventType.RECEIPT
            ]
            hub = await client.hub(arguments.hub)
            key = "" if hub.hello is None else str(hub.hello.data.get("key", ""))
            return Known(
                envelopes=await client.envelopes(arguments.hub, arguments.command),
                receipts=receipts,
                hub_key=bytes.fromhex(key),
                keys=[load_public_key(file) for file in arguments.key],
            )

    known = finished(ask())
    evidence = collected(known, None if arguments.audit is None else _lines(arguments.audit))
    if arguments.out is None:
        print(encode(evidence).decode())
        return 0
    _write_new(arguments.out, encode(evidence) + b"\n")
    _tell(arguments, evidence)
    return 0


def _tell(arguments: argparse.Namespace, evidence: "Evidence") -> None:
    rows = 0 if evidence.trail is None else len(evidence.trail.rows)
    missing = {each.keyid for each in evidence.envelope.signatures} - set(evidence.keys)
    if arguments.json:
        facts: dict[str, JsonValue] = {"receipts": len(evidence.receipts), "rows": rows}
        show_json(facts | {"missing_keys": [*sorted(missing)], "file": str(arguments.out)})
        return
    print(f"receipts   {len(evidence.receipts)}, signed by the hub")
    print(f"audit rows {rows or 'none: no export was given'}")
    for name in sorted(missing):
        print(f"not there  the public key {name}; give it with --key")


def _check(arguments: argparse.Namespace) -> int:
    from edgeagent.issuer.evidence import EVIDENCE_BYTES, Evidence, checked

    try:
        with arguments.file.open("rb") as file:
            raw = file.read(EVIDENCE_BYTES + 1)
    except OSError as why:
        raise RejectedError(f"cannot read {arguments.file}: {why.strerror}") from why
    proven = checked(decode(Evidence, raw, limit=EVIDENCE_BYTES), arguments.hub_key)
    if arguments.json:
        receipts: list[JsonValue] = [each.model_dump(mode="json") for each in proven.receipts]
        facts: dict[str, JsonValue] = {"receipts": receipts, "rows": proven.rows}
        names: dict[str, JsonValue] = {"signers": [*proven.signers], "unchecked": [*proven.unknown]}
        show_json(facts | names | {"hub_key_checked": arguments.hub_key is not None})
        return 0
    for receipt in proven.receipts:
        print(f"{receipt.command} {receipt.device} {receipt.action}: {receipt.outcome}")
    for name in proven.signers:
        print(f"signed by  {name}")
    for name in proven.unknown:
        print(f"unchecked  the signature of {name}: its public key is not in the file")
    print(f"audit rows {proven.rows}")
    if arguments.hub_key is None:
        print("unchecked  the hub's key: name the one that you know with --hub-key")
    return 0


def _lines(file: Path) -> Iterator[bytes]:
    """The lines of a file; one that has no end is cut and so refused."""
    from edgeagent.issuer.evidence import LINE_BYTES

    try:
        with file.open("rb") as opened:
            while line := opened.readline(LINE_BYTES + 2):
                yield line.rstrip(b"\n")
    except OSError as why:
        raise RejectedError(f"cannot read {file}: {why.strerror}") from why


def _write_new(file: Path, content: bytes) -> None:
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "wb") as opened:
            opened.write(content)
    except OSError as why:
        raise RejectedError(f"cannot make {file}: {why.strerror}") from why
