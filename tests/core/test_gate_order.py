"""Which fault the gate names where a command has several: the order of its module's docstring."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import Precondition
from edgeagent.contracts.policy import ActionRule, ApprovalRule, Bans, Level, Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.core.catalogue import Catalogue, Floor
from edgeagent.core.gate.judging import judge
from edgeagent.core.gate.verdict import Hold, Moment, Refuse, Verdict
from edgeagent.core.gate.world import Appliance, Known
from edgeagent.core.operation import OperationState
from edgeagent.ids import CommandId, Digest, HubId, new_epoch
from tests.core import gating
from tests.core.gating import HOUR, LOW, MINUTE, Lamp
from tests.core.test_catalogue import artifact
from tests.support.clocks import NOON
from tests.support.keys import MemoryKey

pytestmark = pytest.mark.requirement("V1", "V2", "V4", "T3", "T4", "I2")

OTHER = CommandId("c-0")
ANY_TIME = frozenset(Moment)
ON_COMING = frozenset({Moment.ADMIT})
BEFORE_ACTING = frozenset({Moment.ACT})


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is wrong with a command or its world.

    Attributes:
        reason: what the gate says of it.
        command: fields of the command.
        world: fields of the world.
        policy: fields of the policy.
        signers: who has signed.
        moments: when the gate looks at it.
    """

    reason: Reason
    command: Mapping[str, object] = field(default_factory=dict)
    world: Mapping[str, object] = field(default_factory=dict)
    policy: Mapping[str, object] = field(default_factory=dict)
    signers: tuple[MemoryKey, ...] = ()
    moments: frozenset[Moment] = ANY_TIME

    @property
    def touched(self) -> set[str]:
        """What it sets, so that two faults can be told to be of one world."""
        return {*self.command, *self.world, *self.policy, *(["signers"] if self.signers else [])}


def rules(rule: ActionRule) -> dict[str, object]:
    """A policy with one rule for everything."""
    return {"actions": dict.fromkeys(ActionName, rule)}


def operation(state: OperationState) -> dict[str, object]:
    """A world in which another command has said the operation."""
    return {"operation": (state, OTHER)}


FILE: Final = artifact("lamp")


def of_artifact(reason: Reason, catalogue: Catalogue) -> Fault:
    """A fault of an approved file, as the catalogue has it, for a plug that runs its version."""
    approved = {FILE.id: frozenset({FILE.sha256})}
    plug = Appliance(family="tasmota", model="PM-1", version=FILE.facts.version)
    return Fault(
        reason,
        {"action": ActionName.INSTALL, "arguments": {"artifact": FILE.id, "digest": FILE.sha256}},
        {"catalogue": catalogue, "appliance": plug},
        {"actions": dict.fromkeys(ActionName, LOW), "artifacts": approved},
    )


# Cheapest and most certain first. Two that stand in one line exclude each other.
IN_ORDER = (
    Fault(Reason.NO_POLICY, world={"policy": None}),
    Fault(Reason.WRONG_HUB, {"hub": HubId("venue-8")}),
    Fault(Reason.WRONG_EPOCH, {"epoch": new_epoch(1, 1)}),
    Fault(
        Reason.ID_CONFLICT,
        world={"known": Known(sha256=Digest("0" * 64), held=False, signers=frozenset())},
        moments=ON_COMING,
    ),
    Fault(Reason.SEQUENCE_CONFLICT, world={"sequence_of": OTHER}, moments=ON_COMING),
    Fault(Reason.SUPERSEDED, world={"superseded_by": OTHER}),
    Fault(Reason.EXPIRED, {"issued_at": NOON - 5 * MINUTE, "expires_at": NOON - MINUTE}),
    Fault(Reason.BANNED, policy={"bans": Bans(actions=frozenset(ActionName))}),
    Fault(Reason.STOPPED, world={"stops": frozenset({"tier:low", "tier:medium"})}),
    Fault(Reason.NOT_ALLOWED, signers=(gating.STRANGER,)),
    Fault(Reason.POLICY_EXPIRED, policy={"expires_at": NOON - MINUTE}),
    Fault(Reason.VALID_TOO_LONG, policy=rules(LOW.model_copy(update={"longest_validity": MINUTE}))),
    Fault(
        Reason.ARTIFACT_NOT_APPROVED,
        {"action": ActionName.INSTALL, "arguments": {"artifact": "lamp", "digest": "5e" * 32}},
        policy={"actions": dict.fromkeys(ActionName, LOW)},
    ),
    of_artifact(Reason.ARTIFACT_UNSIGNED, Catalogue()),
    of_artifact(Reason.ARTIFACT_REVOKED, Catalogue(revoked={FILE.id: FILE})),
    of_artifact(Reason.ARTIFACT_MISFIT, Catalogue({FILE.id: artifact("lamp", family="hue")})),
    of_artifact(
        Reason.ARTIFACT_TOO_OLD, Catalogue({FILE.id: FILE}, {}, (Floor("plugs", "tasmota", "*", "15.0.0"),))
    ),
    of_artifact(Reason.ARTIFACT_NOT_NEWER, Catalogue({FILE.id: FILE})),
    Fault(
        Reason.SERVES_NO_FILES,
        {"action": ActionName.INSTALL, "arguments": {"artifact": FILE.id, "digest": FILE.sha256}},
        {"serves_files": False},
        {"actions": dict.fromkeys(ActionName, LOW), "artifacts": {FILE.id: frozenset({FILE.sha256})}},
    ),
    Fault(Reason.DEVICE_UNKNOWN, world={"device": None}),
    Fault(Reason.UNSUPPORTED_ACTION, {"action": ActionName.VOLUME, "arguments": {"level": 20}}),
    Fault(Reason.BAD_ARGUMENTS, {"arguments": {"on": 1}}),
    Fault(
        Reason.CANNOT_CONFIRM,
        world={"device": Lamp(Level.ACCEPTED)},
        policy=rules(ActionRule(tier=Tier.LOW, confirmation=Level.APPLIED)),
    ),
    Fault(Reason.STALE, {"precondition": Precondition(version=4)}, moments=BEFORE_ACTING),
    Fault(
        Reason.UNFIT_STATE,
        {"action": ActionName.BRIGHTNESS, "arguments": {"level": 20}},
        {"shadow": gating.shadow(on=False)},
        moments=BEFORE_ACTING,
    ),
    Fault(Reason.OPERATION_RUNNING, world=operation(OperationState.PROCESSING)),
    Fault(Reason.OPERATION_DONE, world=operation(OperationState.COMPLETED)),
    Fault(
        Reason.NOT_YET_VALID,
        {"issued_at": NOON + HOUR, "expires_at": NOON + HOUR + 2 * MINUTE},
        {"wall": gating.wall()},
    ),
    Fault(Reason.CLOCK_UNSURE, world={"wall": gating.wall(error=None)}),
    Fault(Reason.NEEDS_APPROVAL, policy=rules(LOW.model_copy(update={"approvals": ApprovalRule()}))),
    Fault(
        Reason.OUTCOME_UNKNOWN,
        {"action": ActionName.TOGGLE, "arguments": {}},
        operation(OperationState.UNKNOWN),
    ),
)
HELD = {Reason.NOT_YET_VALID, Reason.CLOCK_UNSURE, Reason.NEEDS_APPROVAL, Reason.OUTCOME_UNKNOWN}

