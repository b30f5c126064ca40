"""The flash and its boot: whatever is torn, what boots is whole."""

from contextlib import suppress
from datetime import timedelta
from functools import partial

import pytest

from firmware_sim.faults import Kind
from firmware_sim.firmware import PowerLostError
from firmware_sim.flash import TRIES, Flash, Layout
from firmware_sim.image import Damage, Flaw
from firmware_sim.journal import What
from firmware_sim.tasmota.image import taken, whole
from tests.firmware_sim.bench import Bench
from tests.firmware_sim.images import a_tasmota_image

pytestmark = pytest.mark.requirement("F6")

OLD, NEW = a_tasmota_image("14.1.0"), a_tasmota_image("14.2.0")
BOOT = timedelta(seconds=1)
TWIN, SINGLE = Layout(), Layout(1_000_000, twin=False)


def delivered(board: Bench, layout: Layout = TWIN) -> Flash:
    """A device with the old firmware."""
    return Flash(board, "flash", layout, partial(whole, chip="esp8266"), OLD)


def written(flash: Flash, image: bytes = NEW) -> None:
    """An image is downloaded, looked at and installed."""
    flash.begin()
    flash.write(image)
    flash.install(taken(flash.arrived))


def boots(flash: Flash) -> timedelta | None:
    """It boots and comes up, as often as the power fails."""
    while True:
        with suppress(PowerLostError):
            taken_by_boot = flash.boot(BOOT)
            if taken_by_boot is not None:
                flash.came_up(BOOT)
            return taken_by_boot


def outcomes(board: Bench) -> list[object]:
    """What came of each boot."""
    return [details["outcome"] for what, details in board.notes if what is What.BOOTED]


@pytest.mark.parametrize("layout", [TWIN, SINGLE])
def test_a_new_image_boots_on_trial_and_stays_when_it_has_come_up(layout: Layout) -> None:
    flash = delivered(Bench(), layout)

    written(flash)
    assert flash.running.version == "14.1.0"
    boots(flash)

    assert (flash.running.version, flash.describe()["trial"]) == ("14.2.0", False)
    boots(flash)
    assert flash.running.version == "14.2.0"


@pytest.mark.parametrize("layout", [TWIN, SINGLE])
def test_a_brown_out_at_each_flash_write_boots_what_is_whole(layout: Layout) -> None:
    whole_run = Bench()
    flash = delivered(whole_run, layout)
    written(flash)
    boots(flash)
    seen = set()

    for place in range(1, whole_run.writes + 1):
        board = Bench(fails_at=frozenset({place}))
        flash = delivered(board, layout)
        with suppress(PowerLostError):
            written(flash)
        assert boots(flash) is not None, f"write {place}"
        seen.add(flash.running.version)
        assert board.writes >= place, "the power never failed"
        # And an update afterwards goes through.
        written(flash)
        boots(flash)
        assert flash.running.version == "14.2.0", f"write {place}"

    assert seen == {"14.1.0", "14.2.0"}


@pytest.mark.parametrize("layout", [TWIN, SINGLE])
def test_two_brown_outs_after_another_boot_what_is_whole(layout: Layout) -> None:
    board = Bench()
    flash = delivered(board, layout)
    written(flash)
    boots(flash)

    for first in range(1, board.writes + 1):
        torn = Bench(fails_at=frozenset({first, first + 1}))
        flash = delivered(torn, layout)
        with suppress(PowerLostError):
            written(flash)
        assert boots(flash) is not None, f"write {first}"


def test_a_firmware_that_never_comes_up_is_given_up_after_three_boots() -> None:
    board = Bench()
    flash = delivered(board)

    written(flash, a_tasmota_image("14.2.0", flaw=Flaw.CRASH))
    lasted = boots(flash)

    assert outcomes(board) == ["crashed"] * TRIES + ["up"]
    assert (flash.running.version, lasted) == ("14.1.0", BOOT * (TRIES + 1))


def test_a_firmware_that_comes_up_at_the_last_boot_stays() -> None:
    board = Bench(faults={Kind.BOOT_LOOP: TRIES - 1})
    flash = delivered(board)

    written(flash)
    boots(flash)

    assert outcomes(board) == ["crashed"] * (TRIES - 1) + ["up"]
    assert flash.running.version == "14.2.0"


def test_without_a_second_slot_a_firmware_that_never_comes_up_is_the_end() -> None:
    board = Bench()
    flash = delivered(board, SINGLE)

    written(flash, a_tasmota_image("14.2.0", flaw=Flaw.CRASH))

    assert boots(flash) is None
    assert board.notes[-1] == (What.GONE, {"part": "flash", "why": "no boot left"})


@pytest.mark.parametrize("layout", [TWIN, SINGLE])
def test_a_torn_image_that_was_installed_all_the_same_does_not_boot(layout: Layout) -> None:
    flash = delivered(Bench(), layout)

    written(flash, a_tasmota_image("14.2.0", damage=Damage.CHECKSUM))
    boots(flash)

    assert flash.running.version == "14.1.0"


def test_one_that_does_not_come_up_in_time_falls_back_at_a_later_boot() -> None:
    flash = delivered(Bench())
    written(flash)

    for _ in range(TRIES):
        flash.boot(BOOT)  # it runs, and never says that it has come up
        assert flash.running.version == "14.2.0"
    flash.boot(BOOT)

    assert flash.running.version == "14.1.0"


def test_an_update_begun_over_an_installed_one_is_never_booted_half() -> None:
    flash = delivered(Bench())
    written(flash)

    flash.begin()
    flash.write(NEW[:5000])
    boots(flash)

    assert flash.running.version == "14.1.0"


def test_there_is_less_room_where_there_is_one_slot() -> None:
    assert delivered(Bench(), SINGLE).room == 1_000_000 - len(OLD)
    assert delivered(Bench()).room > len(OLD)


def test_a_boot_may_take_longer_and_come_twice_after_an_update_only() -> None:
    board = Bench(faults={Kind.SLOW_REBOOT: 1, Kind.DOUBLE_REBOOT: 1})
    flash = delivered(board)

    assert flash.boot(BOOT) == BOOT
    assert flash.came_up(BOOT) is None
    written(flash)

    assert flash.boot(BOOT) == BOOT + timedelta(seconds=7)
    assert flash.came_up(BOOT) == timedelta(0)
    assert flash.boot(BOOT) == BOOT
    assert flash.came_up(BOOT) is None
