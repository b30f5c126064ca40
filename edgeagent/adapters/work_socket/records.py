"""Claims, worlds and answers as records of ``contracts/work``, on the daemon's side."""

from hashlib import sha256

from edgeagent.clock import Wall
from edgeagent.contracts.door import Contract, encode
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.work import (
    AnsweredRecord,
    ApprovalRecord,
    ClaimRecord,
    ConfirmedRecord,
    ContradictedRecord,
    DeadlineRecord,
    DeviceRecord,
    Grip,
    KnownRecord,
    MarkRecord,
    OperationRecord,
    ReadingRecord,
    ShadowRecord,
    WallRecord,
    WorldRecord,
)
from edgeagent.contracts.work_update import (
    CourseRecord,
    DeniedRecord,
    ServedRecord,
    SightRecord,
    TermsRecord,
    UpdateRecord,
)
from edgeagent.core.confirmation import Confirmed, Contradicted, Denied
from edgeagent.core.firmware import Served, Sight, Update
from edgeagent.core.freshness import BootDeadline
from edgeagent.core.gate.world import Known, World
from edgeagent.core.profile.facts import Facts
from edgeagent.core.shadow import Shadow
from edgeagent.core.work import Answered, Claim
from edgeagent.ids import digest


def claim_record(claim: Claim, lane: Tier) -> ClaimRecord:
    """A claim as it goes out."""
    return ClaimRecord(
        grip=Grip(run=claim.run, token=claim.token, fence=claim.fence),
        lane=lane,
        device=claim.device,
        envelope=claim.envelope,
        world=world_record(claim.world),
        attempts=claim.attempts,
        sent=claim.sent,
        force_refresh=claim.force_refresh,
        lease=claim.lease,
        steps=[
            MarkRecord(
                part=mark.part,
                name=mark.name,
                phase=mark.phase,
                tries=mark.tries,
                before=mark.before,
                level=mark.level,
                reason=mark.reason,
                detail=mark.detail,
            )
            for mark in claim.steps
        ],
        update=None if claim.update is None else update_record(claim.update),
        traceparent=claim.traceparent,
    )


def world_record(world: World) -> WorldRecord:
    """What the gate judges by."""
    policy = None if world.policy is None else encode(world.policy)
    facts = world.device
    operation = world.operation
    return WorldRecord(
        hub=world.hub,
        epoch=world.epoch,
        policy=policy,
        policy_sha256=None if policy is None else digest(sha256(policy).hexdigest()),
        policy_until=world.policy_until,
        operator_key=None if world.operator_key is None else world.operator_key.hex(),
        wall=_wall(world.wall),
        boot=DeadlineRecord(boot_id=world.boot[0], until=world.boot[1]),
        local=_deadline(world.local),
        device=_device(facts) if isinstance(facts, Facts) else None,
        shadow=None if world.shadow is None else _shadow(world.shadow),
        known=None if world.known is None else _known(world.known),
        sequence_of=world.sequence_of,
        superseded_by=world.superseded_by,
        forgotten=world.forgotten,
        operation=None if operation is None else OperationRecord(state=operation[0], command=operation[1]),
        stops=sorted(world.stops),
        approvals=[
            ApprovalRecord(
                by=each.by, until=DeadlineRecord(boot_id=each.until.boot_id, until=each.until.until)
            )
            for each in world.approvals
        ],
        actor=world.actor,
    )


def update_record(update: Update) -> UpdateRecord:
    """What is recorded of an update."""
    return UpdateRecord(
        stage=update.stage,
        artifact=update.artifact,
        sha256=update.sha256,
        earlier=update.earlier,
        wanted=update.wanted,
        percent=update.percent,
        runs=update.runs,
    )


def served_record(served: Served) -> ServedRecord:
    """Where an update stands, and its terms."""
    terms = served.terms
    return ServedRecord(
        update=update_record(served.update),
        terms=TermsRecord(
            soak=terms.soak, lasts=terms.lasts, steps=terms.steps, can_go_back=terms.can_go_back
        ),
    )


def sight_record(sight: Sight) -> SightRecord:
    """What was seen of a device in an update."""
    course = sight.course
    return SightRecord(
        course=CourseRecord(
            taken=course.taken,
            done=course.done,
            denied=None if course.denied is None else _denied(course.denied),
            percent=course.percent,
            remaining=course.remaining,
            signs=course.signs,
            gone=course.gone,
            back=course.back,
        ),
        overdue=sight.overdue,
        is_over=sight.is_over,
        runs=sight.runs,
        version=sight.version,
        steady=sight.steady,
        waited=sight.waited,
        is_there=sight.is_there,
    )


def answered_record(answered: Answered) -> AnsweredRecord:
    """What was heard so far."""
    seen = answered.seen
    return AnsweredRecord(
        confirmed=None if answered.confirmed is None else _confirmed(answered.confirmed),
        denied=None if answered.denied is None else _denied(answered.denied),
        seen=ContradictedRecord(value=seen.value)
        if isinstance(seen, Contradicted)
        else (None if seen is None else _confirmed(seen)),
        is_over=answered.is_over,
    )


def whole(profile: Contract) -> bytes:
    """A profile as it was written: only what was said, under the names that the file has."""
    return profile.model_dump_json(by_alias=True, exclude_unset=True).encode()


def _denied(denied: Denied) -> DeniedRecord:
    return DeniedRecord(reason=denied.reason, words=denied.words)


def _confirmed(confirmed: Confirmed) -> ConfirmedRecord:
    return ConfirmedRecord(level=confirmed.level, value=confirmed.value)


def _wall(wall: Wall) -> WallRecord:
    return WallRecord(best=wall.best, earliest=wall.earliest, latest=wall.latest, source=wall.source)


def _deadline(deadline: BootDeadline | None) -> DeadlineRecord | None:
    return None if deadline is None else DeadlineRecord(boot_id=deadline.boot_id, until=deadline.until)


def _device(facts: Facts) -> DeviceRecord:
    compiled = facts.compiled
    return DeviceRecord(
        device=compiled.device,
        profile=whole(compiled.profile),
        parameters={
            name: list(value) if isinstance(value, tuple) else value
            for name, value in compiled.parameters.items()
        },
    )


def _shadow(shadow: Shadow) -> ShadowRecord:
    return ShadowRecord(
        version=shadow.version,
        etag=shadow.etag,
        state={
            name: ReadingRecord(
                value=held.value,
                version=held.version,
                at=held.at,
                retained=held.retained,
                live_at=held.live_at,
            )
            for name, held in shadow.state.items()
        },
    )


def _known(known: Known) -> KnownRecord:
    return KnownRecord(sha256=known.sha256, held=known.held, signers=sorted(known.signers))
