"""Approvals at the gate: who counts, who does not, and for what."""

from datetime import timedelta

import pytest

from edgeagent.clock import BootId
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.policy import ActionRule, ApprovalRule, Bans, Policy, Role, RoleKind, Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.core.freshness import BootDeadline
from edgeagent.core.gate.verdict import Accept, Hold, Moment, Refuse, Verdict
from edgeagent.core.gate.world import Approval
from edgeagent.ids import DeviceId
from tests.core.gating import (
    CHIEF,
    DEPUTY,
    DESK,
    HOUR,
    LAMP,
    LOCAL,
    MINUTE,
    NIGHT,
    NOW,
    OPERATORS,
    OWN,
    judged,
    policy,
    world,
)
from tests.support.clocks import NOON
from tests.support.keys import MemoryKey

pytestmark = pytest.mark.requirement("T7", "Q8")

ONE_HERE = ApprovalRule(at_hub=True)


def approving(
    rule: ApprovalRule, *, bans: Bans | None = None, approvers: frozenset[str] | None = None, **role: object
) -> Policy:
    """Power is of the high tier; the chief, the deputy and an operator may approve it."""
    holders = frozenset({"chief", "deputy", "night"}) if approvers is None else approvers
    fields: dict[str, object] = {"kind": RoleKind.APPROVE, "keys": holders, "actions": "*", "devices": "*"}
    return policy(
        keys={
            "desk": DESK.public.hex(),
            "night": NIGHT.public.hex(),
            "chief": CHIEF.public.hex(),
            "deputy": DEPUTY.public.hex(),
        },
        roles={
            "operators": OPERATORS,
            "local": LOCAL,
            "chiefs": Role(**(fields | role)),  # type: ignore[arg-type]  # checked as it is built
        },
        actions={ActionName.POWER: ActionRule(tier=Tier.HIGH, approvals=rule)},
        bans=bans or Bans(),
    )


def said(rule: ApprovalRule, *signers: MemoryKey, **role: object) -> Verdict:
    """What the gate says to a command with these signatures."""
    return judged(world(policy=approving(rule, **role)), Moment.ADMIT, *signers)  # type: ignore[arg-type]


def is_held(verdict: Verdict) -> bool:
    """Whether it waits for approval."""
    return isinstance(verdict, Hold) and verdict.reason is Reason.NEEDS_APPROVAL


@pytest.mark.parametrize(
    ("signatures", "signers", "enough"),
    [
        pytest.param(1, (DESK,), False, id="nobody else"),
        pytest.param(1, (DESK, CHIEF), True, id="one other"),
        pytest.param(1, (CHIEF, DESK), True, id="in the other order"),
        pytest.param(1, (DESK, CHIEF, CHIEF), True, id="the same twice is one"),
        pytest.param(2, (DESK, CHIEF, CHIEF), False, id="and does not count twice"),
        pytest.param(2, (DESK, CHIEF, DEPUTY), True, id="two others"),
        pytest.param(1, (NIGHT, NIGHT), False, id="an issuer who may approve, himself"),
        pytest.param(1, (DESK, NIGHT), True, id="an operator who may approve another's"),
        pytest.param(2, (NIGHT, CHIEF), False, id="the issuer is no approver of his own"),
    ],
)
def test_it_needs_as_many_other_signatures_as_the_policy_asks_for(
    signatures: int,
    signers: tuple[MemoryKey, ...],
    enough: bool,  # noqa: FBT001 - a column of the table
) -> None:
    verdict = said(ApprovalRule(signatures=signatures), *signers)

    assert isinstance(verdict, Accept) if enough else is_held(verdict)


