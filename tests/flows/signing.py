"""Who may sign at a hub of these tests, and the names that its commands are made of."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.policy import ActionRule, Policy, Role, RoleKind, Tier, TierRule
from edgeagent.ids import DeviceId, Epoch, HubId, device_id, hub_id, new_epoch
from tests.support.clocks import NOON
from tests.support.keys import MemoryKey

HUB: Final[HubId] = hub_id("venue-7")
EPOCH: Final[Epoch] = new_epoch(1_800_000_000_000, 7)
TV: Final[DeviceId] = device_id("tv-1")
OTHER_TV: Final[DeviceId] = device_id("tv-2")
PLAYER: Final[DeviceId] = device_id("player-1")
POWER: Final = ActionName.POWER
VOLUME: Final = ActionName.VOLUME
INPUT: Final = ActionName.INPUT
TOGGLE: Final = ActionName.TOGGLE
REBOOT: Final = ActionName.REBOOT
MILLISECOND: Final = timedelta(milliseconds=1)
SECOND: Final = timedelta(seconds=1)
MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Keys:
    """Who may sign here. ``desk`` and ``night`` are operators, ``stranger`` is known and may nothing."""

    signer: MemoryKey = field(default_factory=MemoryKey)
    desk: MemoryKey = field(default_factory=MemoryKey)
    night: MemoryKey = field(default_factory=MemoryKey)
    stranger: MemoryKey = field(default_factory=MemoryKey)
    hub: MemoryKey = field(default_factory=MemoryKey)

    def policy(self, **changes: object) -> Policy:
        """Both operators may do everything everywhere, and so may whoever types at the hub."""
        low, medium = ActionRule(tier=Tier.LOW), ActionRule(tier=Tier.MEDIUM)
        operators = frozenset({"desk", "night"})
        fields: dict[str, object] = {
            "version": 1,
            "issued_at": NOON - timedelta(days=1),
            "expires_at": NOON + timedelta(days=365),
            "keys": {
                "desk": self.desk.public.hex(),
                "night": self.night.public.hex(),
                "stranger": self.stranger.public.hex(),
            },
            "roles": {
                "operators": Role(kind=RoleKind.COMMAND, keys=operators, actions="*", devices="*"),
                "nobody": Role(kind=RoleKind.COMMAND, keys=frozenset({"stranger"})),
                "local": Role(kind=RoleKind.LOCAL_OPERATOR, hubs=frozenset({HUB}), actions="*", devices="*"),
            },
            "actions": {POWER: low, VOLUME: low, INPUT: low, TOGGLE: medium, REBOOT: medium},
            "tiers": {tier: TierRule(attempts=3) for tier in (Tier.LOW, Tier.MEDIUM)},
        }
        return Policy(**(fields | changes))  # type: ignore[arg-type]  # checked as it is built
