"""The gate: may this be done? One function of values, asked at each moment that matters.

    size > shape, payload type > signatures > schema                    ``opened``
    > hub, epoch > identity > sequence > superseded? > validity          ``judge``
    > issuer, action > device > arguments > state, precondition > operation

Cheapest and most certain first, so that what is refused early costs little and what is told to an
unknown sender says little. The same function is asked when a command comes in (ADMIT), right before
anything is sent to its device (ACT), and when a dead letter is replayed (REPLAY). Identity is that of
the payload bytes, never of the envelope around them.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from edgeagent.clock import BootId, Wall
from edgeagent.contracts.actions import CATALOGUE, ActionName, Arguments, Effect
from edgeagent.contracts.command import COMMAND_BYTES, COMMAND_TYPE, Command, Precondition
from edgeagent.contracts.door import decode
from edgeagent.contracts.policy import ActionRule, Level, Policy, Role, RoleKind, id_of_key
from edgeagent.contracts.reasons import Reason
from edgeagent.core.envelope import Keyring, RefusedEnvelopeError, Verified, verify
from edgeagent.core.freshness import BootDeadline, Validity, largest_sequence, validity
from edgeagent.core.operation import OperationState
from edgeagent.core.shadow import Shadow
from edgeagent.errors import MalformedError, RejectedError
from edgeagent.ids import CommandId, Digest, Epoch, HubId, KeyId


class Moment(StrEnum):
    """When the gate is asked."""

    ADMIT = "admit"
    """The command has come."""
    ACT = "act"
    """Its device is locked for it; the next thing is to send."""
    REPLAY = "replay"
    """A person wants a dead letter to run again."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A command and the bytes that prove it."""

    command: Command
    verified: Verified


@dataclass(frozen=True, slots=True)
class Accept:
    """It may be done.

    Attributes:
        issuer: the key in whose name.
        rule: how the policy wants it carried out.
        stale: what the precondition would be refused for now; advisory, at ADMIT only.
    """

    issuer: KeyId
    rule: ActionRule
    stale: str = ""


@dataclass(frozen=True, slots=True)
class Refuse:
    """It may not be done, now or ever.

    Attributes:
        reason: why, as a code.
        detail: why, for people.
        answer: the command whose stored result is the answer.
    """

    reason: Reason
    detail: str = ""
    answer: CommandId | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """It cannot be said yet."""

    reason: Reason
    issuer: KeyId
    rule: ActionRule


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The same payload has come before: its stored result is the answer."""


@dataclass(frozen=True, slots=True)
class AddSignatures:
    """The same payload has come before and is held; this envelope carries signatures that it lacks."""


Verdict = Accept | Refuse | Hold | Duplicate | AddSignatures


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
    """What is stored of a command with this id.

    Attributes:
        sha256: of its payload.
        held: whether it waits for more signatures or for the time.
        signers: the keys that are known to have signed it.
    """

    sha256: Digest
    held: bool
    signers: frozenset[KeyId]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything that a judgement depends on, at one instant.

    Attributes:
        hub: this hub.
        epoch: the life of its database.
        policy: in force; None for none.
        operator_key: the hub's own public key; None when it has none.
        wall: what is known of the time.
        boot: boot time, with the boot that it counts in.
        local: until when a command typed at this hub is good; None for one from elsewhere.
        device: the device that the command names; None when it is not admitted.
        shadow: what is known of it.
        known: what is stored under the command's id.
        sequence_of: whose the command's sequence number is already.
        superseded_by: a later command of the same issuer, device and slot.
        operation: what became of the command's operation, and which command said it.
    """

    hub: HubId
    epoch: Epoch
    policy: Policy | None
    operator_key: bytes | None
    wall: Wall
    boot: tuple[BootId, timedelta]
    local: BootDeadline | None = None
    device: DeviceFacts | None = None
    shadow: Shadow | None = None
    known: Known | None = None
    sequence_of: CommandId | None = None
    superseded_by: CommandId | None = None
    operation: tuple[OperationState, CommandId] | None = None


def keyring(policy: Policy | None, hub: HubId, operator_key: bytes | None) -> Keyring:
    """The keys whose signature under a command counts: those of command roles, and the hub's own."""
    if policy is None:
        return {}
    kinds = {role.kind for role in policy.roles.values()}
    names = {name for role in policy.roles.values() if role.kind is RoleKind.COMMAND for name in role.keys}
    raws = [bytes.fromhex(policy.keys[name]) for name in names]
    if operator_key is not None and RoleKind.LOCAL_OPERATOR in kinds and _local_roles(policy, hub):
        raws.append(operator_key)
    return {id_of_key(raw): raw for raw in raws}