@pytest.mark.parametrize(
    "role",
    [
        pytest.param({"actions": frozenset({ActionName.VOLUME})}, id="for another action"),
        pytest.param({"devices": frozenset({DeviceId("lamp-2")})}, id="for another device"),
        pytest.param({"not_after": NOON - MINUTE}, id="over"),
        pytest.param({"not_before": NOON + HOUR}, id="not begun"),
        pytest.param({"bans": Bans(keys=frozenset({"chief"}))}, id="of a banned key"),
        pytest.param({"approvers": frozenset({"deputy"})}, id="of nobody who approves"),
    ],
)
def test_an_approval_that_does_not_fit_does_not_count(role: dict[str, object]) -> None:
    assert is_held(said(ApprovalRule(), DESK, CHIEF)) is False
    verdict = said(ApprovalRule(), DESK, CHIEF, **role)

    # A key that the policy gives no role under commands is not even a signer.
    assert is_held(verdict)


def test_who_may_only_approve_issues_nothing() -> None:
    for signers in ((CHIEF,), (CHIEF, DEPUTY)):
        verdict = judged(world(policy=approving(ApprovalRule())), Moment.ADMIT, *signers)

        assert isinstance(verdict, Refuse)
        assert verdict.reason is Reason.NOT_ALLOWED


def at_hub(by: str, *, lasts: timedelta = MINUTE, boot: str = NOW[0]) -> tuple[Approval, ...]:
    """Somebody's word at this hub."""
    return (Approval(by, BootDeadline(BootId(boot), NOW[1] + lasts)),)


@pytest.mark.parametrize("moment", Moment)
def test_at_the_hub_one_persons_word_is_enough_where_the_policy_says_so(moment: Moment) -> None:
    words = at_hub("uid:0 root")

    here = judged(world(policy=approving(ONE_HERE), approvals=words, actor=DESK.id), moment)
    not_here = judged(world(policy=approving(ApprovalRule()), approvals=words, actor=DESK.id), moment)

    assert isinstance(here, Accept)
    assert is_held(not_here)


@pytest.mark.parametrize(
    ("words", "actor"),
    [
        pytest.param((), "uid:1000 anna", id="nobody's"),
        pytest.param(at_hub("uid:1000 anna"), "uid:1000 anna", id="who typed it"),
        pytest.param(at_hub("uid:1000 chief"), "uid:1000 anna", id="the same person by another name"),
        pytest.param(at_hub("uid:0 root", lasts=timedelta(0)), "uid:1000 anna", id="over"),
        pytest.param(at_hub("uid:0 root", boot="another"), "uid:1000 anna", id="of another boot"),
    ],
)
def test_a_word_at_the_hub_that_is_not_good_does_not_count(words: tuple[Approval, ...], actor: str) -> None:
    local = BootDeadline(NOW[0], NOW[1] + MINUTE)
    around = world(policy=approving(ONE_HERE), approvals=words, actor=actor, local=local)

    assert is_held(judged(around, Moment.REPLAY, OWN))
    assert isinstance(
        judged(
            world(policy=approving(ONE_HERE), approvals=at_hub("uid:7 b"), actor=actor, local=local),
            Moment.REPLAY,
            OWN,
        ),
        Accept,
    )


@pytest.mark.requirement("B3")
@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize(
    "bans",
    [
        Bans(actions=frozenset({ActionName.POWER})),
        Bans(devices=frozenset({LAMP})),
        Bans(keys=frozenset({"desk"})),
    ],
    ids=["the action", "the device", "the key"],
)
def test_what_is_banned_is_refused_at_every_moment(moment: Moment, bans: Bans) -> None:
    verdict = judged(world(policy=policy(bans=bans)), moment)

    assert isinstance(verdict, Refuse)
    assert verdict.reason is Reason.BANNED
    assert isinstance(judged(world(), moment), Accept)


@pytest.mark.requirement("B3")
def test_a_banned_key_beside_a_good_one_spoils_nothing() -> None:
    around = world(policy=policy(bans=Bans(keys=frozenset({"night"}))))

    assert isinstance(judged(around, Moment.ADMIT, NIGHT, DESK), Accept)
    assert isinstance(judged(around, Moment.ADMIT, NIGHT), Refuse)
