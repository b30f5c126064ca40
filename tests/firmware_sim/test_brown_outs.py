"""A brown-out at each write of flash of an update, family by family: what boots is the old image or the new.

What the agent makes of it is told in ``tests/acceptance/test_brown_outs.py``.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import pytest

from firmware_sim.display.image import made as made_display
from firmware_sim.display.image import whole as whole_display
from firmware_sim.firmware import PowerLostError
from firmware_sim.flash import Flash, Layout
from firmware_sim.image import SECTOR, Family, Label, Order
from firmware_sim.shelly.image import taken as taken_shelly
from firmware_sim.shelly.image import whole as whole_shelly
from firmware_sim.tasmota.image import taken as taken_tasmota
from firmware_sim.tasmota.image import whole as whole_tasmota
from firmware_sim.zigbee2mqtt.image import whole as whole_zigbee
from tests.firmware_sim.bench import Bench
from tests.firmware_sim.images import (
    APP,
    LAMP,
    PUBLIC,
    a_shelly_image,
    a_tasmota_image,
    a_zigbee_image,
)
from tests.firmware_sim.test_flash import boots

pytestmark = pytest.mark.requirement("F6")


@dataclass(frozen=True, kw_only=True)
class Made:
    """A device: its flash, its images, and who looks at them."""

    layout: Layout = field(default_factory=Layout)
    old: bytes
    new: bytes
    taken: Callable[[bytes], Label]
    whole: Callable[[bytes], Label]

    def delivered(self, board: Bench) -> Flash:
        """With the old firmware."""
        return Flash(board, "flash", self.layout, self.whole, self.old)

    def updated(self, flash: Flash) -> None:
        """The new one is downloaded, looked at and installed."""
        flash.begin()
        flash.write(self.new)
        flash.install(self.taken(flash.arrived))


def a_display_image(version: str) -> bytes:
    """For a display."""
    label = Label(family=Family.DISPLAY, model="display", hardware="1", version=version)
    return made_display(Order(label=label, size=8 * SECTOR))


TASMOTA = Made(
    old=a_tasmota_image("14.1.0"),
    new=a_tasmota_image("14.2.0"),
    taken=taken_tasmota,
    whole=partial(whole_tasmota, chip="esp8266"),
)
ONE_AREA = Made(
    layout=Layout(1_000_000, twin=False),
    old=TASMOTA.old,
    new=TASMOTA.new,
    taken=TASMOTA.taken,
    whole=TASMOTA.whole,
)
SHELLY = Made(
    old=a_shelly_image("1.7.1"),
    new=a_shelly_image("1.7.2"),
    taken=partial(taken_shelly, maker=PUBLIC, app=APP, hardware="1"),
    whole=whole_shelly,
)
DISPLAY = Made(
    old=a_display_image("1.0.0"),
    new=a_display_image("2.0.0"),
    taken=partial(whole_display, hardware="1"),
    whole=partial(whole_display, hardware="1"),
)
ZIGBEE = Made(
    old=a_zigbee_image(100),
    new=a_zigbee_image(192),
    taken=partial(whole_zigbee, kind=LAMP, hardware=1),
    whole=partial(whole_zigbee, kind=LAMP, hardware=1),
)
ALL = {"tasmota": TASMOTA, "one area": ONE_AREA, "shelly": SHELLY, "display": DISPLAY, "zigbee": ZIGBEE}


@pytest.mark.parametrize("made", ALL.values(), ids=ALL)
def test_whichever_write_fails_the_device_comes_back_and_can_be_updated_again(made: Made) -> None:
    whole_run = Bench()
    flash = made.delivered(whole_run)
    made.updated(flash)
    boots(flash)
    old, new = made.whole(made.old).version, flash.running.version
    # Sector by sector, and then what boots, how often it was tried, and that it came up.
    assert whole_run.writes > len(made.new) // SECTOR

    ends = []
    for place in range(1, whole_run.writes + 1):
        board = Bench(fails_at=frozenset({place}))
        flash = made.delivered(board)
        with suppress(PowerLostError):
            made.updated(flash)
        assert boots(flash) is not None, f"dark after write {place}"
        ends.append(flash.running.version)
        assert flash.describe()["trial"] is False, f"on trial after write {place}"

        made.updated(flash)
        boots(flash)
        assert flash.running.version == new, f"not updated after write {place}"

    # The old one up to a write, and the new one from there on: never back and forth.
    turning = ends.index(new)
    assert ends == [old] * turning + [new] * (len(ends) - turning)
    assert 0 < turning < len(ends)
