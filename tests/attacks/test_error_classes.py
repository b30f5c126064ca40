"""T53: what does not pass by itself is never tried again; what may is tried as often as its lane allows.

Each class of error on a running hub, with the number of messages that its device heard for it: at most one
where trying again is of no use, and no more after a restart.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.blame import Blame, blame_of
from edgeagent.ids import DeviceId
from tests.attacks.wrong_hands import Hands, in_wrong_hands
from tests.support.stores import query
from tests.support.stubborn_lamps import OTHER, REFUSES, StubbornLamps

ON: Final = {"on": True}
ATTEMPTS: Final = 3
"""What a lane allows where the policy says nothing else."""

pytestmark = [pytest.mark.slow, pytest.mark.threat("T53"), pytest.mark.requirement("E1", "E2", "E3", "D1")]


@pytest.fixture(scope="module")
def hands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hands]:
    """A venue for all classes, each on a device of its own."""
    with in_wrong_hands(tmp_path_factory.mktemp("venue")) as running:
        yield running


@pytest.fixture(scope="module")
def lamps(hands: Hands) -> Iterator[StubbornLamps]:
    """Lamps that say no."""
    with StubbornLamps(hands.venue.broker, 4) as there:
        there.are_admitted(hands.venue.agent)
        yield there


@dataclass(frozen=True, slots=True)
class Error:
    """One way to fail.

    Attributes:
        lamp: on which.
        answer: what it says to whatever it hears.
        action: that is asked.
        device: instead of the lamp.
        outcome: how it ends.
        reason: why.
        blame: its class.
        heard: how many commands come to the lamp.
    """

    lamp: int
    answer: bytes
    outcome: Outcome
    reason: Reason
    blame: Blame
    heard: int
    action: ActionName = ActionName.POWER
    device: DeviceId | None = None


ERRORS: Final = {
    "the device says no": Error(0, REFUSES, Outcome.FAILED, Reason.DEVICE_REFUSED, Blame.PERMANENT, heard=1),
    "the device does something else": Error(
        1, OTHER, Outcome.FAILED, Reason.OTHER_VALUE, Blame.TRANSIENT, heard=ATTEMPTS
    ),
    "a one-shot that nothing is said about": Error(
        2, b"", Outcome.UNKNOWN, Reason.NO_CONFIRMATION, Blame.TRANSIENT, heard=1, action=ActionName.TOGGLE
    ),
    "no such device here": Error(
        3,
        REFUSES,
        Outcome.REFUSED,
        Reason.DEVICE_UNKNOWN,
        Blame.PERMANENT,
        heard=0,
        device=DeviceId("nobody-1"),
    ),
}


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_a_class_of_error_costs_as_many_tries_as_it_may(
    hands: Hands, lamps: StubbornLamps, error: Error
) -> None:
    lamp = lamps.devices[error.lamp]
    lamps.answer = error.answer
    arguments = ON if error.action is ActionName.POWER else {}
    order = hands.sign(error.action, arguments, by=[hands.venue.keys.desk], device=error.device or lamp)

    hands.deliver(order.envelope)
    receipt = hands.ended(order, within=60)
    heard = lamps.heard_by(lamp)
    hands.venue.agent.kill()
    hands.venue.agent.start()
    hands.venue.agent.wait_for_broker()
    hands.deliver(order.envelope, times=5)

    assert receipt == hands.ended(order) == (error.outcome, error.reason)
    assert blame_of(error.reason) is error.blame
    assert heard == lamps.heard_by(lamp) == error.heard
    found = query(hands.venue.agent.database, "SELECT command, attempts FROM inbox")
    assert [tries for command, tries in found if command == order.command.id] == [error.heard]
    told = query(
        hands.venue.agent.database,
        "SELECT subject, detail ->> 'command' FROM audit WHERE kind = 'command_waiting'",
    )
    assert len([row for row in told if order.command.id in row]) == max(0, error.heard - 1)
