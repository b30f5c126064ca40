"""One file from which a third party can check what became of a command (SPEC A4; ``docs/evidence.md``).

    the queue ──command with all its signatures, receipts, the hub's key──┐
                                                                          ├──> evidence ──> checked
    the hub ──audit export: rows, signed heads────────────────────────────┘

Whoever checks it has to know one thing from elsewhere: the hub's public key.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Annotated, Final, Literal

from pydantic import Field

from edgeagent.contracts.checkpoint import Checkpoint
from edgeagent.contracts.command import COMMAND_BYTES, COMMAND_TYPE, Command
from edgeagent.contracts.door import Contract, decode, encode
from edgeagent.contracts.envelope import Envelope
from edgeagent.contracts.policy import id_of_key
from edgeagent.contracts.receipt import AuditMark, Receipt
from edgeagent.contracts.reports.audit import ExportReport
from edgeagent.contracts.scalars import (
    CommandIdField,
    DigestField,
    EpochField,
    HubIdField,
    KeyIdField,
    PublicKeyHex,
)
from edgeagent.core.audit_chain import AuditRow, next_hash
from edgeagent.core.envelope import digest_of, merged, verify
from edgeagent.core.evidence import told_receipt, verified_checkpoint, verified_receipt
from edgeagent.errors import MalformedError, RejectedError
from edgeagent.ids import CommandId, Digest, KeyId
from edgeagent.values import dataclass

EVIDENCE_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of a file of evidence."""
LINE_BYTES: Final = 64 * 1024
"""The most bytes of a line of an audit export."""
_FIELDS: Final = 7

RowFields = Annotated[list[int | str], Field(min_length=_FIELDS, max_length=_FIELDS)]
"""A row of the trail: number, time, clock, kind, subject, actor, detail. Its bytes as compact JSON are
what its hash covers."""


class Trail(Contract):
    """Rows of an audit trail, without a hole.

    Attributes:
        basis: the row before the first.
        rows: from the command's first to that of the checkpoint.
    """

    basis: AuditMark
    rows: Annotated[list[RowFields], Field(min_length=1)]


class Evidence(Contract):
    """What is known of a command.

    Attributes:
        hub: who worked it.
        epoch: the life of its database.
        command: its id.
        hub_key: the public key that the hub said hello with. To be held against one known from elsewhere.
        keys: public keys of those who signed the command, by their id, as far as they were given.
        envelope: the command, with the signatures of its issuer and of those who approved it.
        receipts: the proof of each receipt; one for each device.
        trail: the rows of the hub's audit trail; absent where no export was given.
        checkpoint: the proof of the signed head that the rows end with.
    """

    type: Literal["evidence"] = "evidence"
    hub: HubIdField
    epoch: EpochField
    command: CommandIdField
    hub_key: PublicKeyHex
    keys: dict[KeyIdField, PublicKeyHex]
    envelope: Envelope
    receipts: Annotated[list[Envelope], Field(min_length=1)]
    trail: Trail | None = None
    checkpoint: Envelope | None = None


class ExportLine(Contract):
    """A line of an audit export: whose trail it is, a row with its hash, or a signed head."""

    trail: ExportReport | None = None
    row: RowFields | None = None
    hash: DigestField | None = None
    checkpoint: Checkpoint | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """What the queue knows of a command.

    Attributes:
        envelopes: each as it was sent; the same payload with different signatures.
        receipts: as the hub told them.
        hub_key: the raw public key that the hub said hello with.
        keys: raw public keys of possible signers.
    """

    envelopes: Sequence[bytes]
    receipts: Sequence[Receipt]
    hub_key: bytes
    keys: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Proven:
    """What a file of evidence proves.

    Attributes:
        receipts: what the hub has signed of the command, in the file's order.
        signers: the keys that are known to have signed the command.
        unknown: ids of keys whose signature could not be checked: their public half is not in the file.
        rows: how many rows of the trail lead from the command to the signed head.
    """

    receipts: list[Receipt]
    signers: tuple[KeyId, ...]
    unknown: tuple[KeyId, ...]
    rows: int


def collected(known: Known, export: Iterable[bytes] | None) -> Evidence:
    """Put the evidence of a command together, and check it.

    Args:
        known: what the queue says.
        export: the lines of an audit export of the hub.

    Raises:
        RejectedError: something does not fit, or the export does not reach far enough.
    """
    if not known.envelopes or not known.receipts:
        raise RejectedError("there is no command, or it has no receipt yet")
    envelope = known.envelopes[0]
    for other in known.envelopes[1:]:
        envelope = merged(envelope, other)
    receipts = [told_receipt(each, known.hub_key) for each in known.receipts]
    first = receipts[0]
    trail, checkpoint = None, None
    if export is not None:
        marks = [receipt.audit for receipt in receipts]
        trail, checkpoint = _part_of(export, first.command, marks)
    evidence = Evidence(
        hub=first.hub,
        epoch=first.epoch,
        command=first.command,
        hub_key=known.hub_key.hex(),
        keys={id_of_key(key): key.hex() for key in known.keys},
        envelope=decode(Envelope, envelope, limit=len(envelope)),
        receipts=[each.proof for each in known.receipts if each.proof is not None],
        trail=trail,
        checkpoint=checkpoint,
    )
    checked(evidence)
    return evidence


