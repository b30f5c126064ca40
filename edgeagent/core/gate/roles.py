"""Whose signature counts, and who may do what: the policy, read for one command."""

from edgeagent.clock import Wall
from edgeagent.contracts.policy import ActionRule, Policy, Role, RoleKind, id_of_key
from edgeagent.contracts.reasons import Reason
from edgeagent.core.envelope import Keyring
from edgeagent.core.gate.verdict import Opened, Refuse
from edgeagent.core.gate.world import World
from edgeagent.ids import HubId, KeyId


def keyring(policy: Policy | None, hub: HubId, operator_key: bytes | None) -> Keyring:
    """The keys whose signature under a command counts: those of command roles, and the hub's own."""
    if policy is None:
        return {}
    kinds = {role.kind for role in policy.roles.values()}
    names = {name for role in policy.roles.values() if role.kind is RoleKind.COMMAND for name in role.keys}
    raws = [bytes.fromhex(policy.keys[name]) for name in names]
    if operator_key is not None and RoleKind.LOCAL_OPERATOR in kinds and local_roles(policy, hub):
        raws.append(operator_key)
    return {id_of_key(raw): raw for raw in raws}


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
    for signer in asked.verified.signers:
        # The hub's own key speaks for commands typed at this hub, and for nothing else.
        roles = local_roles(policy, world.hub) if signer == own else _roles_of(policy, signer)
        if signer == own and world.local is None:
            continue
        if any(role.covers(command.action, asked.device) and _in_time(role, world.wall) for role in roles):
            return signer, rule
    return Refuse(Reason.NOT_ALLOWED, f"no signer may {command.action} {asked.device}")


def _roles_of(policy: Policy, signer: KeyId) -> list[Role]:
    names = {name for name, public in policy.keys.items() if id_of_key(bytes.fromhex(public)) == signer}
    return [role for role in policy.roles.values() if role.kind is RoleKind.COMMAND and role.keys & names]


def local_roles(policy: Policy, hub: HubId) -> list[Role]:
    """The roles that the hub's own key holds at this hub."""
    return [
        role for role in policy.roles.values() if role.kind is RoleKind.LOCAL_OPERATOR and hub in role.hubs
    ]


def _in_time(role: Role, wall: Wall) -> bool:
    """Whether a role holds now. Where the clock cannot tell, it does not."""
    begun = role.not_before is None or wall.earliest >= role.not_before
    ended = role.not_after is not None and (wall.latest is None or wall.latest >= role.not_after)
    return begun and not ended
