"""The policy: who may sign what, and how it is carried out.

The payload of a DSSE envelope of type ``POLICY_TYPE``, versioned, signed by the venue's policy key.
Keys are named by people and known by their id, the sha256 of the public key: one key listed twice is
refused, so that it cannot count twice (SPEC T1).
"""

from collections.abc import Set as AbstractSet
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.door import Contract
from edgeagent.contracts.rollout import FirmwareRule
from edgeagent.contracts.scalars import (
    ArtifactIdField,
    DeviceIdField,
    DigestField,
    Duration,
    HubIdField,
    PublicKeyHex,
    Timestamp,
)
from edgeagent.ids import KeyId

POLICY_TYPE: Final = "application/vnd.edgeagent.policy.v1+json"
"""The DSSE payload type of a policy."""
POLICY_BYTES: Final = 256 * 1024
"""The most bytes of an envelope around a policy."""

KeyName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")]
RoleName = KeyName
Any_ = Literal["*"]
# Several at once while a venue goes from one build of a version to the next.
Digests = Annotated[frozenset[DigestField], Field(min_length=1, max_length=16)]


class RoleKind(StrEnum):
    """What the holders of a role may sign."""

    COMMAND = "command"
    """Commands."""
    APPROVE = "approve"
    """Commands that others issue: a further signature over the same payload."""
    STOP = "stop"
    """Orders to stop and resume a kind of command."""
    TIME = "time"
    """Statements of the time."""
    LOCAL_OPERATOR = "local_operator"
    """Commands typed at the hub: held by the hub's own key, on the named hubs only."""


class Tier(StrEnum):
    """How much an action can do."""

    LOW = "low"
    """Basic validation, bounded retry."""
    MEDIUM = "medium"
    """Idempotency, dead letters."""
    HIGH = "high"
    """Approval, the isolated worker, a strict breaker."""


class Level(StrEnum):
    """How surely an effect is known, weakest first (SPEC M2)."""

    SENT = "sent"
    """The broker took it."""
    ACCEPTED = "accepted"
    """The device or its bridge said yes."""
    APPLIED = "applied"
    """The device's state shows it."""
    VERIFIED = "verified"
    """Read back, or seen in a new life of the device."""

    def reaches(self, other: "Level") -> bool:
        """Whether this is at least ``other``."""
        return _ORDER[self] >= _ORDER[other]


_ORDER: Final = {level: place for place, level in enumerate(Level)}


class Role(Contract):
    """A set of holders and what they may do.

    Attributes:
        kind: what they may sign.
        keys: the holders, by name; none for ``local_operator``.
        hubs: the hubs whose own key holds a ``local_operator`` role.
        actions: which actions; ``*`` for all.
        devices: on which devices; ``*`` for all.
        not_before: from when on.
        not_after: until when.
    """

    kind: RoleKind = Field(strict=False)
    keys: frozenset[KeyName] = frozenset()
    hubs: frozenset[HubIdField] = frozenset()
    actions: frozenset[Annotated[ActionName, Field(strict=False)]] | Any_ = frozenset()
    devices: frozenset[DeviceIdField] | Any_ = frozenset()
    not_before: Timestamp | None = None
    not_after: Timestamp | None = None

    def covers(self, action: ActionName, device: str) -> bool:
        """Whether its holders may do this to that device."""
        of_action = self.actions == "*" or action in self.actions
        return of_action and (self.devices == "*" or device in self.devices)


class ApprovalRule(Contract):
    """Who else has to agree to a command (SPEC T7).

    Attributes:
        signatures: how many keys of ``approve`` roles have to have signed the same payload; the issuer's
            own does not count.
        at_hub: whether one person at the hub may agree in their place.
        good_for: how long such a person's word is good.
    """

    signatures: Annotated[int, Field(ge=1, le=7)] = 1
    at_hub: bool = False
    good_for: Duration = timedelta(minutes=10)


