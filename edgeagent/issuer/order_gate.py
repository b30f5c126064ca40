"""The producer's gate for orders: what can be known of one before it is queued.

As for commands: the hub judges everything again. Without a policy nobody's signature can be checked; then
the order's shape, address and time are.
"""

from edgeagent.contracts.door import decode
from edgeagent.contracts.order import ORDER_BYTES, ORDER_TYPE, Order
from edgeagent.contracts.policy import RoleKind
from edgeagent.contracts.reasons import Reason
from edgeagent.core.envelope import Verified
from edgeagent.core.gate.roles import keys_of
from edgeagent.core.gate.verdict import Refuse
from edgeagent.core.stops import OrderWorld, judge_order
from edgeagent.errors import MalformedError
from edgeagent.ids import Digest, KeyId
from edgeagent.issuer.producer_gate import GateRefusedError, GateWorld, misaddressed, verified_envelope
from edgeagent.values import dataclass


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
    keys = None if world.policy is None else keys_of(world.policy, {RoleKind.STOP})
    verified = verified_envelope(raw, keys, ORDER_TYPE, limit=ORDER_BYTES)
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


def _objection(order: Order, verified: Verified, world: GateWorld) -> Refuse | None:
    for reason, words in misaddressed(order, world):
        return Refuse(reason, words)
    policy = world.policy
    if policy is None:
        return None
    if policy.hubs != "*" and world.hub not in policy.hubs:
        return Refuse(Reason.NO_POLICY, f"policy {policy.version} is not for {world.hub}")
    # The hub's own judgement, as far as it can be asked without the hub.
    around = OrderWorld(
        hub=world.hub, epoch=order.epoch, policy=policy, until=world.policy_until, wall=world.wall
    )
    said = judge_order(order, verified, around)
    return said if isinstance(said, Refuse) else None
