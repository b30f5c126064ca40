"""Which orders are obeyed, and what they stop."""

from dataclasses import replace

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.order import Order, Verb
from edgeagent.contracts.policy import Bans, Policy, Role, RoleKind, Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.core.envelope import Verified
from edgeagent.core.gate.verdict import Accept, Duplicate, Moment, Refuse
from edgeagent.core.stops import LARGEST_ORDER, Obey, OrderWorld, Standing, judge_order, stopped_by
from edgeagent.ids import CommandId, Digest, HubId, new_epoch
from tests.core.gating import EPOCH, HOUR, HUB, MINUTE, SECOND, judged, policy, wall, world
from tests.support.clocks import NOON
from tests.support.keys import MemoryKey

pytestmark = pytest.mark.requirement("B3")

GUARD, OTHER = MemoryKey(), MemoryKey()
SHA = Digest("1" * 64)

BOTH = pytest.mark.parametrize("verb", Verb)


def guarded(*, bans: Bans | None = None, **role: object) -> Policy:
    """A guard may stop and resume."""
    fields: dict[str, object] = {"kind": RoleKind.STOP, "keys": frozenset({"guard"})}
    return policy(
        keys={"guard": GUARD.public.hex(), "other": OTHER.public.hex()},
        roles={
            "guards": Role(**(fields | role)),  # type: ignore[arg-type]  # checked as it is built
            "others": Role(kind=RoleKind.COMMAND, keys=frozenset({"other"}), actions="*", devices="*"),
        },
        bans=bans or Bans(),
    )


def word(second: int, *, is_guess: bool = False) -> Standing:
    """The last word on everything."""
    return Standing(
        kind="all",
        verb=Verb.STOP,
        sequence=second << 20,
        by="uid:0 root",
        why="",
        at=0,
        is_guess=is_guess,
    )


def order(verb: Verb = Verb.STOP, **changes: object) -> Order:
    """Stop everything, within an hour."""
    fields: dict[str, object] = {
        "id": CommandId("o-1"),
        "hub": HUB,
        "epoch": EPOCH,
        "verb": verb,
        "kind": "all",
        "sequence": 2000 << 20,
        "issued_at": NOON - SECOND,
        "expires_at": NOON + HOUR,
    }
    return Order(**(fields | changes))  # type: ignore[arg-type]  # checked as it is built


def said(asked: Order, *signers: MemoryKey, **changes: object) -> Obey | Refuse | Duplicate:
    """What is said to an order."""
    default = OrderWorld(hub=HUB, epoch=EPOCH, policy=guarded(), until=None, wall=wall())
    verified = Verified(b"", SHA, tuple(key.id for key in signers or (GUARD,)))
    return judge_order(asked, verified, replace(default, **changes))  # type: ignore[arg-type]


def reason(verdict: Obey | Refuse | Duplicate) -> Reason | None:
    """Why it is refused; None if it is not."""
    return verdict.reason if isinstance(verdict, Refuse) else None


@BOTH
def test_a_good_order_is_obeyed_in_the_name_of_its_key(verb: Verb) -> None:
    assert said(order(verb)) == Obey(GUARD.id)


@BOTH
@pytest.mark.parametrize(
    ("changes", "around", "expected"),
    [
        pytest.param({}, {"policy": None}, Reason.NO_POLICY, id="no policy"),
        pytest.param({"hub": HubId("venue-8")}, {}, Reason.WRONG_HUB, id="another hub"),
        pytest.param({"epoch": new_epoch(1, 1)}, {}, Reason.WRONG_EPOCH, id="another epoch"),
        pytest.param({}, {"known": Digest("2" * 64)}, Reason.ID_CONFLICT, id="another order's id"),
        pytest.param({"expires_at": NOON - SECOND / 2}, {}, Reason.EXPIRED, id="over"),
        pytest.param({"sequence": 2**62 - 1}, {}, Reason.NOT_YET_VALID, id="a sequence of a far future"),
        pytest.param({}, {"last": word(2000)}, Reason.NOT_LATER, id="another order's sequence"),
        pytest.param({}, {"last": word(3000)}, Reason.NOT_LATER, id="late"),
        pytest.param({}, {"policy": guarded(not_after=NOON - MINUTE)}, Reason.NOT_ALLOWED, id="a role over"),
        pytest.param(
            {}, {"policy": guarded(bans=Bans(keys=frozenset({"guard"})))}, Reason.BANNED, id="a banned key"
        ),
    ],
)
def test_one_that_is_not_as_it_should_be_is_refused(
    verb: Verb, changes: dict[str, object], around: dict[str, object], expected: Reason
) -> None:
    assert reason(said(order(verb, **changes), **around)) is expected


