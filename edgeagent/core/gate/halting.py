"""What is not done whoever asks: what the policy bans for good, and what is stopped for now (SPEC B3)."""

from edgeagent.contracts.policy import Policy
from edgeagent.contracts.reasons import Reason
from edgeagent.core.gate.verdict import Opened, Refuse
from edgeagent.core.gate.world import World
from edgeagent.core.stops import stopped_by


def halted(asked: Opened, world: World, policy: Policy) -> Refuse | None:
    """Why a command is not done, however well it is signed; None where nothing stands against it."""
    command = asked.command
    if command.action in policy.bans.actions:
        return Refuse(Reason.BANNED, f"the policy bans {command.action}")
    if asked.device in policy.bans.devices:
        return Refuse(Reason.BANNED, f"the policy bans {asked.device}")
    rule = policy.actions.get(command.action)
    kind = None if rule is None else stopped_by(world.stops, command.action, rule.tier)
    return None if kind is None else Refuse(Reason.STOPPED, f"{kind} is stopped")
