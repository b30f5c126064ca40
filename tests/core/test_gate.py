"""The gate, rule by rule. Which of several faults it names is told in ``test_gate_order``."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import Precondition
from edgeagent.contracts.policy import (
    ActionRule,
    ApprovalRule,
    Level,
    Policy,
    Role,
    RoleKind,
    Tier,
    TierRule,
)
from edgeagent.contracts.reasons import Reason
from edgeagent.core.freshness import BootDeadline
from edgeagent.core.gate.roles import speaker
from edgeagent.core.gate.verdict import Accept, AddSignatures, Duplicate, Hold, Moment, Refuse, Verdict
from edgeagent.core.gate.world import Known, World
from edgeagent.core.operation import OperationState
from edgeagent.core.shadow import Shadow
from edgeagent.ids import CommandId, Digest, ReadingName
from tests.core.gating import (
    DESK,
    HOUR,
    LOW,
    MEDIUM,
    MINUTE,
    NIGHT,
    OPERATORS,
    OWN,
    POWER,
    SECOND,
    STRANGER,
    Lamp,
    asked,
    judged,
    policy,
    shadow,
    wall,
    world,
)
from tests.support.clocks import FIRST_BOOT, NOON
from tests.support.keys import MemoryKey

OTHER = CommandId("c-0")
TOGGLE: dict[str, object] = {"action": ActionName.TOGGLE, "arguments": {}}


def refused(verdict: Verdict) -> Reason:
    """Why a command was refused."""
    assert isinstance(verdict, Refuse), verdict
    return verdict.reason


def held(verdict: Verdict) -> Reason:
    """Why a command is held."""
    assert isinstance(verdict, Hold), verdict
    return verdict.reason


def with_roles(**roles: Role) -> Policy:
    """A policy with these roles only."""
    return policy(roles=roles)


def known(*signers: MemoryKey, is_held: bool, sha256: Digest | None = None) -> Known:
    """What is stored of the command of these tests."""
    same = asked().verified.sha256
    return Known(sha256=sha256 or same, held=is_held, signers=frozenset(key.id for key in signers))


# Identity.


@pytest.mark.requirement("T4")
@pytest.mark.parametrize(
    ("stored", "signers", "expected"),
    [
        pytest.param(known(DESK, is_held=False), (DESK,), Duplicate, id="the same again"),
        pytest.param(known(DESK, is_held=False), (DESK, NIGHT), Duplicate, id="not held, signed once more"),
        pytest.param(known(DESK, is_held=True), (DESK,), Duplicate, id="held, nothing new"),
        pytest.param(known(DESK, NIGHT, is_held=True), (NIGHT,), Duplicate, id="held, with fewer"),
        pytest.param(known(DESK, is_held=True), (NIGHT,), AddSignatures, id="held, with another"),
        pytest.param(known(DESK, is_held=True), (DESK, NIGHT), AddSignatures, id="held, with one more"),
    ],
)
def test_the_same_payload_is_known_whoever_has_signed_it_meanwhile(
    stored: Known, signers: tuple[MemoryKey, ...], expected: type[Verdict]
) -> None:
    assert isinstance(judged(world(known=stored), Moment.ADMIT, *signers), expected)


@pytest.mark.requirement("T4")
def test_other_payload_bytes_under_a_known_id_are_a_conflict_and_never_add_signatures() -> None:
    stored = known(DESK, is_held=True, sha256=Digest("0" * 64))

    assert refused(judged(world(known=stored), Moment.ADMIT, NIGHT)) is Reason.ID_CONFLICT


@pytest.mark.requirement("V4")
@pytest.mark.parametrize("moment", [Moment.ACT, Moment.REPLAY])
def test_a_command_is_no_repeat_of_itself_when_it_is_judged_again(moment: Moment) -> None:
    verdict = judged(world(known=known(DESK, is_held=False), sequence_of=CommandId("c-1")), moment)

    assert isinstance(verdict, Accept)


# Whose word counts.


@pytest.mark.requirement("T2", "V2")
def test_a_command_speaks_in_the_name_of_the_first_signer_who_may() -> None:
    verdict = judged(world(), Moment.ADMIT, STRANGER, NIGHT, DESK)

    assert isinstance(verdict, Accept)
    assert verdict.issuer == NIGHT.id
    assert speaker(asked(STRANGER, NIGHT, DESK), world()) == NIGHT.id


@pytest.mark.requirement("T9")
def test_one_whose_signers_may_nothing_is_counted_under_the_first_of_them() -> None:
    assert speaker(asked(STRANGER), world()) == STRANGER.id
    assert speaker(asked(STRANGER), world(policy=None)) == STRANGER.id


@pytest.mark.requirement("T2", "V2")
@pytest.mark.parametrize(
    "role",
    [
        pytest.param(OPERATORS.model_copy(update={"actions": frozenset({ActionName.MUTE})}), id="action"),
        pytest.param(OPERATORS.model_copy(update={"devices": frozenset({"lamp-2"})}), id="device"),
        pytest.param(OPERATORS.model_copy(update={"keys": frozenset({"night"})}), id="key"),
        pytest.param(OPERATORS.model_copy(update={"kind": RoleKind.TIME}), id="kind"),
        pytest.param(OPERATORS.model_copy(update={"not_before": NOON + MINUTE}), id="not begun"),
        pytest.param(OPERATORS.model_copy(update={"not_after": NOON - MINUTE}), id="ended"),
        pytest.param(OPERATORS.model_copy(update={"not_after": NOON + SECOND / 100}), id="may have ended"),
    ],
)
def test_a_role_that_does_not_cover_the_command_is_none(role: Role) -> None:
    assert refused(judged(world(policy=with_roles(operators=role)))) is Reason.NOT_ALLOWED


@pytest.mark.requirement("T2", "T5")
def test_a_role_with_an_end_does_not_hold_while_the_clock_cannot_tell() -> None:
    role = OPERATORS.model_copy(update={"not_after": NOON + 1000 * HOUR})
    around = world(policy=with_roles(operators=role), wall=wall(error=None))

    assert refused(judged(around)) is Reason.NOT_ALLOWED


@pytest.mark.requirement("T2")
def test_an_action_without_a_rule_is_not_allowed_to_anybody() -> None:
    around = world(policy=policy(actions={ActionName.TOGGLE: MEDIUM}))

    assert refused(judged(around)) is Reason.NOT_ALLOWED


@pytest.mark.requirement("M2", "V2")
def test_a_device_that_can_prove_just_the_level_that_is_asked_for_is_enough() -> None:
    rule = LOW.model_copy(update={"confirmation": Level.ACCEPTED})
    around = world(policy=policy(actions={ActionName.POWER: rule}), device=Lamp(Level.ACCEPTED))

    assert isinstance(judged(around), Accept)


# The time.


@pytest.mark.requirement("T5")
@pytest.mark.parametrize("tier", [Tier.MEDIUM, Tier.HIGH])
def test_while_the_time_is_not_known_medium_and_high_are_held(tier: Tier) -> None:
    rule = ActionRule(tier=tier, approvals=ApprovalRule(at_hub=True))
    around = world(policy=policy(actions={ActionName.POWER: rule}), wall=wall(error=None))

    for moment in Moment:
        assert held(judged(around, moment)) is Reason.CLOCK_UNSURE


@pytest.mark.requirement("T5")
@pytest.mark.parametrize(("accepts", "expected"), [(True, Accept), (False, Hold)])
def test_low_is_held_unless_the_policy_lets_it_begin(
    accepts: bool,  # noqa: FBT001 - a column of the table
    expected: type[Verdict],
) -> None:
    tiers = {Tier.LOW: TierRule(accept_unsure_clock=accepts)}
    around = world(policy=policy(tiers=tiers), wall=wall(error=None))

    assert isinstance(judged(around), expected)


@pytest.mark.requirement("T5", "R4")
def test_what_is_certainly_over_is_expired_even_while_the_time_is_not_known() -> None:
    around = world(wall=wall(error=None, ahead=6 * MINUTE))

    assert refused(judged(around)) is Reason.EXPIRED


@pytest.mark.requirement("T5")
def test_a_command_is_held_whose_issuers_clock_is_far_ahead_of_ours() -> None:
    fields: dict[str, object] = {"issued_at": NOON + HOUR, "expires_at": NOON + HOUR + MINUTE}

    assert held(judged(world(), Moment.ADMIT, **fields)) is Reason.NOT_YET_VALID
    assert isinstance(judged(world(wall=wall(ahead=HOUR)), Moment.ADMIT, **fields), Accept)


@pytest.mark.requirement("T4")
def test_a_sequence_of_a_far_future_is_held_and_not_what_follows_a_keys_own_last() -> None:
    fields: dict[str, object] = {"sequence": 2**63 - 1}
    typed = world(local=BootDeadline(FIRST_BOOT, HOUR + MINUTE))

    for moment in Moment:
        assert held(judged(world(), moment, **fields)) is Reason.NOT_YET_VALID
    assert isinstance(judged(typed, Moment.ADMIT, OWN, **fields), Accept)


# What the device is and shows.


@pytest.mark.requirement("C2")
@pytest.mark.parametrize(
    ("precondition", "is_stale"),
    [
        pytest.param(Precondition(version=5), False, id="version"),
        pytest.param(Precondition(version=4), True, id="older version"),
        pytest.param(Precondition(version=6), True, id="version of another life"),
        pytest.param(Precondition(etag=shadow().etag), False, id="etag"),
        pytest.param(Precondition(etag="0" * 16), True, id="other etag"),
        pytest.param(Precondition(readings={POWER: 5}), False, id="reading"),
        pytest.param(Precondition(readings={POWER: 4}), True, id="older reading"),
        pytest.param(
            Precondition(readings={ReadingName("volume"): 1}), True, id="reading that was never heard"
        ),
        pytest.param(Precondition(version=5, readings={POWER: 4}), True, id="one of two"),
        pytest.param(Precondition(), False, id="nothing compared"),
    ],
)
def test_the_state_that_was_decided_on_binds_before_the_act_and_advises_on_coming(
    precondition: Precondition,
    is_stale: bool,  # noqa: FBT001 - a column of the table
) -> None:
    coming = judged(world(), precondition=precondition)
    acting = judged(world(), Moment.ACT, precondition=precondition)

    assert isinstance(coming, Accept)
    assert bool(coming.stale) is is_stale
    assert isinstance(acting, Refuse if is_stale else Accept)


@pytest.mark.requirement("C2")
@pytest.mark.parametrize("nothing", [None, Shadow(0, "0" * 16)], ids=["no shadow", "empty shadow"])
def test_a_precondition_on_a_device_of_which_nothing_is_known_is_stale(nothing: Shadow | None) -> None:
    verdict = judged(world(shadow=nothing), Moment.ACT, precondition=Precondition(readings={POWER: 5}))

    assert refused(verdict) is Reason.STALE


@pytest.mark.requirement("V2", "V4")
def test_a_state_in_which_it_cannot_be_done_is_looked_at_right_before_the_act_only() -> None:
    dim: dict[str, object] = {"action": ActionName.BRIGHTNESS, "arguments": {"level": 20}}
    around = world(shadow=shadow(on=False))

    assert isinstance(judged(around, Moment.ADMIT, **dim), Accept)
    assert refused(judged(around, Moment.ACT, **dim)) is Reason.UNFIT_STATE
    assert isinstance(judged(world(shadow=None), Moment.ACT, **dim), Accept)


@pytest.mark.requirement("V1", "V2")
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({}, id="missing"),
        pytest.param({"level": 20, "topic": "cmnd/other/POWER"}, id="one more"),
        pytest.param({"level": True}, id="a truth for a number"),
        pytest.param({"level": 20.5}, id="a fraction for a whole number"),
        pytest.param({"level": 101}, id="beyond the catalogue"),
        pytest.param({"level": 5}, id="beyond the device"),
    ],
)
def test_arguments_are_those_of_the_catalogue_and_of_the_device(arguments: dict[str, object]) -> None:
    verdict = judged(world(), action=ActionName.BRIGHTNESS, arguments=arguments)

    assert refused(verdict) is Reason.BAD_ARGUMENTS


# Operations.


@pytest.mark.requirement("I2", "I3")
@pytest.mark.parametrize(
    ("state", "absolute", "one_shot"),
    [
        pytest.param(OperationState.PROCESSING, Reason.OPERATION_RUNNING, Reason.OPERATION_RUNNING),
        pytest.param(OperationState.COMPLETED, Reason.OPERATION_DONE, Reason.OPERATION_DONE),
        pytest.param(OperationState.FAILED, None, None),
        pytest.param(OperationState.UNKNOWN, None, Reason.OUTCOME_UNKNOWN),
    ],
    ids=str,
)
def test_an_operation_that_another_command_has_said(
    state: OperationState, absolute: Reason | None, one_shot: Reason | None
) -> None:
    around = world(operation=(state, OTHER))

    cases: list[tuple[dict[str, object], Reason | None]] = [({}, absolute), (TOGGLE, one_shot)]
    for fields, reason in cases:
        verdict = judged(around, Moment.ADMIT, **fields)
        if reason is None:
            assert isinstance(verdict, Accept)
        elif reason is Reason.OUTCOME_UNKNOWN:
            assert held(verdict) is reason
        else:
            assert refused(verdict) is reason
            assert isinstance(verdict, Refuse)
            assert verdict.answer == OTHER


@pytest.mark.requirement("I2")
@pytest.mark.parametrize("state", OperationState, ids=str)
@pytest.mark.parametrize("moment", Moment)
def test_a_command_never_stands_in_its_own_way(state: OperationState, moment: Moment) -> None:
    around = world(operation=(state, CommandId("c-1")))

    assert isinstance(judged(around, moment, **TOGGLE), Accept)


# Whatever comes.


@given(
    moment=st.sampled_from(Moment),
    superseded=st.booleans(),
    has_device=st.booleans(),
    error=st.none() | st.timedeltas(min_value=0 * SECOND, max_value=HOUR),
    ahead=st.timedeltas(min_value=-2 * HOUR, max_value=2 * HOUR),
    state=st.none() | st.sampled_from(OperationState),
)
def test_only_who_is_allowed_in_time_with_an_admitted_device_ever_passes(
    moment: Moment,
    superseded: bool,  # noqa: FBT001 - drawn
    has_device: bool,  # noqa: FBT001 - drawn
    error: object,
    ahead: object,
    state: OperationState | None,
) -> None:
    around: World = world(
        superseded_by=OTHER if superseded else None,
        device=Lamp() if has_device else None,
        wall=wall(error=error, ahead=ahead),  # type: ignore[arg-type]  # lengths of time
        operation=None if state is None else (state, OTHER),
    )

    verdict = judged(around, moment)

    if isinstance(verdict, Accept):
        latest = around.wall.latest
        assert not superseded
        assert has_device
        assert latest is not None
        assert latest < NOON + 5 * MINUTE
        assert state in {None, OperationState.FAILED, OperationState.UNKNOWN}