@BOTH
def test_a_key_of_another_role_may_not_stop_or_resume(verb: Verb) -> None:
    assert reason(said(order(verb), OTHER)) is Reason.NOT_ALLOWED
    assert said(order(verb), OTHER, GUARD) == Obey(GUARD.id)


def test_the_same_again_is_known_whatever_has_come_since() -> None:
    assert isinstance(said(order(), known=SHA, last=word(9000)), Duplicate)


@pytest.mark.requirement("T5")
@pytest.mark.parametrize(
    ("around", "expected"),
    [
        pytest.param({"wall": wall(error=None)}, Reason.CLOCK_UNSURE, id="the time is not known"),
        pytest.param({"wall": wall(ahead=-HOUR)}, Reason.NOT_YET_VALID, id="signed in the future"),
        pytest.param({"until": NOON - MINUTE}, Reason.POLICY_EXPIRED, id="the policy is over"),
    ],
)
def test_where_it_cannot_be_told_a_stop_holds_and_a_resume_does_not(
    around: dict[str, object], expected: Reason
) -> None:
    assert said(order(Verb.STOP), **around) == Obey(GUARD.id)
    assert reason(said(order(Verb.RESUME), **around)) is expected


@pytest.mark.requirement("T5")
def test_no_order_takes_so_high_a_sequence_that_none_can_follow() -> None:
    beyond = order(sequence=LARGEST_ORDER + 1)

    assert reason(said(beyond, wall=wall(error=None))) is Reason.NOT_YET_VALID


@pytest.mark.parametrize(
    ("kind", "action", "tier", "stopped"),
    [
        ("all", ActionName.POWER, Tier.LOW, True),
        ("tier:high", ActionName.POWER, Tier.HIGH, True),
        ("tier:high", ActionName.POWER, Tier.LOW, False),
        ("action:power", ActionName.POWER, Tier.LOW, True),
        ("action:power", ActionName.VOLUME, Tier.LOW, False),
    ],
)
def test_a_kind_takes_in_what_it_says(
    kind: str,
    action: ActionName,
    tier: Tier,
    stopped: bool,  # noqa: FBT001 - a column of the table
) -> None:
    assert (stopped_by([kind], action, tier) == kind) is stopped


@pytest.mark.parametrize("kind", ["", "everything", "tier:", "tier:none", "action:shell", "all ", "TIER:low"])
def test_there_is_no_other_kind(kind: str) -> None:
    with pytest.raises(ValueError, match=r"kind|tier|action"):
        order(kind=kind)


@pytest.mark.parametrize("moment", Moment)
def test_what_is_stopped_is_refused_at_every_moment(moment: Moment) -> None:
    verdict = judged(world(stops=frozenset({"action:power"})), moment)

    assert isinstance(verdict, Refuse)
    assert (verdict.reason, verdict.detail) == (Reason.STOPPED, "action:power is stopped")
    assert isinstance(judged(world(stops=frozenset({"tier:high"})), moment), Accept)


@pytest.mark.requirement("T5")
def test_what_was_stopped_before_the_time_was_known_is_not_resumed_from_afar() -> None:
    guess = word(1000, is_guess=True)

    assert reason(said(order(Verb.RESUME), last=guess)) is Reason.CLOCK_UNSURE
    assert said(order(Verb.STOP), last=guess) == Obey(GUARD.id)
    assert said(order(Verb.RESUME), last=replace(guess, is_guess=False)) == Obey(GUARD.id)