def opened(raw: bytes, keys: Keyring) -> Opened:
    """Verify an envelope and read the command in it.

    Raises:
        RefusedEnvelopeError: with the reason.
    """
    verified = verify(raw, keys, COMMAND_TYPE, limit=COMMAND_BYTES)
    try:
        return Opened(decode(Command, verified.payload, limit=COMMAND_BYTES), verified)
    except MalformedError as why:
        raise RefusedEnvelopeError(Reason.MALFORMED, str(why)) from why


def speaker(asked: Opened, world: World) -> KeyId:
    """The key in whose name a command speaks: the first that may, else the first that signed."""
    granted = Refuse(Reason.NO_POLICY) if world.policy is None else _granted(asked, world, world.policy)
    return asked.verified.signers[0] if isinstance(granted, Refuse) else granted[0]


def judge(asked: Opened, world: World, moment: Moment) -> Verdict:
    """Decide whether a command may be done; see the module's docstring for the order."""
    command = asked.command
    if world.policy is None:
        return Refuse(Reason.NO_POLICY)
    known = _identity(asked, world) if moment is Moment.ADMIT else None
    span = _span(command, world)
    early = _addressed(command, world) or known or _past(span, world)
    granted = _granted(asked, world, world.policy)
    if early is not None:
        return early
    if isinstance(granted, Refuse):
        return granted
    issuer, rule = granted
    refusal = _too_long(command, world, rule) or _possible(command, world)
    if refusal is None and moment is Moment.ACT:
        refusal = _fitting(command, world)
    refusal = refusal or _said(command, world)
    if refusal is not None:
        return refusal
    hold = _unsure(span, world.policy, rule) or _ahead(command, world) or _unknown(command, world)
    if hold is not None:
        return Hold(hold, issuer, rule)
    return Accept(issuer, rule, _stale(command.precondition, world.shadow))


def _addressed(command: Command, world: World) -> Refuse | None:
    if command.hub != world.hub:
        return Refuse(Reason.WRONG_HUB)
    if command.epoch != world.epoch:
        return Refuse(Reason.WRONG_EPOCH, f"this hub's epoch is {world.epoch}")
    return None


def _identity(asked: Opened, world: World) -> Verdict | None:
    known = world.known
    if known is not None:
        if known.sha256 != asked.verified.sha256:
            return Refuse(Reason.ID_CONFLICT)
        more = not known.signers.issuperset(asked.verified.signers)
        return AddSignatures() if known.held and more else Duplicate()
    if world.sequence_of is not None:
        return Refuse(Reason.SEQUENCE_CONFLICT, f"it is that of {world.sequence_of}")
    return None


def _past(span: Validity, world: World) -> Refuse | None:
    if world.superseded_by is not None:
        return Refuse(Reason.SUPERSEDED, f"by {world.superseded_by}")
    return Refuse(Reason.EXPIRED) if span is Validity.EXPIRED else None


def _span(command: Command, world: World) -> Validity:
    """Whether a command's time is right: by boot time for one typed here, else by the wall clock."""
    if world.local is not None:
        boot_id, now = world.boot
        return Validity.EXPIRED if world.local.passed(boot_id, now) else Validity.VALID
    return validity(command.issued_at, command.expires_at, world.wall)


def _too_long(command: Command, world: World, rule: ActionRule) -> Refuse | None:
    if world.policy is not None and world.wall.earliest >= world.policy.expires_at:
        return Refuse(Reason.POLICY_EXPIRED)
    if command.expires_at - command.issued_at > rule.longest_validity:
        return Refuse(Reason.VALID_TOO_LONG, f"the policy allows {rule.longest_validity}")
    return None


def _unsure(span: Validity, policy: Policy, rule: ActionRule) -> Reason | None:
    """Why a command has to wait for the time; None when it need not."""
    if span is Validity.NOT_YET:
        return Reason.NOT_YET_VALID
    if span is Validity.UNSURE and not policy.tier_rule(rule.tier).accept_unsure_clock:
        return Reason.CLOCK_UNSURE
    return None


def _ahead(command: Command, world: World) -> Reason | None:
    """Whether a command's sequence is that of a far future. What is typed here follows its own key's last."""
    is_ahead = world.local is None and command.sequence > largest_sequence(world.wall)
    return Reason.NOT_YET_VALID if is_ahead else None