pairs = [
    (first, second)
    for first, second in combinations(IN_ORDER, 2)
    if not first.touched & second.touched and first.moments & second.moments
]


def verdict(moment: Moment, *faults: Fault) -> Verdict:
    """What the gate says to a command with these faults."""
    command: dict[str, object] = {}
    policy: dict[str, object] = {}
    world: dict[str, object] = {}
    signers: tuple[MemoryKey, ...] = ()
    for fault in faults:
        command |= fault.command
        policy |= fault.policy
        world |= fault.world
        signers = fault.signers or signers
    return judge(
        gating.asked(*signers, **command),
        gating.world(**({"policy": gating.policy(**policy)} | world)),
        moment,
    )


def reason(said: Verdict) -> Reason:
    """Why the gate lets a command not pass."""
    assert isinstance(said, Refuse | Hold), said
    return said.reason


@pytest.mark.parametrize("fault", IN_ORDER, ids=lambda fault: fault.reason)
@pytest.mark.parametrize("moment", Moment)
def test_a_single_fault_is_named_whenever_the_gate_looks_at_it(fault: Fault, moment: Moment) -> None:
    said = verdict(moment, fault)

    if moment in fault.moments:
        assert reason(said) is fault.reason
        assert isinstance(said, Hold) is (fault.reason in HELD)
    else:
        assert not isinstance(said, Refuse | Hold)


@pytest.mark.parametrize(
    ("first", "second"),
    [pytest.param(*pair, id=f"{pair[0].reason} before {pair[1].reason}") for pair in pairs],
)
def test_of_two_faults_the_earlier_is_named(first: Fault, second: Fault) -> None:
    for moment in first.moments & second.moments:
        assert reason(verdict(moment, first, second)) is first.reason
        assert reason(verdict(moment, second, first)) is first.reason


def test_a_command_without_a_fault_passes_at_every_moment() -> None:
    for moment in Moment:
        assert not isinstance(verdict(moment), Refuse | Hold)


def test_every_reason_for_which_the_gate_stops_a_command_is_in_the_order() -> None:
    waits = {
        Reason.DEVICE_BUSY, Reason.DEVICE_OFFLINE, Reason.BROKER_AWAY, Reason.RETRYING, Reason.TAKEN_OVER
    }  # fmt: skip
    codes = list(Reason)
    of_the_envelope = set(codes[: codes.index(Reason.WRONG_HUB)])
    of_the_gate = set(codes[: codes.index(Reason.DEVICE_BUSY)]) - of_the_envelope - waits

    # A replay is an answer of its own; one is said of orders only; and two are said by what counts.
    elsewhere = {Reason.REPLAYED, Reason.NOT_LATER, Reason.BREAKER_OPEN, Reason.TOO_MANY_HELD}
    assert {fault.reason for fault in IN_ORDER} == of_the_gate - elsewhere


def test_holding_comes_last_so_that_nothing_waits_that_can_never_be_done() -> None:
    places = [place for place, fault in enumerate(IN_ORDER) if fault.reason in HELD]

    assert places == list(range(len(IN_ORDER) - len(HELD), len(IN_ORDER)))
