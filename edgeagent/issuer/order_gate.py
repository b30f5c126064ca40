"""The producer's gate for orders: what can be known of one before it is queued.

As for commands: the hub judges everything again. Without a policy nobody's signature can be checked; then
the order's shape, address and time are.
"""

from dataclasses import dataclass

from edgeagent.clock import ClockSource, Wall
from edgeagent.contracts.door import decode
from edgeagent.contracts.envelope import Envelope
from edgeagent.contracts.order import ORDER_BYTES, ORDER_TYPE, Order
from edgeagent.contracts.policy import RoleKind
from edgeagent.contracts.reasons import Reason
from edgeagent.core.envelope import RefusedEnvelopeError, Verified, digest_of, verify
from edgeagent.core.gate.roles import keys_of
from edgeagent.core.gate.verdict import Refuse
from edgeagent.core.stops import OrderWorld, judge_order
from edgeagent.errors import MalformedError
from edgeagent.ids import Digest, Epoch, KeyId
from edgeagent.issuer.producer_gate import GateRefusedError, GateWorld


@dataclass(frozen=True, slots=True)
class PassedOrder:
    """An order that may be queued.

    Attributes:
        order: what it says.
        sha256: of its payload; its identity.
        signers: the keys that verified; none without a policy.
    """

    order: Order
    sha256: Digest
    signers: tuple[KeyId, ...]


def judge_raw_order(raw: bytes, world: GateWorld) -> PassedOrder:
    """Decide whether the envelope of an order may be queued for a hub.

    Raises:
        GateRefusedError: it may not.
    """
    verified = _verified(raw, world)
    origin = verified.signers[0] if verified.signers else None
    try:
        order = decode(Order, verified.payload, limit=ORDER_BYTES)
    except MalformedError as why:
        raise GateRefusedError(Reason.MALFORMED, str(why), origin=origin) from why
    refusal = _objection(order, verified, world)
    if refusal is not None:
        words = refusal.detail or refusal.reason.sentence
        raise GateRefusedError(refusal.reason, words, origin=origin, command=order.id)
    return PassedOrder(order, verified.sha256, verified.signers)


def _verified(raw: bytes, world: GateWorld) -> Verified:
    try:
        if world.policy is not None:
            return verify(raw, keys_of(world.policy, {RoleKind.STOP}), ORDER_TYPE, limit=ORDER_BYTES)
        envelope = decode(Envelope, raw, limit=ORDER_BYTES)
    except RefusedEnvelopeError as why:
        raise GateRefusedError(why.reason, str(why)) from why
    except MalformedError as why:
        raise GateRefusedError(Reason.MALFORMED, str(why)) from why
    return Verified(envelope.payload, digest_of(envelope.payload), ())


def _objection(order: Order, verified: Verified, world: GateWorld) -> Refuse | None:
    if order.hub != world.hub:
        return Refuse(Reason.WRONG_HUB, f"it is for {order.hub}")
    if world.epoch is None:
        return Refuse(Reason.WRONG_EPOCH, "the hub has not said hello yet")
    if order.epoch != world.epoch:
        return Refuse(Reason.WRONG_EPOCH, f"the hub's epoch is {world.epoch}")
    if order.expires_at <= world.now:
        return Refuse(Reason.EXPIRED, f"it expired at {order.expires_at:%Y-%m-%dT%H:%M:%SZ}")
    return _objection_of_policy(order, verified, world, world.epoch)


def _objection_of_policy(order: Order, verified: Verified, world: GateWorld, epoch: Epoch) -> Refuse | None:
    """The hub's own judgement, as far as it can be asked without the hub."""
    policy = world.policy
    if policy is None:
        return None
    if policy.hubs != "*" and world.hub not in policy.hubs:
        return Refuse(Reason.NO_POLICY, f"policy {policy.version} is not for {world.hub}")
    # The queue is who tells hubs the time: it is sure of its own.
    sure = Wall(best=world.now, earliest=world.now, latest=world.now, source=ClockSource.STATEMENT)
    said = judge_order(
        order, verified, OrderWorld(hub=world.hub, epoch=epoch, policy=policy, until=None, wall=sure)
    )
    return said if isinstance(said, Refuse) else None