def checked(evidence: Evidence, hub_key: bytes | None = None) -> Proven:
    """Check a file of evidence, as ``docs/evidence.md`` does with other tools.

    Args:
        evidence: the file.
        hub_key: the hub's public key, known from elsewhere. Without it the file is only one with itself.

    Raises:
        RejectedError: the first thing that does not fit.
    """
    key = bytes.fromhex(evidence.hub_key)
    if hub_key is not None and hub_key != key:
        raise RejectedError("the hub's key in the file is not the one that is known")
    signers, unknown = _signers(evidence)
    receipts = [verified_receipt(encode(proof), key) for proof in evidence.receipts]
    payload = digest_of(evidence.envelope.payload)
    for receipt in receipts:
        about = (receipt.hub, receipt.epoch, receipt.command, receipt.payload_sha256)
        if about != (evidence.hub, evidence.epoch, evidence.command, payload):
            raise RejectedError("a receipt is about another command")
        if receipt.issuer not in {*signers, *unknown}:
            raise RejectedError("the issuer that a receipt names has not signed the command")
    rows = 0
    if (evidence.trail is None) != (evidence.checkpoint is None):
        raise RejectedError("rows and the signed head that they end with belong together")
    if evidence.trail is not None and evidence.checkpoint is not None:
        head = verified_checkpoint(encode(evidence.checkpoint), key)
        if head.hub != evidence.hub:
            raise RejectedError("the signed head is of another hub")
        _follow(evidence.trail, evidence.command, receipts, head.audit)
        rows = len(evidence.trail.rows)
    return Proven(receipts, signers, unknown, rows)


def _signers(evidence: Evidence) -> tuple[tuple[KeyId, ...], tuple[KeyId, ...]]:
    """Who has certainly signed the command, and whose signature cannot be checked."""
    command = decode(Command, evidence.envelope.payload, limit=COMMAND_BYTES)
    if (command.hub, command.epoch, command.id) != (evidence.hub, evidence.epoch, evidence.command):
        raise RejectedError("the signed command is another one")
    keyring: Mapping[KeyId, bytes] = {name: bytes.fromhex(raw) for name, raw in evidence.keys.items()}
    names = tuple(dict.fromkeys(each.keyid for each in evidence.envelope.signatures))
    unknown = tuple(name for name in names if name not in keyring)
    if len(unknown) == len(names):
        return (), unknown
    signers = verify(encode(evidence.envelope), keyring, COMMAND_TYPE, limit=COMMAND_BYTES).signers
    if {*signers, *unknown} != set(names):
        raise RejectedError("a signature under the command does not verify")
    return signers, unknown


def _follow(trail: Trail, command: CommandId, receipts: Sequence[Receipt], head: AuditMark) -> None:
    """Follow the rows to the signed head, past the row of each receipt."""
    wanted = {receipt.audit.number: receipt.audit.hash for receipt in receipts}
    number, last = trail.basis.number, bytes.fromhex(trail.basis.hash)
    for fields in trail.rows:
        row = row_of(fields)
        if row.number != number + 1:
            raise RejectedError(f"row {number + 1} of the trail is missing")
        number, last = row.number, next_hash(last, row)
        expected = wanted.pop(number, None)
        if expected is not None and (expected != last.hex() or row.subject != command):
            raise RejectedError(f"row {number} of the trail is not the one that the receipt names")
    if wanted:
        raise RejectedError(f"row {min(wanted)} of the trail, which a receipt names, is not among the rows")
    if (number, last.hex()) != (head.number, head.hash):
        raise RejectedError("the rows do not end with the head that the hub has signed")


@dataclass(slots=True)
class _Gathering:
    """Rows of an export on their way into the evidence: from a command's first to a signed head."""

    basis: AuditMark | None = None
    last: AuditMark | None = None
    rows: list[RowFields] = field(default_factory=list)

    def take(self, fields: RowFields, told: Digest, command: CommandId) -> None:
        row = row_of(fields)
        if self.last is None or row.number != self.last.number + 1:
            raise RejectedError(f"the export has a hole before row {row.number}")
        computed = next_hash(bytes.fromhex(self.last.hash), row)
        if computed.hex() != told:
            raise RejectedError(f"row {row.number} of the export does not fit its hash")
        if not self.rows and row.subject == command:
            self.basis = self.last
        if self.basis is not None:
            self.rows.append(fields)
        self.last = AuditMark(number=row.number, hash=told)


def _part_of(
    export: Iterable[bytes], command: CommandId, marks: Sequence[AuditMark]
) -> tuple[Trail, Envelope]:
    """The rows of a command in an export, up to the first signed head after its receipts."""
    gathering = _Gathering()
    upto = max(mark.number for mark in marks)
    for raw in export:
        line = decode(ExportLine, raw, limit=LINE_BYTES)
        if line.trail is not None:
            gathering.last = line.trail.basis
        elif line.row is not None and line.hash is not None:
            gathering.take(line.row, line.hash, command)
        elif line.checkpoint is not None and line.checkpoint.proof is not None:
            if line.checkpoint.audit.number >= upto and gathering.basis is not None:
                return Trail(basis=gathering.basis, rows=gathering.rows), line.checkpoint.proof
        else:
            raise MalformedError("not a line of an audit export")
    raise RejectedError("the export does not reach from the command to a signed head after its receipt")


def row_of(fields: RowFields) -> AuditRow:
    """Read a row.

    Raises:
        MalformedError: a field has another type.
    """
    number, *texts = fields
    words = [text for text in texts if isinstance(text, str)]
    if not isinstance(number, int) or len(words) != len(texts):
        raise MalformedError("a row of the trail is a number and six texts")
    at, clock, kind, subject, actor, detail = words
    return AuditRow(number=number, at=at, clock=clock, kind=kind, subject=subject, actor=actor, detail=detail)
