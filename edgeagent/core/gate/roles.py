"""Whose signature counts, and who may do what: the policy, read for one command."""

from collections.abc import Set as AbstractSet

from edgeagent.clock import Wall
from edgeagent.contracts.policy import ActionRule, Policy, Role, RoleKind, id_of_key
from edgeagent.contracts.reasons import Reason
from edgeagent.core.envelope import Keyring
from edgeagent.core.gate.verdict import Opened, Refuse
from edgeagent.core.gate.world import World
from edgeagent.ids import HubId, KeyId


def keyring(policy: Policy | None, hub: HubId, operator_key: bytes | None) -> Keyring:
    """The keys whose signature under a command counts: of those who issue, of those who approve, our own."""
    if policy is None:
        return {}
    keys = keys_of(policy, {RoleKind.COMMAND, RoleKind.APPROVE})
    if operator_key is None or not local_roles(policy, hub):
        return keys
    return {**keys, id_of_key(operator_key): operator_key}


def keys_of(policy: Policy, kinds: AbstractSet[RoleKind]) -> Keyring:
    """The keys that hold a role of one of these kinds."""
    names = {name for role in policy.roles.values() if role.kind in kinds for name in role.keys}
    return {id_of_key(raw): raw for raw in (bytes.fromhex(policy.keys[name]) for name in names)}


def speaker(asked: Opened, world: World) -> KeyId:
    """The key in whose name a command speaks: the first that may, else the first that signed."""
    grant = Refuse(Reason.NO_POLICY) if world.policy is None else granted(asked, world, world.policy)
    return asked.verified.signers[0] if isinstance(grant, Refuse) else grant[0]


def granted(asked: Opened, world: World, policy: Policy) -> tuple[KeyId, ActionRule] | Refuse:
    """The first signer whose role covers the action on the device, and the action's rule."""
    command = asked.command
    rule = policy.actions.get(command.action)
    if rule is None:
        return Refuse(Reason.NOT_ALLOWED, f"the policy has no rule for {command.action}")
    own = None if world.operator_key is None else id_of_key(world.operator_key)
    banned = banned_keys(policy)
    refusal = Refuse(Reason.NOT_ALLOWED, f"no signer may {command.action} {asked.device}")
    for signer in asked.verified.signers:
        # The hub's own key speaks for commands typed at this hub, and for nothing else.
        roles = (
            local_roles(policy, world.hub) if signer == own else roles_of(policy, signer, RoleKind.COMMAND)
        )
        if signer == own and world.local is None:
            continue
        if any(role.covers(command.action, asked.device) and in_time(role, world.wall) for role in roles):
            if signer not in banned:
                return signer, rule
            refusal = Refuse(Reason.BANNED, "the policy bans the key that signed it")
    return refusal


def issues(asked: Opened, world: World) -> bool:
    """Whether a signer is one who issues commands, be it this one or not; an approver's word begins none."""
    if world.policy is None or world.local is not None:
        return True
    issuing = keys_of(world.policy, {RoleKind.COMMAND})
    own = set() if world.operator_key is None else {id_of_key(world.operator_key)}
    return not (issuing.keys() | own).isdisjoint(asked.verified.signers)


def roles_of(policy: Policy, signer: KeyId, kind: RoleKind) -> list[Role]:
    """The roles of a kind that a key holds."""
    names = {name for name, public in policy.keys.items() if id_of_key(bytes.fromhex(public)) == signer}
    return [role for role in policy.roles.values() if role.kind is kind and role.keys & names]


def banned_keys(policy: Policy) -> frozenset[KeyId]:
    """The keys whose word never counts."""
    return frozenset(id_of_key(bytes.fromhex(policy.keys[name])) for name in policy.bans.keys)


def local_roles(policy: Policy, hub: HubId) -> list[Role]:
    """The roles that the hub's own key holds at this hub."""
    return [
        role for role in policy.roles.values() if role.kind is RoleKind.LOCAL_OPERATOR and hub in role.hubs
    ]


def in_time(role: Role, wall: Wall) -> bool:
    """Whether a role holds now. Where the clock cannot tell, it does not."""
    begun = role.not_before is None or wall.earliest >= role.not_before
    ended = role.not_after is not None and (wall.latest is None or wall.latest >= role.not_after)
    return begun and not ended
