"""Whether enough others have agreed to a command (SPEC T7).

Either as many signatures over the same payload as the policy asks for, by distinct keys whose ``approve``
roles cover the action on the device, or, where the policy says so, one person's word at this hub. Nobody
agrees with himself: the issuer's own key does not count, nor does the word of whoever typed the command.
"""

from edgeagent.contracts.policy import ActionRule, Policy, RoleKind
from edgeagent.core.gate.roles import banned_keys, in_time, roles_of
from edgeagent.core.gate.verdict import Moment, Opened
from edgeagent.core.gate.world import World
from edgeagent.ids import KeyId


def lacks_approval(asked: Opened, world: World, issuer: KeyId, rule: ActionRule) -> bool:
    """Whether somebody still has to agree before a command is carried out."""
    wanted = rule.approvals
    if wanted is None or world.policy is None:
        return False
    if wanted.at_hub and _is_agreed_here(world):
        return False
    return len(_approvers(asked, world, world.policy, issuer)) < wanted.signatures


def lacks_word(world: World, moment: Moment) -> bool:
    """Whether a person at the hub still has to agree because the breaker is not closed (SPEC B2).

    What was let in before it opened is worked as it was.
    """
    return moment is not Moment.ACT and world.shut is not None and not _is_agreed_here(world)


def is_same_person(one: str, other: str) -> bool:
    """Whether two actors are one person: the user's number counts, whatever name goes with it."""
    return one.partition(" ")[0] == other.partition(" ")[0]


def _is_agreed_here(world: World) -> bool:
    boot_id, now = world.boot
    return any(
        not approval.until.passed(boot_id, now) and not is_same_person(approval.by, world.actor)
        for approval in world.approvals
    )


def _approvers(asked: Opened, world: World, policy: Policy, issuer: KeyId) -> set[KeyId]:
    """The keys that have agreed. ``Verified`` lists none twice, and the policy gives none two names."""
    return {
        signer
        for signer in asked.verified.signers
        if signer != issuer
        and any(
            role.covers(asked.command.action, asked.device) and in_time(role, world.wall)
            for role in roles_of(policy, signer, RoleKind.APPROVE)
        )
    } - banned_keys(policy)