class ActionRule(Contract):
    """How an action is carried out.

    Attributes:
        tier: its lane and rules.
        confirmation: the level at which it has succeeded.
        longest_validity: the most time between a command's issue and its expiry.
        approvals: who else has to agree; nobody if absent.
    """

    tier: Tier = Field(strict=False)
    confirmation: Level = Field(default=Level.APPLIED, strict=False)
    longest_validity: Duration = timedelta(minutes=10)
    approvals: ApprovalRule | None = None


class WhenOpen(StrEnum):
    """What an open breaker does with a command of its origin and action (SPEC B2)."""

    REFUSE = "refuse"
    """It is refused, and counted."""
    QUARANTINE = "quarantine"
    """It is refused and kept as a dead letter, up to a bound."""
    SLOW = "slow"
    """One in a while is taken, the others are refused."""
    APPROVE = "approve"
    """It is held until a person at the hub agrees."""


class BreakerRule(Contract):
    """When commands of one action and origin are stopped by themselves (SPEC B1).

    Attributes:
        refusals: how many within ``within`` open the breaker.
        off_target: how many of them for a target that is not theirs do.
        within: the span that is looked at.
        retries: how many tries that have to be repeated, within ``worked_within``, open it.
        dead_letters: how many equal ones do.
        lease_losses: how many lost leases do.
        worked_within: the span that is looked at for what goes wrong while it is worked.
        open_for: how long it stays open before one may try again.
        when_open: what becomes of commands meanwhile.
        slow_pace: how often one is taken, where they are slowed.
    """

    refusals: Annotated[int, Field(ge=1, le=10_000)] = 20
    off_target: Annotated[int, Field(ge=1, le=10_000)] = 10
    within: Duration = timedelta(minutes=1)
    retries: Annotated[int, Field(ge=1, le=10_000)] = 100
    dead_letters: Annotated[int, Field(ge=1, le=10_000)] = 5
    lease_losses: Annotated[int, Field(ge=1, le=10_000)] = 5
    worked_within: Duration = timedelta(hours=1)
    open_for: Duration = timedelta(minutes=5)
    when_open: WhenOpen = Field(default=WhenOpen.REFUSE, strict=False)
    slow_pace: Duration = timedelta(seconds=10)

    @property
    def strict(self) -> "BreakerRule":
        """The same where half as many are too many."""
        half = {
            name: -(-number // 2)
            for name, number in (
                ("refusals", self.refusals),
                ("off_target", self.off_target),
                ("retries", self.retries),
                ("dead_letters", self.dead_letters),
                ("lease_losses", self.lease_losses),
            )
        }
        return self.model_copy(update=half)


class Bans(Contract):
    """What is never to be done, whoever asks (SPEC B3).

    Attributes:
        actions: these.
        devices: nothing to these.
        keys: nothing by these holders.
    """

    actions: frozenset[Annotated[ActionName, Field(strict=False)]] = frozenset()
    devices: frozenset[DeviceIdField] = frozenset()
    keys: frozenset[KeyName] = frozenset()


class TierRule(Contract):
    """How the lane of a tier works.

    Attributes:
        concurrency: how many commands are worked at once.
        attempts: how often an absolute action is tried in all.
        first_delay: the longest wait after the first failure; it doubles.
        longest_delay: where the doubling stops.
        alert_after: after how many tries without result a command is told as an alert; it goes on being
            tried all the same (SPEC E3).
        accept_unsure_clock: whether a command may be begun while the hub cannot tell if its time is
            over; the low tier only (SPEC T5).
        grace: how long after the policy's own time is over its commands are still taken.
    """

    concurrency: Annotated[int, Field(ge=1, le=16)] = 4
    attempts: Annotated[int, Field(ge=1, le=10)] = 3
    first_delay: Duration = timedelta(seconds=1)
    longest_delay: Duration = timedelta(seconds=30)
    alert_after: Annotated[int, Field(ge=1, le=10)] = 2
    accept_unsure_clock: bool = False
    grace: Duration = timedelta(0)


class Policy(Contract):
    """Who may sign what at which hubs, and how each action is carried out.

    Attributes:
        version: grows with each policy; a hub never goes back.
        hubs: where it applies; ``*`` for every hub that trusts its signer.
        issued_at: when it was signed.
        expires_at: until when it may be used.
        keys: public keys by name.
        roles: by name.
        actions: the rule of each action; an action without one is not allowed.
        tiers: the rule of each tier; the defaults where absent.
        breaker: when commands of one action or origin are stopped by themselves; in the high tier half as
            many are enough.
        bans: what is never to be done.
        artifacts: what may be installed: the sha256 of each approved file by the artifact's id.
        firmware: when devices are updated, how many at once, and when a new version is believed.
        drill_every: how old the last good drill of each kind may be; not looked at if absent.
        most_held: how many commands of one issuer a hub holds at once; a list counts for each device.
    """

    type: Literal["policy"] = "policy"
    version: Annotated[int, Field(ge=1, lt=2**53)]
    hubs: frozenset[HubIdField] | Any_ = "*"
    issued_at: Timestamp
    expires_at: Timestamp
    keys: dict[KeyName, PublicKeyHex] = Field(max_length=64)
    roles: dict[RoleName, Role] = Field(max_length=64)
    actions: dict[Annotated[ActionName, Field(strict=False)], ActionRule]
    tiers: dict[Annotated[Tier, Field(strict=False)], TierRule] = Field(default_factory=dict)
    breaker: BreakerRule = BreakerRule()
    bans: Bans = Bans()
    artifacts: dict[ArtifactIdField, Digests] = Field(default_factory=dict, max_length=256)
    firmware: FirmwareRule = FirmwareRule()
    drill_every: Annotated[Duration, Field(ge=timedelta(hours=1))] | None = None
    most_held: Annotated[int, Field(ge=1, le=100_000)] = 1000

    @model_validator(mode="after")
    def _does_not_contradict_itself(self) -> "Policy":
        if self.expires_at <= self.issued_at:
            raise ValueError("it expires before it is issued")
        if len(set(self.keys.values())) != len(self.keys):
            raise ValueError("one public key has two names")
        for name, role in self.roles.items():
            _check_role(name, role, self.keys.keys())
        if any(rule.accept_unsure_clock for tier, rule in self.tiers.items() if tier is not Tier.LOW):
            raise ValueError("only the low tier may accept an unsure clock")
        for action, rule in self.actions.items():
            if rule.tier is Tier.HIGH and rule.approvals is None:
                raise ValueError(f"action {action}: one of the high tier needs approvals")
        if self.bans.keys - self.keys.keys():
            raise ValueError("bans: a key that is not listed")
        return self

    def tier_rule(self, tier: Tier) -> TierRule:
        """The rule of a tier, or the default."""
        return self.tiers.get(tier, TierRule())

    def breaker_of(self, action: ActionName) -> BreakerRule:
        """How much is too much of an action; of the high tier half as much is (SPEC Q8)."""
        rule = self.actions.get(action)
        return self.breaker.strict if rule is not None and rule.tier is Tier.HIGH else self.breaker


def _check_role(name: str, role: Role, keys: AbstractSet[str]) -> None:
    if role.keys - keys:
        raise ValueError(f"role {name} names a key that is not listed")
    if (role.kind is RoleKind.LOCAL_OPERATOR) == bool(role.keys):
        raise ValueError(f"role {name}: a local operator's key is the hub's own, others are listed")
    if role.hubs and role.kind is not RoleKind.LOCAL_OPERATOR:
        # It would hold at every hub, which is not what was meant.
        raise ValueError(f"role {name}: only a local operator's role names hubs")
    if role.kind is RoleKind.STOP and not {role.actions, role.devices} <= {"*", frozenset()}:
        # An order is about the whole hub: it would let them do more than what stands there.
        raise ValueError(f"role {name}: one that stops names no actions and no devices")


# A policy has up to 64 keys, and each command asks for the ids of all of them.
@lru_cache(maxsize=256)
def id_of_key(public: bytes) -> KeyId:
    """The id of an Ed25519 public key: the sha256 of its 32 raw bytes."""
    return KeyId(sha256(public).hexdigest())
