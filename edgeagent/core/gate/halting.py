"""What is not done whoever asks: banned for good, stopped for now, or shut out by a breaker (SPEC B2, B3)."""

from edgeagent.contracts.actions import made_of
from edgeagent.contracts.policy import Policy, WhenOpen
from edgeagent.contracts.reasons import Reason
from edgeagent.core.gate.verdict import Moment, Opened, Refuse
from edgeagent.core.gate.world import World
from edgeagent.core.stops import stopped_by


def halted(asked: Opened, world: World, policy: Policy, moment: Moment) -> Refuse | None:
    """Why a command is not done, however well it is signed; None where nothing stands against it."""
    command = asked.command
    banned = sorted(made_of(command.action) & policy.bans.actions)
    if banned:
        return Refuse(Reason.BANNED, f"the policy bans {banned[0]}")
    if asked.device in policy.bans.devices:
        return Refuse(Reason.BANNED, f"the policy bans {asked.device}")
    rule = policy.actions.get(command.action)
    kind = None if rule is None else stopped_by(world.stops, command.action, rule.tier)
    if kind is not None:
        return Refuse(Reason.STOPPED, f"{kind} is stopped")
    # What was let in before the breaker opened is worked; what is asked again waits for a person's word.
    shut = world.shut if moment is Moment.ADMIT else None
    if shut is None or shut.how is WhenOpen.APPROVE:
        return None
    return Refuse(Reason.BREAKER_OPEN, shut.detail)