def _granted(asked: Opened, world: World, policy: Policy) -> tuple[KeyId, ActionRule] | Refuse:
    """The first signer whose role covers the action on the device, and the action's rule."""
    command = asked.command
    rule = policy.actions.get(command.action)
    if rule is None:
        return Refuse(Reason.NOT_ALLOWED, f"the policy has no rule for {command.action}")
    own = None if world.operator_key is None else id_of_key(world.operator_key)
    for signer in asked.verified.signers:
        # The hub's own key speaks for commands typed at this hub, and for nothing else.
        roles = _local_roles(policy, world.hub) if signer == own else _roles_of(policy, signer)
        if signer == own and world.local is None:
            continue
        if any(role.covers(command.action, command.device) and _in_time(role, world.wall) for role in roles):
            return signer, rule
    return Refuse(Reason.NOT_ALLOWED, f"no signer may {command.action} {command.device}")


def _possible(command: Command, world: World) -> Refuse | None:
    if world.device is None:
        return Refuse(Reason.DEVICE_UNKNOWN)
    try:
        CATALOGUE[command.action].check(command.arguments)
        world.device.check(command.action, command.arguments)
    except MalformedError as why:
        return Refuse(Reason.BAD_ARGUMENTS, str(why))
    except RejectedError as why:
        return Refuse(Reason.UNSUPPORTED_ACTION, str(why))
    rule = None if world.policy is None else world.policy.actions.get(command.action)
    if rule is not None and not world.device.best(command.action).reaches(rule.confirmation):
        return Refuse(Reason.CANNOT_CONFIRM, f"the policy asks for {rule.confirmation}")
    return None


def _fitting(command: Command, world: World) -> Refuse | None:
    """Whether the device is as the issuer and the action need it: binding right before the act."""
    stale = _stale(command.precondition, world.shadow)
    if stale:
        return Refuse(Reason.STALE, stale)
    if world.device is None or world.shadow is None:
        return None
    unfit = world.device.unfit(command.action, command.arguments, world.shadow)
    return Refuse(Reason.UNFIT_STATE, unfit) if unfit else None


def _stale(precondition: Precondition | None, shadow: Shadow | None) -> str:
    """How the device differs from what the issuer decided on; empty when it does not."""
    if precondition is None:
        return ""
    if shadow is None:
        return "nothing is known of the device"
    if precondition.version is not None and precondition.version != shadow.version:
        return f"the device is at version {shadow.version}, not {precondition.version}"
    if precondition.etag is not None and precondition.etag != shadow.etag:
        return f"the device is at etag {shadow.etag}"
    for name, version in precondition.readings.items():
        held = shadow.state.get(name)
        if held is None or held.version != version:
            return f"{name} is at version {0 if held is None else held.version}, not {version}"
    return ""


def _said(command: Command, world: World) -> Refuse | None:
    """Whether the operation is under way or done; its command's result is the answer."""
    state, said_by = world.operation or (OperationState.FAILED, command.id)
    if said_by == command.id:
        return None
    if state is OperationState.PROCESSING:
        return Refuse(Reason.OPERATION_RUNNING, f"by {said_by}", said_by)
    if state is OperationState.COMPLETED:
        return Refuse(Reason.OPERATION_DONE, f"by {said_by}", said_by)
    return None


def _unknown(command: Command, world: World) -> Reason | None:
    """Whether an earlier try of a one-shot may have worked: then a person or a fresh read has to tell."""
    state, said_by = world.operation or (OperationState.FAILED, command.id)
    one_shot = CATALOGUE[command.action].effect is Effect.ONE_SHOT
    if state is OperationState.UNKNOWN and said_by != command.id and one_shot:
        return Reason.OUTCOME_UNKNOWN
    return None


def _roles_of(policy: Policy, signer: KeyId) -> list[Role]:
    names = {name for name, public in policy.keys.items() if id_of_key(bytes.fromhex(public)) == signer}
    return [role for role in policy.roles.values() if role.kind is RoleKind.COMMAND and role.keys & names]


def _local_roles(policy: Policy, hub: HubId) -> list[Role]:
    return [
        role for role in policy.roles.values() if role.kind is RoleKind.LOCAL_OPERATOR and hub in role.hubs
    ]


def _in_time(role: Role, wall: Wall) -> bool:
    """Whether a role holds now. Where the clock cannot tell, it does not."""
    begun = role.not_before is None or wall.earliest >= role.not_before
    ended = role.not_after is not None and (wall.latest is None or wall.latest >= role.not_after)
    return begun and not ended
