"""Records of ``contracts/work`` as claims, worlds and answers, on the worker's side.

Nothing is taken as the daemon has judged it: the envelope is verified again, the policy's digest is held
against its bytes, the device is compiled from its profile, and the gate is asked here.
"""

from hashlib import sha256
from typing import Final

from edgeagent.clock import Wall
from edgeagent.contracts.door import decode
from edgeagent.contracts.policy import POLICY_BYTES, ActionRule, Policy, TierRule
from edgeagent.contracts.profile import PROFILE_BYTES, DeviceProfile
from edgeagent.contracts.work import (
    AnsweredRecord,
    ClaimRecord,
    ConfirmedRecord,
    ContradictedRecord,
    DeadlineRecord,
    DeviceRecord,
    MarkRecord,
    ShadowRecord,
    WallRecord,
    WorldRecord,
)
from edgeagent.contracts.work_update import (
    DeniedRecord,
    ServedRecord,
    SightRecord,
    UpdateRecord,
)
from edgeagent.core.confirmation import Confirmed, Contradicted, Denied
from edgeagent.core.firmware import Served, Sight, Terms, Update
from edgeagent.core.freshness import BootDeadline
from edgeagent.core.gate.opening import opened_for
from edgeagent.core.gate.roles import keyring
from edgeagent.core.gate.verdict import Opened
from edgeagent.core.gate.world import Approval, Known, World
from edgeagent.core.operation import OperationState
from edgeagent.core.profile.compile import Gateway, compile_device
from edgeagent.core.profile.facts import Facts
from edgeagent.core.profile.plan import Plan
from edgeagent.core.saga import Mark
from edgeagent.core.shadow import Shadow, StateReading
from edgeagent.core.updating import Course
from edgeagent.core.work import Answered, Claim
from edgeagent.errors import MalformedError
from edgeagent.ids import HubId

# As JSON it is longer than as the TOML that it was.
_PROFILE: Final = 4 * PROFILE_BYTES


def claim_of(record: ClaimRecord) -> Claim:
    """A claim, as it is to be judged and worked here.

    Raises:
        RefusedEnvelopeError: no key of the policy has signed this for that device.
        MalformedError: the daemon has sent what is no claim.
    """
    world = world_of(record.world)
    policy, device = world.policy, record.device
    asked = opened_for(device, record.envelope, keyring(policy, world.hub, world.operator_key))
    rule = None if policy is None else policy.actions.get(asked.command.action)
    return Claim(
        run=record.grip.run,
        asked=asked,
        envelope=record.envelope,
        world=world,
        rule=rule or ActionRule(tier=record.lane),
        tier=TierRule() if policy is None else policy.tier_rule(record.lane),
        token=record.grip.token,
        fence=record.grip.fence,
        attempts=record.attempts,
        sent=record.sent,
        force_refresh=record.force_refresh,
        before=None,
        plan=_plan(asked, world),
        steps=tuple(_mark(each) for each in record.steps),
        update=None if record.update is None else update_of(record.update),
        lease=record.lease,
        traceparent=record.traceparent,
    )


def world_of(record: WorldRecord) -> World:
    """What the gate judges by.

    Raises:
        MalformedError: the policy is none, or not that of its digest; the device does not fit its profile.
    """
    operation = record.operation
    return World(
        hub=record.hub,
        epoch=record.epoch,
        policy=_policy(record),
        policy_until=record.policy_until,
        operator_key=None if record.operator_key is None else bytes.fromhex(record.operator_key),
        wall=_wall(record.wall),
        boot=(record.boot.boot_id, record.boot.until),
        local=_deadline(record.local),
        device=None if record.device is None else _device(record.device, record.hub),
        shadow=None if record.shadow is None else _shadow(record.shadow),
        known=None
        if record.known is None
        else Known(
            sha256=record.known.sha256, held=record.known.held, signers=frozenset(record.known.signers)
        ),
        sequence_of=record.sequence_of,
        superseded_by=record.superseded_by,
        forgotten=record.forgotten,
        operation=None if operation is None else (_operation(operation.state), operation.command),
        stops=frozenset(record.stops),
        approvals=tuple(
            Approval(each.by, BootDeadline(each.until.boot_id, each.until.until)) for each in record.approvals
        ),
        actor=record.actor,
    )


