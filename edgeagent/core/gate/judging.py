"""The judgement itself; the order is that of the room's docstring."""

from edgeagent.contracts.actions import CATALOGUE, Effect
from edgeagent.contracts.command import Command, Precondition
from edgeagent.contracts.policy import ActionRule, Policy
from edgeagent.contracts.reasons import Reason
from edgeagent.core.freshness import Validity, largest_sequence, validity
from edgeagent.core.gate.approval import lacks_approval, lacks_word
from edgeagent.core.gate.artifacts import not_installed
from edgeagent.core.gate.halting import halted
from edgeagent.core.gate.roles import granted
from edgeagent.core.gate.verdict import (
    Accept,
    AddSignatures,
    Duplicate,
    Hold,
    Moment,
    Opened,
    Refuse,
    Verdict,
)
from edgeagent.core.gate.world import World
from edgeagent.core.operation import OperationState
from edgeagent.core.shadow import Shadow
from edgeagent.errors import MalformedError, RejectedError


def judge(asked: Opened, world: World, moment: Moment) -> Verdict:
    """Decide whether a command may be done; see the room's docstring for the order."""
    command = asked.command
    if world.policy is None:
        return Refuse(Reason.NO_POLICY)
    known = _identity(asked, world) if moment is Moment.ADMIT else None
    span = _span(command, world)
    late = _past(command, span, world) or halted(asked, world, world.policy, moment)
    early = _addressed(command, world) or known or late
    grant = granted(asked, world, world.policy)
    if early is not None:
        return early
    if isinstance(grant, Refuse):
        return _counted(grant, world, moment)
    issuer, rule = grant
    refusal = (
        _too_long(command, world, rule)
        or not_installed(command, world.policy, world)
        or _possible(command, world)
    )
    if refusal is not None:
        refusal = _counted(refusal, world, moment)
    elif moment is Moment.ACT:
        refusal = _fitting(command, world)
    refusal = refusal or _said(command, world)
    if refusal is not None:
        return refusal
    hold = _unsure(span, world.policy, rule) or _ahead(command, world)
    if hold is None and (lacks_approval(asked, world, issuer, rule) or lacks_word(world, moment)):
        hold = Reason.NEEDS_APPROVAL
    hold = hold or _unknown(command, world)
    if hold is not None:
        return Hold(hold, issuer, rule)
    return Accept(issuer, rule, _stale(command.precondition, world.shadow))


def _counted(refusal: Refuse, world: World, moment: Moment) -> Refuse:
    """What is wrong is refused by a breaker that lets commands wait, as it is by every other.

    So a storm of it is counted, and not put on record one by one (SPEC T9).
    """
    if moment is not Moment.ADMIT or world.shut is None:
        return refusal
    return Refuse(Reason.BREAKER_OPEN, world.shut.detail)


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


def _past(command: Command, span: Validity, world: World) -> Refuse | None:
    if world.local is None and world.forgotten is not None and command.expires_at <= world.forgotten:
        # It may have been done and be forgotten; a clock that was set back must not bring it back (SPEC T4).
        return Refuse(Reason.EXPIRED, f"what expired by {world.forgotten:%Y-%m-%dT%H:%M:%SZ} is over")
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
    if world.policy is not None and _is_over(world.policy, world, rule):
        return Refuse(Reason.POLICY_EXPIRED)
    if command.expires_at - command.issued_at > rule.longest_validity:
        return Refuse(Reason.VALID_TOO_LONG, f"the policy allows {rule.longest_validity}")
    return None


def _is_over(policy: Policy, world: World, rule: ActionRule) -> bool:
    """Whether the policy's time is certainly over, and the grace that it gives to the action's tier."""
    until = policy.expires_at
    if world.policy_until is not None:
        until = min(until, world.policy_until)
    return world.wall.earliest >= until and world.wall.earliest - until >= policy.tier_rule(rule.tier).grace


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
