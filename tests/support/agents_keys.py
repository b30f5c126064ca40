"""Who signs what in a venue; every key is made anew for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from edgeagent.clock import ProvenClock, SystemTime
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.policy import ActionRule, ApprovalRule, Policy, Role, RoleKind, Tier
from edgeagent.ids import HubId
from edgeagent.issuer.keys import PrivateKey
from edgeagent.issuer.policies import sign_policy

_APPROVED: Final = ActionRule(tier=Tier.HIGH, approvals=ApprovalRule(at_hub=True))
_VALIDITY: Final = timedelta(days=30)


@dataclass(slots=True)
class Keys:
    """The keys.

    Attributes:
        root: signs the policy.
        desk: signs commands.
        time: signs the time.
        guard: signs orders to stop and resume.
        tier: of all actions.
        names_time: whether the policy names who signs the time.
        high: what is of the high tier instead, and wants somebody at the hub to approve it.
        supplier: signs commands too, where it has a role.
        roles: further ones, or others in the place of those of their name.
        terms: fields of the policy that are to be other than usual.
    """

    root: PrivateKey = field(default_factory=PrivateKey.new)
    desk: PrivateKey = field(default_factory=PrivateKey.new)
    time: PrivateKey = field(default_factory=PrivateKey.new)
    guard: PrivateKey = field(default_factory=PrivateKey.new)
    tier: Tier = Tier.LOW
    names_time: bool = True
    high: frozenset[ActionName] = frozenset()
    supplier: PrivateKey = field(default_factory=PrivateKey.new)
    roles: Mapping[str, Role] = field(default_factory=dict)
    terms: Mapping[str, object] = field(default_factory=dict)

    def policy(self, hub: HubId) -> bytes:
        """A signed policy: the desk, and people at the hub, may do everything."""
        return sign_policy(self.rules(hub), [self.root])

    def rules(self, hub: HubId) -> Policy:
        """The policy's content."""
        now = ProvenClock(SystemTime()).wall().best
        roles = {
            "operators": Role(kind=RoleKind.COMMAND, keys=frozenset({"desk"}), actions="*", devices="*"),
            "guards": Role(kind=RoleKind.STOP, keys=frozenset({"guard"})),
            "here": Role(kind=RoleKind.LOCAL_OPERATOR, hubs=frozenset({hub}), actions="*", devices="*"),
        }
        if self.names_time:
            roles["clock"] = Role(kind=RoleKind.TIME, keys=frozenset({"clock"}))
        fields: dict[str, object] = {
            "version": 1,
            "issued_at": now,
            "expires_at": now + _VALIDITY,
            "keys": {
                "desk": self.desk.public.hex(),
                "clock": self.time.public.hex(),
                "guard": self.guard.public.hex(),
                "supplier": self.supplier.public.hex(),
            },
            "actions": dict.fromkeys(ActionName, ActionRule(tier=self.tier))
            | dict.fromkeys(self.high, _APPROVED),
            "roles": {**roles, **self.roles},
            **self.terms,
        }
        return Policy(**fields)  # type: ignore[arg-type]  # checked as it is built