def update_of(record: UpdateRecord) -> Update:
    """What is recorded of an update."""
    return Update(
        stage=record.stage,
        artifact=record.artifact,
        sha256=record.sha256,
        earlier=record.earlier,
        wanted=record.wanted,
        percent=record.percent,
        runs=record.runs,
    )


def served_of(record: ServedRecord) -> Served:
    """Where an update stands, and its terms."""
    terms = record.terms
    return Served(
        update_of(record.update),
        Terms(soak=terms.soak, lasts=terms.lasts, steps=terms.steps, can_go_back=terms.can_go_back),
    )


def sight_of(record: SightRecord) -> Sight:
    """What was seen of a device in an update."""
    course = record.course
    return Sight(
        course=Course(
            taken=course.taken,
            done=course.done,
            denied=None if course.denied is None else _denied(course.denied),
            percent=course.percent,
            remaining=course.remaining,
            signs=course.signs,
            gone=course.gone,
            back=course.back,
        ),
        overdue=record.overdue,
        is_over=record.is_over,
        runs=record.runs,
        version=record.version,
        steady=record.steady,
        waited=record.waited,
        is_there=record.is_there,
    )


def answered_of(record: AnsweredRecord) -> Answered:
    """What was heard so far."""
    return Answered(
        confirmed=None if record.confirmed is None else _confirmed(record.confirmed),
        denied=None if record.denied is None else _denied(record.denied),
        seen=Contradicted(record.seen.value)
        if isinstance(record.seen, ContradictedRecord)
        else (None if record.seen is None else _confirmed(record.seen)),
        is_over=record.is_over,
    )


def _policy(record: WorldRecord) -> Policy | None:
    if record.policy is None:
        return None
    if sha256(record.policy).hexdigest() != record.policy_sha256:
        raise MalformedError("the policy is not that of its digest")
    return decode(Policy, record.policy, limit=POLICY_BYTES)


def _device(record: DeviceRecord, hub: HubId) -> Facts:
    profile = decode(DeviceProfile, record.profile, limit=_PROFILE)
    return Facts(compile_device(profile, record.device, record.parameters, gateway=Gateway(hub)))


def _mark(record: MarkRecord) -> Mark:
    return Mark(
        part=record.part,
        name=record.name,
        phase=record.phase,
        tries=record.tries,
        before=record.before,
        level=record.level,
        reason=record.reason,
        detail=record.detail,
    )


def _plan(asked: Opened, world: World) -> Plan | None:
    """What the action needs and is to show; what is sent for it, only the daemon knows."""
    facts, command = world.device, asked.command
    if not isinstance(facts, Facts):
        return None
    try:
        return facts.compiled.plan(command.action, command.arguments, number=0)
    except MalformedError:
        # The gate says so at ACT, with its reason.
        return None


def _operation(state: str) -> OperationState:
    try:
        return OperationState(state)
    except ValueError as why:
        raise MalformedError("no state of an operation") from why


def _denied(record: DeniedRecord) -> Denied:
    return Denied(record.reason, record.words)


def _confirmed(record: ConfirmedRecord) -> Confirmed:
    return Confirmed(record.level, record.value)


def _wall(record: WallRecord) -> Wall:
    return Wall(best=record.best, earliest=record.earliest, latest=record.latest, source=record.source)


def _deadline(record: DeadlineRecord | None) -> BootDeadline | None:
    return None if record is None else BootDeadline(record.boot_id, record.until)


def _shadow(record: ShadowRecord) -> Shadow:
    return Shadow(
        record.version,
        record.etag,
        {
            name: StateReading(held.value, held.version, held.at, held.retained, live_at=held.live_at)
            for name, held in record.state.items()
        },
    )
