"""What a hub signs of itself: receipts and checkpoints.

    statement ──encode──> bytes ──DSSE, the hub's key──> proof
    told = the statement, readable, with its proof beside it

Whoever reads what was told need not believe it: ``told_receipt`` and ``told_checkpoint`` verify the proof
and hold what is told against what was signed (SPEC A3, A4).
"""

from typing import Final, TypeVar

from edgeagent.contracts.checkpoint import CHECKPOINT_BYTES, CHECKPOINT_TYPE, Checkpoint
from edgeagent.contracts.door import Contract, decode, encode
from edgeagent.contracts.envelope import Envelope
from edgeagent.contracts.policy import id_of_key
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import RECEIPT_BYTES, RECEIPT_TYPE, Receipt
from edgeagent.core.envelope import RefusedEnvelopeError, Signer, sign, verify

C = TypeVar("C", bound=Contract)
_UNSIGNED: Final = "it carries no proof"
_DIFFERS: Final = "what is told is not what was signed"


def signed_receipt(receipt: Receipt, key: Signer) -> Receipt:
    """A receipt with the proof of the hub whose key this is."""
    return receipt.model_copy(update={"proof": _proof(receipt, RECEIPT_TYPE, key)})


def receipt_bytes(receipt: Receipt, key: Signer) -> bytes:
    """``signed_receipt``, as it is told: the bytes that are signed are those that are told, written once.

    Raises:
        ValueError: it has a proof already.
    """
    if receipt.proof is not None:
        raise ValueError("a receipt is signed without its proof")
    statement = encode(receipt)
    # The proof is its last field, and an envelope is written as a contract is: compact, in the same order.
    return b"".join((statement[:-1], b',"proof":', sign(statement, RECEIPT_TYPE, [key]), b"}"))


def signed_checkpoint(checkpoint: Checkpoint, key: Signer) -> Checkpoint:
    """A checkpoint with the proof of the hub whose key this is."""
    return checkpoint.model_copy(update={"proof": _proof(checkpoint, CHECKPOINT_TYPE, key)})


def verified_receipt(envelope: bytes, hub_key: bytes) -> Receipt:
    """Open the proof of a receipt.

    Args:
        envelope: the DSSE envelope.
        hub_key: the 32 raw bytes of the public key that the hub is known to have.

    Raises:
        RefusedEnvelopeError: too large, malformed, of another kind, or not signed by that key.
        MalformedError: the hub has signed what is no receipt.
    """
    return _opened(Receipt, envelope, hub_key, RECEIPT_TYPE, RECEIPT_BYTES)


def verified_checkpoint(envelope: bytes, hub_key: bytes) -> Checkpoint:
    """Open the proof of a checkpoint. Arguments and errors as of ``verified_receipt``."""
    return _opened(Checkpoint, envelope, hub_key, CHECKPOINT_TYPE, CHECKPOINT_BYTES)


def told_receipt(told: Receipt, hub_key: bytes) -> Receipt:
    """A receipt as its hub has signed it, if that is what was told.

    Raises:
        RefusedEnvelopeError: it carries no proof, one that proves nothing, or one of something else.
        MalformedError: the hub has signed what is no receipt.
    """
    signed = verified_receipt(_envelope(told.proof), hub_key)
    if signed != told.model_copy(update={"proof": None}):
        raise RefusedEnvelopeError(Reason.BAD_SIGNATURE, _DIFFERS)
    return signed


def told_checkpoint(told: Checkpoint, hub_key: bytes) -> Checkpoint:
    """A checkpoint as its hub has signed it, if that is what was told. Raises as ``told_receipt``."""
    signed = verified_checkpoint(_envelope(told.proof), hub_key)
    if signed != told.model_copy(update={"proof": None}):
        raise RefusedEnvelopeError(Reason.BAD_SIGNATURE, _DIFFERS)
    return signed


def _proof(statement: Contract, payload_type: str, key: Signer) -> Envelope:
    envelope = sign(encode(statement), payload_type, [key])
    return decode(Envelope, envelope, limit=len(envelope))


def _envelope(proof: Envelope | None) -> bytes:
    if proof is None:
        raise RefusedEnvelopeError(Reason.BAD_SIGNATURE, _UNSIGNED)
    return encode(proof)


def _opened(contract: type[C], envelope: bytes, hub_key: bytes, payload_type: str, limit: int) -> C:
    verified = verify(envelope, {id_of_key(hub_key): hub_key}, payload_type, limit=limit)
    return decode(contract, verified.payload, limit=limit)
