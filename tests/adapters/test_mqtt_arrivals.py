"""The queue of a session: its order, its bounds, and what a life leaves behind."""

import pytest

from edgeagent.adapters.mqtt.arrivals import Arrivals
from edgeagent.contracts.mqtt import Inbound, LinkDown, LinkUp, Session

UP = LinkUp(Session.TELEMETRY, 1, session_present=True)
DOWN = LinkDown(Session.TELEMETRY, 1, "gone")


def message(payload: bytes, *, qos: int = 1) -> Inbound:
    return Inbound(Session.TELEMETRY, 1, "t", payload, qos, retain=False, dup=False, packet_id=qos, heard=0)


def test_what_comes_before_the_link_is_up_comes_out_after_it() -> None:
    arrivals = Arrivals(10, 1000)
    early, late = message(b"early"), message(b"late")

    arrivals.add([early])
    assert arrivals.fetch(10) == []
    assert len(arrivals) == 0
    arrivals.link_up(UP)
    arrivals.add([late])

    assert arrivals.fetch(10) == [UP, early, late]


def test_a_life_that_never_came_up_leaves_nothing_behind() -> None:
    arrivals = Arrivals(10, 1000)
    arrivals.add([message(b"x" * 999)])

    arrivals.link_down(DOWN)

    assert arrivals.fetch(10) == []
    assert arrivals.low


def test_what_came_before_the_end_stays_in_order_before_it() -> None:
    arrivals = Arrivals(10, 1000)
    arrivals.link_up(UP)
    arrivals.add([message(b"1")])
    arrivals.link_down(DOWN)

    assert [type(item) for item in arrivals.fetch(10)] == [LinkUp, Inbound, LinkDown]


@pytest.mark.requirement("R7")
def test_it_is_full_at_its_count_and_low_at_half_of_it() -> None:
    arrivals = Arrivals(4, 1000)
    arrivals.link_up(UP)
    states = [(arrivals.full, arrivals.low)]
    arrivals.add([message(b"")] * 2)
    states.append((arrivals.full, arrivals.low))
    arrivals.add([message(b"")])
    states.append((arrivals.full, arrivals.low))
    arrivals.fetch(2)
    states.append((arrivals.full, arrivals.low))

    assert states == [(False, True), (False, False), (True, False), (False, True)]


@pytest.mark.requirement("R7")
def test_it_is_full_at_its_bytes_and_low_at_half_of_them() -> None:
    arrivals = Arrivals(100, 1000)
    arrivals.link_up(UP)
    arrivals.add([message(b"x" * 600), message(b"x" * 400)])
    before = (arrivals.full, arrivals.low)
    arrivals.fetch(2)  # LinkUp, and the larger one

    assert before == (True, False)
    assert (arrivals.full, arrivals.low) == (False, True)


@pytest.mark.requirement("R7")
def test_before_the_link_is_up_what_does_not_fit_is_dropped_only_if_nothing_is_promised_for_it() -> None:
    arrivals = Arrivals(2, 1000)
    arrivals.add([message(b"1"), message(b"2")])

    arrivals.add([message(b"unsafe", qos=0), message(b"3")])
    arrivals.link_up(UP)

    assert [item.payload for item in arrivals.fetch(10) if isinstance(item, Inbound)] == [b"1", b"2", b"3"]


@pytest.mark.requirement("R7")
def test_early_messages_beyond_what_a_window_can_hold_are_told() -> None:
    many, large = Arrivals(10, 1000), Arrivals(10, 1000)

    states = []
    for count in (65_535, 1):
        many.add([message(b"")] * count)
        states.append(many.overrun)
    for size in (7999, 1):
        large.add([message(b"x" * size)])
        states.append(large.overrun)

    assert states == [False, True, False, True]


def test_forgetting_keeps_what_happened_to_the_link() -> None:
    arrivals = Arrivals(4, 1000)
    arrivals.link_up(UP)
    arrivals.add([message(b"1"), message(b"2"), message(b"3")])

    arrivals.forget()
    arrivals.link_down(DOWN)

    assert arrivals.low
    assert arrivals.fetch(10) == [UP, DOWN]
