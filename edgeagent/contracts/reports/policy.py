"""The policy in force, for people."""

from typing import Annotated

from pydantic import Field

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.door import Contract
from edgeagent.contracts.policy import ApprovalRule, Level, RoleKind, Tier
from edgeagent.contracts.scalars import (
    ArtifactIdField,
    DeviceIdField,
    DigestField,
    Duration,
    KeyIdField,
    Timestamp,
)


class RoleShown(Contract):
    """A role and its holders.

    Attributes:
        kind: what they may sign.
        holders: their keys by name, or the hubs whose own key it is.
        actions: which actions; ``*`` for all.
        devices: on which devices; ``*`` for all.
        not_before: from when on.
        not_after: until when.
    """

    kind: RoleKind = Field(strict=False)
    holders: list[str]
    actions: list[str]
    devices: list[str]
    not_before: Timestamp | None = None
    not_after: Timestamp | None = None


class BansShown(Contract):
    """What is never to be done."""

    actions: list[str]
    devices: list[str]
    keys: list[str]


class ActionReport(Contract):
    """What stands about an action.

    Attributes:
        action: which.
        device: on which device it was asked; None for any.
        allowed: whether the policy has a rule for it.
        tier: its lane and rules.
        confirmation: the level at which it has succeeded.
        longest_validity: the most time between a command's issue and its expiry.
        approvals: who else has to agree; nobody if absent.
        issuers: who may issue it, by name.
        approvers: whose further signature counts, by name.
        at_this_hub: whether people at this hub may type it.
        banned: why it is banned; empty when it is not.
        stopped: the kind by which it is stopped; None when it is free.
    """

    action: ActionName = Field(strict=False)
    device: DeviceIdField | None = None
    allowed: bool
    tier: Annotated[Tier, Field(strict=False)] | None = None
    confirmation: Annotated[Level, Field(strict=False)] | None = None
    longest_validity: Duration | None = None
    approvals: ApprovalRule | None = None
    issuers: list[str]
    approvers: list[str]
    at_this_hub: bool
    banned: str = ""
    stopped: str | None = None


class PolicyShown(Contract):
    """The policy in force.

    Attributes:
        version: grows with each policy.
        issued_at: when it was signed.
        expires_at: until when it may be used.
        expired: whether that is certainly over.
        signers: the ids of the keys that signed it.
        keys: the ids of the keys that it lists, by name.
        roles: by name.
        actions: the rule of each action that has one.
        bans: what is never to be done.
        artifacts: the sha256 of each file that may be installed, by the artifact's id.
    """

    version: int
    issued_at: Timestamp
    expires_at: Timestamp
    expired: bool
    signers: list[KeyIdField]
    keys: dict[str, KeyIdField]
    roles: dict[str, RoleShown]
    actions: list[ActionReport]
    bans: BansShown
    artifacts: dict[ArtifactIdField, list[DigestField]]
