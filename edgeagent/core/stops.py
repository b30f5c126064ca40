"""The kill switch: which orders are obeyed, and what is stopped (SPEC B3).

    stop > stopped > resume > free        for each kind of command by itself

Of two orders about one kind the one with the later sequence counts, in whatever order they come. A stop
is obeyed also by a clock that is unsure and under a policy whose time is over: nothing is done that would
not have been done. A resume needs both to be sure; what was stopped at the hub before the time was known is
resumed there, since nobody can tell which of the two words is the later one.
"""

from collections.abc import Iterable
from dataclasses import field
from datetime import datetime
from typing import Final

from edgeagent.clock import Wall
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.order import Order, Verb, covers
from edgeagent.contracts.policy import Policy, Role, RoleKind, Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.core.envelope import Verified
from edgeagent.core.freshness import Validity, largest_sequence, validity
from edgeagent.core.gate.roles import banned_keys, roles_of
from edgeagent.core.gate.verdict import Duplicate, Refuse
from edgeagent.ids import Digest, Epoch, HubId, KeyId
from edgeagent.values import dataclass

# 41 bits of milliseconds over 20 of chance: what lies above is no time, and leaves room for who is later.
LARGEST_ORDER: Final = 2**62 - 1
"""The largest sequence of an order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The last word on a kind of command.

    Attributes:
        kind: which.
        verb: whether it is stopped.
        sequence: of the order.
        by: a key id, or who typed it.
        why: for people.
        at: microseconds since 1970, the best guess.
        is_guess: whether its sequence is that of a guess, since the time was not known.
    """

    kind: str
    verb: Verb
    sequence: int
    by: str
    why: str
    at: int
    is_guess: bool = False


@dataclass(slots=True)
class Stops:
    """What is stopped, in memory: asked right before each step is sent.

    Attributes:
        standings: the last word on each kind that there was one on.
    """

    standings: list[Standing] = field(default_factory=list)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of command that are stopped."""
        return frozenset(word.kind for word in self.standings if word.verb is Verb.STOP)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderWorld:
    """Everything that an order is judged by, at one instant.

    Attributes:
        hub: this hub.
        epoch: the life of its database.
        policy: in force; None for none.
        until: when it ends.
        wall: what is known of the time.
        known: the payload that has come under the order's id.
        forgotten: what expired by then may have come, and be forgotten; None for nothing.
        last: the last word on its kind; None for none.
    """

    hub: HubId
    epoch: Epoch
    policy: Policy | None
    until: datetime | None
    wall: Wall
    known: Digest | None = None
    forgotten: datetime | None = None
    last: Standing | None = None


@dataclass(frozen=True, slots=True)
class Obey:
    """It is done, in the name of a key."""

    issuer: KeyId


def judge_order(order: Order, verified: Verified, world: OrderWorld) -> Obey | Refuse | Duplicate:
    """Decide whether an order is obeyed; cheapest and most certain first, as at the gate."""
    if world.policy is None:
        return Refuse(Reason.NO_POLICY)
    known = None if world.known is None else _identity(verified, world.known)
    refusal = _addressed(order, world) or known or _untimely(order, world, world.policy)
    if refusal is not None:
        return refusal
    issuer = _issuer(order, verified, world, world.policy)
    if isinstance(issuer, Refuse):
        return issuer
    last = world.last
    if last is not None and order.sequence <= last.sequence:
        return Refuse(Reason.NOT_LATER, f"a later order about {order.kind} has come")
    if last is not None and last.is_guess and order.verb is Verb.RESUME:
        # It may have been signed before that stop, and been kept back since.
        return Refuse(Reason.CLOCK_UNSURE, "stopped at the hub before the time was known: resume it there")
    return Obey(issuer)


def stopped_by(stops: Iterable[str], action: ActionName, tier: Tier) -> str | None:
    """The kind by which an action of a tier is stopped; None where it is free."""
    return min((kind for kind in stops if covers(kind, action, tier)), default=None)


def _addressed(order: Order, world: OrderWorld) -> Refuse | None:
    if order.hub != world.hub:
        return Refuse(Reason.WRONG_HUB)
    if order.epoch != world.epoch:
        return Refuse(Reason.WRONG_EPOCH, f"this hub's epoch is {world.epoch}")
    return None


def _identity(verified: Verified, known: Digest) -> Refuse | Duplicate:
    return Duplicate() if known == verified.sha256 else Refuse(Reason.ID_CONFLICT)


def _untimely(order: Order, world: OrderWorld, policy: Policy) -> Refuse | None:
    span = validity(order.issued_at, order.expires_at, world.wall)
    is_forgotten = world.forgotten is not None and order.expires_at <= world.forgotten
    if span is Validity.EXPIRED or is_forgotten:
        return Refuse(Reason.EXPIRED)
    if order.sequence > min(largest_sequence(world.wall), LARGEST_ORDER):
        return Refuse(Reason.NOT_YET_VALID, "its sequence is that of a far future")
    if order.verb is Verb.STOP:
        return None
    if world.wall.earliest >= min(world.until or policy.expires_at, policy.expires_at):
        return Refuse(Reason.POLICY_EXPIRED)
    if span is Validity.NOT_YET:
        return Refuse(Reason.NOT_YET_VALID)
    return Refuse(Reason.CLOCK_UNSURE) if span is Validity.UNSURE else None


def _issuer(order: Order, verified: Verified, world: OrderWorld, policy: Policy) -> KeyId | Refuse:
    """The first signer who may give it."""
    banned = banned_keys(policy)
    refusal = Refuse(Reason.NOT_ALLOWED, f"no signer may {order.verb} {order.kind}")
    for signer in verified.signers:
        roles = roles_of(policy, signer, RoleKind.STOP)
        if any(_holds(role, order.verb, world.wall) for role in roles):
            if signer not in banned:
                return signer
            refusal = Refuse(Reason.BANNED, "the policy bans the key that signed it")
    return refusal


def _holds(role: Role, verb: Verb, wall: Wall) -> bool:
    """Whether a role holds now. To stop, it does unless that is certainly not so."""
    if verb is Verb.STOP:
        begun = role.not_before is None or wall.latest is None or wall.latest >= role.not_before
        return begun and (role.not_after is None or wall.earliest < role.not_after)
    begun = role.not_before is None or wall.earliest >= role.not_before
    return begun and (role.not_after is None or (wall.latest is not None and wall.latest < role.not_after))
