"""Signing orders to a hub itself: stop a kind of command, or take that back (SPEC B3).

An order is sent through the same queue as a command, and ends with an event that names it.
"""

import secrets
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

from pydantic import ValidationError

from edgeagent.clock import EPOCH, Clock
from edgeagent.contracts.door import encode, faults
from edgeagent.contracts.envelope import MOST_SIGNATURES
from edgeagent.contracts.order import ORDER_BYTES, ORDER_TYPE, Order, Verb
from edgeagent.core.envelope import Signer, sign
from edgeagent.core.freshness import CHANCE_BITS
from edgeagent.errors import MalformedError, RejectedError
from edgeagent.ids import CommandId, Epoch, HubId
from edgeagent.values import dataclass

_ID_BITS: Final = 64
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a hub is to stop or resume.

    Attributes:
        hub: which hub.
        epoch: the life of its database, as its newest hello says.
        verb: stop or resume.
        kind: ``all``, ``tier:high``, ``action:power``.
        why: for people.
        valid_for: from now on, for how long it is obeyed.
    """

    hub: HubId
    epoch: Epoch
    verb: Verb
    kind: str
    why: str = ""
    valid_for: timedelta = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class SignedOrder:
    """An order with the bytes that are sent."""

    order: Order
    envelope: bytes


def sign_order(
    wish: Wish,
    signers: Sequence[Signer],
    clock: Clock,
    *,
    random_bits: Callable[[int], int] = secrets.randbits,
) -> SignedOrder:
    """Make an order and sign it with every key.

    Raises:
        MalformedError: no such kind, or a text too long.
        RejectedError: no key, or more than an envelope may carry.
    """
    if not 0 < len(signers) <= MOST_SIGNATURES:
        raise RejectedError(f"an order has 1 to {MOST_SIGNATURES} signatures")
    now = clock.wall().best
    milliseconds = (now - EPOCH) // _MILLISECOND
    try:
        order = Order(
            id=CommandId(f"{milliseconds:012x}-{random_bits(_ID_BITS):016x}"),
            hub=wish.hub,
            epoch=wish.epoch,
            verb=wish.verb,
            kind=wish.kind,
            why=wish.why,
            sequence=milliseconds << CHANCE_BITS | random_bits(CHANCE_BITS),
            issued_at=now,
            expires_at=now + wish.valid_for,
        )
    except ValidationError as why:
        raise MalformedError(faults(why)) from why
    except OverflowError as why:
        raise MalformedError("it would be valid beyond the end of the calendar") from why
    envelope = sign(encode(order), ORDER_TYPE, signers)
    if len(envelope) > ORDER_BYTES:
        raise MalformedError(f"the order has {len(envelope)} bytes, of which {ORDER_BYTES} are allowed")
    return SignedOrder(order, envelope)
