"""What a hub signs of itself: receipts and checkpoints."""

from datetime import UTC, datetime

import pytest

from edgeagent.clock import ClockSource
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.checkpoint import Checkpoint
from edgeagent.contracts.door import encode
from edgeagent.contracts.receipt import AuditMark, Outcome, Receipt
from edgeagent.core.envelope import RefusedEnvelopeError
from edgeagent.core.evidence import (
    receipt_bytes,
    signed_checkpoint,
    signed_receipt,
    told_checkpoint,
    told_receipt,
    verified_checkpoint,
    verified_receipt,
)
from edgeagent.ids import command_id, device_id, digest, epoch, hub_id, key_id
from tests.support.keys import MemoryKey

OURS, ANOTHERS = MemoryKey(), MemoryKey()
NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
MARK = AuditMark(number=9, hash=digest("9f" * 32))
RECEIPT = Receipt(
    hub=hub_id("venue-7"),
    epoch=epoch("0" * 20),
    command=command_id("c1"),
    payload_sha256=digest("aa" * 32),
    issuer=key_id("bb" * 32),
    device=device_id("tv-1"),
    action=ActionName.POWER,
    run=1,
    outcome=Outcome.SUCCEEDED,
    attempts=1,
    fence=3,
    finished_at=NOON,
    clock=ClockSource.KERNEL,
    audit=MARK,
)
CHECKPOINT = Checkpoint(
    hub=hub_id("venue-7"), epoch=epoch("0" * 20), audit=MARK, at=NOON, clock=ClockSource.KERNEL
)


def proof_of(told: Receipt | Checkpoint) -> bytes:
    assert told.proof is not None
    return encode(told.proof)


@pytest.mark.requirement("A4")
def test_a_signed_receipt_reads_as_before_and_proves_all_of_it() -> None:
    told = signed_receipt(RECEIPT, OURS)

    assert told.model_copy(update={"proof": None}) == RECEIPT
    assert told_receipt(told, OURS.public) == verified_receipt(proof_of(told), OURS.public) == RECEIPT


@pytest.mark.requirement("A4")
def test_the_same_receipt_is_signed_with_the_same_bytes() -> None:
    assert encode(signed_receipt(RECEIPT, OURS)) == encode(signed_receipt(RECEIPT, OURS))


@pytest.mark.requirement("A4")
def test_a_receipt_is_told_with_the_very_bytes_that_were_signed() -> None:
    told = receipt_bytes(RECEIPT, OURS)

    assert told == encode(signed_receipt(RECEIPT, OURS))
    with pytest.raises(ValueError, match="without its proof"):
        receipt_bytes(signed_receipt(RECEIPT, OURS), OURS)


@pytest.mark.requirement("A4")
@pytest.mark.parametrize(
    "change",
    [
        {"outcome": Outcome.FAILED},
        {"hub": hub_id("venue-8")},
        {"fence": 4},
        {"audit": AuditMark(number=10, hash=MARK.hash)},
        {"detail": "fine"},
    ],
    ids=str,
)
def test_a_receipt_that_tells_something_else_than_was_signed_is_refused(change: dict[str, object]) -> None:
    told = signed_receipt(RECEIPT, OURS).model_copy(update=change)

    with pytest.raises(RefusedEnvelopeError, match="not what was signed"):
        told_receipt(told, OURS.public)


@pytest.mark.requirement("A4")
def test_another_hubs_receipt_and_one_without_proof_are_refused() -> None:
    with pytest.raises(RefusedEnvelopeError, match="no signature"):
        told_receipt(signed_receipt(RECEIPT, ANOTHERS), OURS.public)
    with pytest.raises(RefusedEnvelopeError, match="no proof"):
        told_receipt(RECEIPT, OURS.public)


@pytest.mark.requirement("A3")
def test_a_checkpoint_proves_its_row_and_nothing_else() -> None:
    told = signed_checkpoint(CHECKPOINT, OURS)

    assert (
        told_checkpoint(told, OURS.public) == verified_checkpoint(proof_of(told), OURS.public) == CHECKPOINT
    )
    with pytest.raises(RefusedEnvelopeError, match="not what was signed"):
        told_checkpoint(told.model_copy(update={"epoch": epoch("1" * 20)}), OURS.public)


@pytest.mark.requirement("A3", "A4")
def test_a_checkpoint_is_no_receipt_and_a_receipt_no_checkpoint() -> None:
    receipt, checkpoint = signed_receipt(RECEIPT, OURS), signed_checkpoint(CHECKPOINT, OURS)

    with pytest.raises(RefusedEnvelopeError, match="another kind"):
        verified_receipt(proof_of(checkpoint), OURS.public)
    with pytest.raises(RefusedEnvelopeError, match="another kind"):
        verified_checkpoint(proof_of(receipt), OURS.public)


@pytest.mark.requirement("A4")
def test_every_changed_byte_of_the_signed_receipt_is_noticed() -> None:
    told = signed_receipt(RECEIPT, OURS)
    assert told.proof is not None
    payload = told.proof.payload

    for place in range(len(payload)):
        spoilt = payload[:place] + bytes([payload[place] ^ 1]) + payload[place + 1 :]
        with pytest.raises(RefusedEnvelopeError):
            verified_receipt(encode(told.proof.model_copy(update={"payload": spoilt})), OURS.public)
