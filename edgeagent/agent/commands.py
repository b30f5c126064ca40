"""What people at the hub may ask of the flows that take commands in."""

from functools import partial

from edgeagent.adapters.admin.approval_routes import approval_routes
from edgeagent.adapters.admin.breaker_routes import breaker_routes
from edgeagent.adapters.admin.drill_routes import drill_routes
from edgeagent.adapters.admin.letter_routes import letter_routes
from edgeagent.adapters.admin.lock_routes import lock_routes
from edgeagent.adapters.admin.policy_routes import policy_routes
from edgeagent.adapters.admin.rollout_routes import rollout_routes
from edgeagent.adapters.admin.route import Route
from edgeagent.adapters.admin.switch_routes import switch_routes
from edgeagent.adapters.admin.trace_routes import trace_routes
from edgeagent.flows.approving import Approving
from edgeagent.flows.breaker_desk import HubBreakers
from edgeagent.flows.dead_letters import DeadLetters
from edgeagent.flows.drills.drilling import Drills
from edgeagent.flows.local import LocalCommands
from edgeagent.flows.lockdesk import Locks
from edgeagent.flows.policy_facts import PolicyFacts
from edgeagent.flows.rollout_desk import HubRollouts
from edgeagent.flows.switch import KillSwitch
from edgeagent.flows.traces import trace
from edgeagent.flows.wary import WaryDesk
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """What people at the hub may ask of the flows that take commands in."""

    local: LocalCommands
    switch: KillSwitch
    approving: Approving
    desk: PolicyFacts
    outside: WaryDesk | None
    locks: Locks
    breakers: HubBreakers
    letters: DeadLetters
    drills: Drills
    rollouts: HubRollouts

    def routes(self) -> list[Route]:
        """What of it may be asked at the operator's door, beside what the operator answers."""
        return [
            *switch_routes(self.switch),
            *approval_routes(self.approving),
            *policy_routes(self.desk),
            *lock_routes(self.locks),
            *breaker_routes(self.breakers),
            *letter_routes(self.letters),
            *drill_routes(self.drills),
            *rollout_routes(self.rollouts),
            *trace_routes(partial(trace, self.local.store)),
        ]
