"""The policy in force, explained to people: the ``PolicyDesk`` port."""

from collections.abc import Iterable

from edgeagent.contracts.actions import ActionName, made_of
from edgeagent.contracts.policy import Policy, Role, RoleKind, id_of_key
from edgeagent.contracts.reports.policy import ActionReport, BansShown, PolicyShown, RoleShown
from edgeagent.core.gate.roles import in_time, local_roles
from edgeagent.core.stops import stopped_by
from edgeagent.errors import RejectedError
from edgeagent.flows.trust import Trust
from edgeagent.flows.worlds import Worlds
from edgeagent.ids import DeviceId
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True)
class PolicyFacts:
    """Reads the policy as the gate does.

    Attributes:
        trust: the policy.
        worlds: time, whose hub it is, and what is stopped.
    """

    trust: Trust
    worlds: Worlds

    def show(self) -> PolicyShown:
        """The policy in force."""
        policy = self._policy()
        bans, until = policy.bans, self.trust.until or policy.expires_at
        return PolicyShown(
            version=policy.version,
            issued_at=policy.issued_at,
            expires_at=until,
            expired=self.worlds.around.clock.wall().earliest >= until,
            signers=list(self.trust.policy_signers),
            keys={name: id_of_key(bytes.fromhex(key)) for name, key in sorted(policy.keys.items())},
            roles={name: _shown(role) for name, role in sorted(policy.roles.items())},
            actions=[self.explain(action, None) for action in sorted(policy.actions)],
            bans=BansShown(
                actions=sorted(bans.actions), devices=sorted(bans.devices), keys=sorted(bans.keys)
            ),
            artifacts={name: sorted(digests) for name, digests in sorted(policy.artifacts.items())},
        )

    def explain(self, action: ActionName, device: DeviceId | None) -> ActionReport:
        """What stands about an action, on one device or on any."""
        policy = self._policy()
        rule = policy.actions.get(action)
        hub = self.worlds.around.origin.hub
        return ActionReport(
            action=action,
            device=device,
            allowed=rule is not None,
            tier=None if rule is None else rule.tier,
            confirmation=None if rule is None else rule.confirmation,
            longest_validity=None if rule is None else rule.longest_validity,
            approvals=None if rule is None else rule.approvals,
            issuers=self._holders(policy, RoleKind.COMMAND, action, device),
            approvers=self._holders(policy, RoleKind.APPROVE, action, device),
            at_this_hub=rule is not None and any(self._may(local_roles(policy, hub), action, device)),
            banned=_banned(policy, action, device),
            stopped=None if rule is None else stopped_by(self.worlds.stops.kinds, action, rule.tier),
        )

    def _policy(self) -> Policy:
        if self.trust.policy is None:
            raise RejectedError(f"there is no policy in force: {self.trust.policy_problem}")
        return self.trust.policy

    def _holders(
        self, policy: Policy, kind: RoleKind, action: ActionName, device: DeviceId | None
    ) -> list[str]:
        """Who holds a role of a kind that covers an action now, and is not banned."""
        roles = [role for role in policy.roles.values() if role.kind is kind]
        names = {name for role in self._may(roles, action, device) for name in role.keys}
        return sorted(names - policy.bans.keys)

    def _may(self, roles: Iterable[Role], action: ActionName, device: DeviceId | None) -> Iterable[Role]:
        wall = self.worlds.around.clock.wall()
        for role in roles:
            covers = role.actions == "*" or action in role.actions
            somewhere = bool(role.devices) if device is None else role.covers(action, device)
            if covers and somewhere and in_time(role, wall):
                yield role


def _shown(role: Role) -> RoleShown:
    is_ours = role.kind is RoleKind.LOCAL_OPERATOR
    return RoleShown(
        kind=role.kind,
        holders=[f"the hub {hub}" for hub in sorted(role.hubs)] if is_ours else sorted(role.keys),
        actions=["*"] if role.actions == "*" else sorted(role.actions),
        devices=["*"] if role.devices == "*" else sorted(role.devices),
        not_before=role.not_before,
        not_after=role.not_after,
    )


def _banned(policy: Policy, action: ActionName, device: DeviceId | None) -> str:
    if not made_of(action).isdisjoint(policy.bans.actions):
        return f"no {action} on any device"
    if device is not None and device in policy.bans.devices:
        return f"nothing to {device}"
    return ""
