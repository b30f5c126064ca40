"""The key of an operation: what an issuer means to happen once."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import Precondition
from edgeagent.core.operation import operation_key
from edgeagent.ids import CommandId, DeviceId, Digest, HubId, Operation, digest, new_epoch
from tests.core.gating import LAMP, MINUTE, command
from tests.support.clocks import NOON

pytestmark = pytest.mark.requirement("I1")


def key(**changes: object) -> Digest:
    """The key of a command's operation on the lamp."""
    return operation_key(command(**changes), LAMP)


KEY = key()
texts = st.text("abcXYZ0189._:/@-", min_size=1, max_size=20)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"hub": HubId("venue-8")}, id="hub"),
        pytest.param({"action": ActionName.MUTE}, id="action"),
        pytest.param({"arguments": {"on": False}}, id="argument"),
        pytest.param({"arguments": {"on": True, "channel": 1}}, id="one more argument"),
        pytest.param({"operation": Operation("c-2")}, id="operation"),
    ],
)
def test_another_intent_is_another_operation(changes: dict[str, object]) -> None:
    assert key(**changes) != KEY


def test_an_intent_on_several_devices_is_an_operation_of_its_own_on_each() -> None:
    both = command(devices=[LAMP, DeviceId("lamp-2")])

    assert operation_key(both, LAMP) == KEY
    assert operation_key(both, DeviceId("lamp-2")) != KEY


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"id": CommandId("c-2")}, id="id"),
        pytest.param({"sequence": 99}, id="sequence"),
        pytest.param({"issued_at": NOON - 3 * MINUTE}, id="when it was issued"),
        pytest.param({"expires_at": NOON + MINUTE}, id="how long it is good"),
        pytest.param({"epoch": new_epoch(1, 1)}, id="epoch"),
        pytest.param({"precondition": Precondition(version=3)}, id="what was decided on"),
    ],
)
def test_the_same_intent_said_anew_is_the_same_operation(changes: dict[str, object]) -> None:
    assert key(**changes) == KEY


def test_a_key_is_a_digest_that_does_not_depend_on_the_run_or_the_order_of_arguments() -> None:
    """A value that is written down: rows of an earlier version have to be found by a later one."""
    color = {"red": 1, "green": 2, "blue": 3}
    one = command(action=ActionName.COLOR, arguments=color)
    other = command(action=ActionName.COLOR, arguments=dict(reversed(color.items())))

    assert operation_key(one, LAMP) == operation_key(other, LAMP)
    assert key() == digest(KEY)
    assert sha256(b'["venue-7","lamp-1","power",{"on":true},"c-1"]').hexdigest() == KEY


@given(st.tuples(texts, texts), st.tuples(texts, texts))
def test_texts_never_run_into_one_another(one: tuple[str, str], other: tuple[str, str]) -> None:
    keys = [key(operation=Operation(first), arguments={"on": second}) for first, second in (one, other)]

    assert (keys[0] == keys[1]) is (one == other)


@pytest.mark.parametrize(("one", "other"), [(True, 1), (1, 1.0), ("1", 1)])
def test_values_of_different_types_are_different(one: object, other: object) -> None:
    assert key(arguments={"on": one}) != key(arguments={"on": other})
