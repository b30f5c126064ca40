"""A hub whose policy wants some commands approved, and some stopped by a guard."""

from dataclasses import dataclass, field

from edgeagent.clock import EPOCH as YEAR_1970
from edgeagent.contracts.door import encode
from edgeagent.contracts.order import ORDER_TYPE, Order, Verb
from edgeagent.contracts.policy import ActionRule, ApprovalRule, Role, RoleKind, Tier
from edgeagent.core.envelope import sign
from edgeagent.ids import CommandId
from tests.flows.commanding import Hub
from tests.flows.signing import EPOCH, HUB, MILLISECOND, MINUTE, POWER, REBOOT, VOLUME
from tests.support.keys import MemoryKey


@dataclass(frozen=True, slots=True)
class Others:
    """Who has a say beside the operators: ``chief`` and ``deputy`` approve, ``guard`` stops and resumes."""

    chief: MemoryKey = field(default_factory=MemoryKey)
    deputy: MemoryKey = field(default_factory=MemoryKey)
    guard: MemoryKey = field(default_factory=MemoryKey)


async def have_a_say(hub: Hub, rule: ApprovalRule | None = None, *, version: int = 2) -> Others:
    """Put a policy in force by which a reboot is of the high tier and needs approvals."""
    others = Others()
    policy = hub.keys.policy()
    low = ActionRule(tier=Tier.LOW)
    high = ActionRule(tier=Tier.HIGH, approvals=rule or ApprovalRule(at_hub=True))
    approvers = frozenset({"chief", "deputy"})
    await hub.has_policy(
        version=version,
        keys=policy.keys
        | {
            "chief": others.chief.public.hex(),
            "deputy": others.deputy.public.hex(),
            "guard": others.guard.public.hex(),
        },
        roles=policy.roles
        | {
            "chiefs": Role(kind=RoleKind.APPROVE, keys=approvers, actions="*", devices="*"),
            "guards": Role(kind=RoleKind.STOP, keys=frozenset({"guard"})),
        },
        actions={POWER: low, VOLUME: low, REBOOT: high},
    )
    return others


def order(
    hub: Hub, verb: Verb = Verb.STOP, kind: str = "all", *, name: str = "o-1", **changes: object
) -> Order:
    """An order of now."""
    wall = hub.readings.wall()
    fields: dict[str, object] = {
        "id": CommandId(name),
        "hub": HUB,
        "epoch": EPOCH,
        "verb": verb,
        "kind": kind,
        "why": "smoke",
        "sequence": (wall - YEAR_1970) // MILLISECOND << 20,
        "issued_at": wall,
        "expires_at": wall + 10 * MINUTE,
    }
    return Order(**(fields | changes))  # type: ignore[arg-type]  # checked as it is built


def signed(asked: Order, key: MemoryKey) -> bytes:
    """The envelope of an order."""
    return sign(encode(asked), ORDER_TYPE, [key])


def acted(hub: Hub) -> int:
    """How often something was sent that changes a device."""
    return sum("/set/" in message.topic for message in hub.bus.published)
