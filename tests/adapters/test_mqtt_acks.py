"""Acknowledgements leave in receive order, each once, whoever gives them in which order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.adapters.mqtt.acks import Unacknowledged
from edgeagent.contracts.mqtt import Inbound, Session

pytestmark = pytest.mark.requirement("Q1")


def message(packet_id: int, *, qos: int = 1) -> Inbound:
    return Inbound(Session.TELEMETRY, 1, "t", b"", qos, retain=False, dup=False, packet_id=packet_id, heard=0)


def test_one_given_early_waits_for_those_before_it() -> None:
    unacknowledged = Unacknowledged()
    first, second, third = message(1), message(2), message(3)
    unacknowledged.came([first, second, third])

    assert unacknowledged.settle([third]) == []
    assert unacknowledged.settle([first]) == [1]
    assert unacknowledged.settle([second]) == [2, 3]


def test_a_message_given_twice_is_acknowledged_once() -> None:
    unacknowledged = Unacknowledged()
    only = message(1)
    unacknowledged.came([only])

    assert unacknowledged.settle([only, only]) == [1]
    assert unacknowledged.settle([only]) == []


def test_giving_an_old_message_again_does_not_acknowledge_the_new_one_of_its_id() -> None:
    unacknowledged = Unacknowledged()
    old, new = message(1), message(1)
    unacknowledged.came([old])
    unacknowledged.settle([old])
    unacknowledged.came([new])

    assert unacknowledged.settle([old]) == []
    assert unacknowledged.settle([new]) == [1]


def test_a_packet_id_that_comes_again_unanswered_stands_for_the_newer_message() -> None:
    unacknowledged = Unacknowledged()
    first, again = message(1), message(1)
    unacknowledged.came([first, again])

    assert unacknowledged.settle([first]) == []
    assert unacknowledged.settle([again]) == [1]


def test_qos_0_is_never_acknowledged() -> None:
    unacknowledged = Unacknowledged()
    unsafe = message(0, qos=0)
    unacknowledged.came([unsafe])

    assert unacknowledged.settle([unsafe]) == []


@given(st.permutations(list(range(1, 30))), st.integers(1, 10))
def test_whatever_the_order_given_the_order_sent_is_that_received(order: list[int], size: int) -> None:
    unacknowledged = Unacknowledged()
    messages = {number: message(number) for number in range(1, 30)}
    unacknowledged.came(list(messages.values()))

    sent: list[int] = []
    for start in range(0, len(order), size):
        part = order[start : start + size]
        sent += unacknowledged.settle([messages[number] for number in part])

        assert sent == sorted(sent)
        assert set(sent) <= set(order[: start + size])

    assert sent == list(range(1, 30))
