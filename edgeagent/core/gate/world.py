"""Everything that a judgement depends on, at one instant."""

from datetime import datetime, timedelta
from typing import Protocol

from edgeagent.clock import BootId, Wall
from edgeagent.contracts.actions import ActionName, Arguments
from edgeagent.contracts.policy import Level, Policy
from edgeagent.core.breaker import Shut
from edgeagent.core.catalogue import Catalogue
from edgeagent.core.freshness import BootDeadline
from edgeagent.core.operation import OperationState
from edgeagent.core.shadow import Shadow
from edgeagent.ids import CommandId, Digest, Epoch, HubId, KeyId
from edgeagent.values import dataclass


class DeviceFacts(Protocol):
    """What the gate asks of a compiled device."""

    def check(self, action: ActionName, arguments: Arguments) -> None:
        """Refuse what this device cannot do.

        Raises:
            RejectedError: unsupported.
            MalformedError: an argument out of this device's range.
        """
        ...

    def best(self, action: ActionName) -> Level:
        """The highest level of confirmation that this device can give of a supported action."""
        ...

    def unfit(self, action: ActionName, arguments: Arguments, shadow: Shadow) -> str:
        """Why the device's present state does not allow the action; empty when it does."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is stored of a command with this id for this device.

    Where the id is that of another payload, of whatever devices, only that payload's digest counts.

    Attributes:
        sha256: of its payload.
        held: whether it waits for more signatures or for the time.
        signers: the keys that are known to have signed it.
    """

    sha256: Digest
    held: bool
    signers: frozenset[KeyId]


@dataclass(frozen=True, slots=True)
class Approval:
    """The word of somebody at this hub on exactly one payload for one device (SPEC T7).

    Attributes:
        by: who, as the kernel tells.
        until: how long it is good.
    """

    by: str
    until: BootDeadline


@dataclass(frozen=True, slots=True, kw_only=True)
class Appliance:
    """What a device is, for the choice of its firmware.

    Attributes:
        family: the id of its profile.
        model: as it tells it; None where it does not.
        hardware: the revision of its hardware; None where it does not tell.
        version: what it runs; None where it does not tell.
    """

    family: str
    model: str | None = None
    hardware: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything that a judgement depends on, at one instant.

    Attributes:
        hub: this hub.
        epoch: the life of its database.
        policy: in force; None for none.
        policy_until: when what stands behind the policy ends, if that is not the policy's own end alone.
        operator_key: the hub's own public key; None when it has none.
        wall: what is known of the time.
        boot: boot time, with the boot that it counts in.
        local: until when a command typed at this hub is good; None for one from elsewhere.
        device: the device that is meant; None when it is not admitted.
        shadow: what is known of it.
        known: what is stored under the command's id for the device.
        sequence_of: whose the command's sequence number is already.
        superseded_by: a later command of the same issuer, device and slot.
        forgotten: commands that expire by then may have been here and be forgotten; None for none.
        operation: what became of the command's operation, and which command said it.
        stops: the kinds of command that are stopped.
        approvals: of this run of the payload, by people at this hub.
        actor: who is on record for the command; empty while it has only come.
        shut: what the breaker of its origin and action has against it; binding but at ACT.
        catalogue: what is signed of artifacts; None where whoever judges cannot know it.
        appliance: what the device is; None where whoever judges cannot know it.
        serves_files: whether devices can fetch files from this hub; true where whoever judges cannot know it.
    """

    hub: HubId
    epoch: Epoch
    policy: Policy | None
    operator_key: bytes | None
    wall: Wall
    boot: tuple[BootId, timedelta]
    policy_until: datetime | None = None
    local: BootDeadline | None = None
    device: DeviceFacts | None = None
    shadow: Shadow | None = None
    known: Known | None = None
    sequence_of: CommandId | None = None
    superseded_by: CommandId | None = None
    forgotten: datetime | None = None
    operation: tuple[OperationState, CommandId] | None = None
    stops: frozenset[str] = frozenset()
    approvals: tuple[Approval, ...] = ()
    actor: str = ""
    shut: Shut | None = None
    catalogue: Catalogue | None = None
    appliance: Appliance | None = None
    serves_files: bool = True
