"""The queue's gate says to each vector what the hub would say, as far as it can know it."""

import pytest

from edgeagent.contracts.reasons import Reason
from edgeagent.issuer.producer_gate import GateRefusedError, GateWorld, judge
from tests.core.test_vectors import ALL, policy_of
from tests.vectors.vector import Kind, Stage, Vector

COMMANDS = [vector for vector in ALL.vectors if vector.kind is Kind.COMMAND]

HUBS_ALONE = frozenset(
    {
        Reason.DEVICE_UNKNOWN,
        Reason.UNSUPPORTED_ACTION,
        Reason.CLOCK_UNSURE,
        Reason.NOT_YET_VALID,
        Reason.NEEDS_APPROVAL,
    }
)
"""What only the hub knows, or what waits there."""

LEFT_TO_THE_HUB = frozenset({"5-percent", "one-device-not-covered"})
"""This lamp's own range; and one device of a list, of which another may."""

QUEUES_OWN = {"perhaps-over": Reason.EXPIRED}
"""The queue goes by its own clock, and knows no better."""

pytestmark = pytest.mark.requirement("P1", "V7")


def answered(vector: Vector) -> str | None:
    """Why the queue's gate refuses a vector; None when it takes it."""
    world = GateWorld(hub=vector.hub, epoch=vector.epoch, now=vector.time, policy=policy_of(vector))
    try:
        judge(vector.raw, world)
    except GateRefusedError as why:
        return why.reason
    return None


@pytest.mark.parametrize(
    "vector",
    [vector for vector in COMMANDS if vector.stage is not Stage.GATE],
    ids=lambda vector: vector.name,
)
def test_what_is_no_signed_command_is_refused_for_the_same_reason(vector: Vector) -> None:
    assert answered(vector) == vector.reason


@pytest.mark.parametrize(
    "vector",
    [vector for vector in COMMANDS if vector.stage is Stage.GATE],
    ids=lambda vector: vector.name,
)
def test_a_command_is_refused_for_the_hubs_reason_or_left_to_the_hub(vector: Vector) -> None:
    answer = answered(vector)

    if answer is None:
        assert vector.answer != "refused" or vector.reason in HUBS_ALONE or vector.name in LEFT_TO_THE_HUB
    else:
        assert answer == QUEUES_OWN.get(vector.name, vector.reason)
