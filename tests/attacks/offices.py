"""Who signs in a venue where nobody may do everything, and what a stolen key of theirs is good for."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from typing_extensions import override

from edgeagent.clock import ProvenClock, SystemTime
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.door import encode
from edgeagent.contracts.policy import ActionRule, ApprovalRule, Policy, Role, RoleKind, Tier
from edgeagent.ids import HubId
from edgeagent.issuer.keys import PrivateKey
from tests.support.agents_keys import Keys
from tests.support.agents_venue import PLUG

GOOD_FOR: Final = timedelta(seconds=1)
"""How long a person's word on a reboot is good."""
_VALIDITY: Final = timedelta(days=30)


@dataclass(slots=True)
class Offices(Keys):
    """The keys, and a policy by which the desk and the night shift may work the first plug.

    Its power is free; toggling and rebooting are of the high tier and want somebody else's signature, or a
    person's word at the hub.

    Attributes:
        night: signs commands as the desk does.
        chief: approves; so may the desk, but not what it signed itself.
        porter: approves what is done to other plugs.
        retired: approved until yesterday.
    """

    night: PrivateKey = field(default_factory=PrivateKey.new)
    chief: PrivateKey = field(default_factory=PrivateKey.new)
    porter: PrivateKey = field(default_factory=PrivateKey.new)
    retired: PrivateKey = field(default_factory=PrivateKey.new)

    def published(self, hub: HubId, version: int, *, without: str = "") -> bytes:
        """A version of the policy as it is published, in which a key may be revoked."""
        rules = self.rules(hub)
        left = {
            name: role.model_copy(update={"keys": role.keys - {without}})
            for name, role in rules.roles.items()
        }
        keys = {name: key for name, key in rules.keys.items() if name != without}
        return encode(rules.model_copy(update={"version": version, "roles": left, "keys": keys}))

    @override
    def rules(self, hub: HubId) -> Policy:
        """The policy's content."""
        now = ProvenClock(SystemTime()).wall().best
        names = {
            "desk": self.desk,
            "night": self.night,
            "chief": self.chief,
            "porter": self.porter,
            "retired": self.retired,
            "clock": self.time,
            "guard": self.guard,
        }
        free = ActionRule(tier=Tier.LOW)
        return Policy(
            version=1,
            issued_at=now,
            expires_at=now + _VALIDITY,
            keys={name: key.public.hex() for name, key in names.items()},
            roles=self._roles(hub),
            actions={
                ActionName.POWER: free,
                ActionName.REFRESH: free,
                ActionName.TOGGLE: ActionRule(tier=Tier.HIGH, approvals=ApprovalRule(at_hub=True)),
                ActionName.REBOOT: ActionRule(
                    tier=Tier.HIGH, approvals=ApprovalRule(at_hub=True, good_for=GOOD_FOR)
                ),
            },
        )

    def _roles(self, hub: HubId) -> dict[str, Role]:
        now = ProvenClock(SystemTime()).wall().best
        worked = frozenset({ActionName.POWER, ActionName.TOGGLE, ActionName.REBOOT})
        first, others = frozenset({PLUG}), frozenset({"02A1B2000002"})

        def role(kind: RoleKind, *keys: str, **more: object) -> Role:
            return Role(kind=kind, keys=frozenset(keys), **more)  # type: ignore[arg-type]  # checked as it is built

        return {
            "operators": role(RoleKind.COMMAND, "desk", "night", actions=worked, devices=first),
            "chiefs": role(RoleKind.APPROVE, "chief", "desk", actions="*", devices="*"),
            "porters": role(RoleKind.APPROVE, "porter", actions="*", devices=others),
            "pensioners": role(
                RoleKind.APPROVE,
                "retired",
                actions="*",
                devices="*",
                not_after=now - timedelta(days=1),
            ),
            "guards": role(RoleKind.STOP, "guard"),
            "clock": role(RoleKind.TIME, "clock"),
            "here": Role(kind=RoleKind.LOCAL_OPERATOR, hubs=frozenset({hub}), actions=worked, devices=first),
        }
