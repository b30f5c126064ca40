"""The arithmetic of a Tasmota lamp, and how it reads numbers: what is set is what is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.tasmota.command import NO_NUMBER, command, number
from firmware_sim.tasmota.lamp import LampState, scaled

pytestmark = pytest.mark.requirement("F6")

BYTE = st.integers(0, 255)


@given(BYTE, BYTE, BYTE)
def test_every_colour_is_told_as_it_was_set(red: int, green: int, blue: int) -> None:
    lamp = LampState().coloured(red, green, blue)

    assert lamp.rgb == (red, green, blue)


@given(st.integers(0, 100))
def test_every_brightness_is_told_as_it_was_set(percent: int) -> None:
    assert LampState(level=scaled(percent, 100, 255)).percent == percent


@given(BYTE, st.integers(153, 500))
def test_the_two_whites_add_up_to_the_brightness(level: int, mireds: int) -> None:
    lamp = LampState(level=level, mireds=mireds, white=True)

    assert sum(lamp.whites) == level
    assert min(lamp.whites) >= 0


@given(BYTE, BYTE, BYTE, BYTE)
def test_a_lie_is_never_the_truth(level: int, red: int, green: int, blue: int) -> None:
    before, after = LampState(level=level), LampState().coloured(red, green, blue)

    assert after.wrong(before) != after
    assert after.wrong(after) != after


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("40", 40),
        ("40 %", 40),
        ("0x28", 40),
        ("050", 40),
        ("-5", -5),
        ("on", 1),
        ("ToGgLe", 2),
        ("", NO_NUMBER),
        ("AN", NO_NUMBER),
        ("٤٠", NO_NUMBER),
        ("9" * 5000, 2**31 - 1),
    ],
)
def test_a_payload_is_read_as_c_would_read_it(text: str, expected: int) -> None:
    assert number(text) == expected


@given(st.text(), st.binary())
def test_any_message_can_be_read(topic: str, payload: bytes) -> None:
    read = command(topic, payload)

    assert read.index >= 0
    assert "\0" not in read.data
