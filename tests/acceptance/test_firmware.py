"""Updates of simulated appliances by the real agent and its worker: whatever goes wrong, a known end."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pydantic import JsonValue

from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.update import Stage
from edgeagent.ports.crash import CrashPoint
from firmware_sim.journal import What
from tests.firmware_sim.images import a_tasmota_image
from tests.support.agents_updates import Released, UpdatingVenue
from tests.support.brokers import wait_until
from tests.support.stores import query

pytestmark = [pytest.mark.slow, pytest.mark.requirement("F4", "S2", "W1")]

PLUG: Final = "02A1B2000001"
NEW: Final = Released(
    name="plug-14.2.0", image=a_tasmota_image(), family="tasmota", version="14.2.0(release-tasmota)"
)
MINIMAL: Final = Released(
    name="plug-14.2.0-minimal",
    image=a_tasmota_image(minimal=True),
    family="tasmota",
    version="14.2.0(minimal)",
)
OF_ANOTHER_CHIP: Final = Released(
    name="plug-esp32",
    image=a_tasmota_image(chip="esp32"),
    family="tasmota",
    version="14.2.0(release-tasmota)",
)


def plug(place: int = 1, **settings: JsonValue) -> dict[str, JsonValue]:
    """A Tasmota plug."""
    made: dict[str, JsonValue] = {"model": "tasmota-plug", "mac": address(place)}
    return made | ({"settings": settings} if settings else {})


def address(place: int) -> str:
    """Of a plug."""
    return f"02A1B2{place:06X}"


@pytest.fixture
def venue(tmp_path: Path) -> Iterator[UpdatingVenue]:
    """A venue with one plug."""
    with UpdatingVenue(tmp_path, appliances=[plug()], images=[NEW, MINIMAL]) as made:
        yield made


def runs(venue: UpdatingVenue, place: int) -> object:
    """What truly runs on a plug."""
    flash = venue.fleet.state(address(place))["flash"]
    assert isinstance(flash, dict)
    part = flash["flash"]
    assert isinstance(part, dict)
    running = part["running"]
    assert isinstance(running, dict)
    return running["version"]


def upgrades(venue: UpdatingVenue, device: str = PLUG) -> int:
    """How often a plug was told to install."""
    return sum(
        line.what is What.HEARD
        and line.appliance == device
        and str(line.details.get("topic", "")).endswith("/Upgrade")
        for line in venue.journal()
    )


def test_a_plug_is_updated_by_the_worker(venue: UpdatingVenue) -> None:
    venue.opens(PLUG)

    order = venue.installs(PLUG, NEW.name)
    wait_until(lambda: "installing" in venue.stages(order), "the update to be under way")
    refused = venue.agent.run("firmware", "cancel", order.command.id, "--reason", "guests are here")
    receipt = venue.end_of(order)

    # A Tasmota that has begun cannot be called off.
    assert (refused.returncode, refused.stdout) == (1, "")
    assert receipt.outcome is Outcome.SUCCEEDED, receipt
    assert receipt.update is not None
    assert (receipt.update.runs, receipt.update.sha256) == (NEW.version, NEW.digest)
    assert venue.stages(order)[-3:] == ["installing", "soaking", "done"]
    assert upgrades(venue) == 1
    assert venue.agent.stop() == 0
    assert venue.audit_break() is None


FAULTS: Final[dict[str, tuple[dict[str, JsonValue] | None, Outcome]]] = {
    "none": (None, Outcome.SUCCEEDED),
    "double_reboot": ({}, Outcome.SUCCEEDED),
    "slow_reboot": ({"lasting": "3s"}, Outcome.SUCCEEDED),
    "early_success": ({}, Outcome.SUCCEEDED),
    "tells_old": ({}, Outcome.FAILED),
    "brown_out": ({"nth": 3}, Outcome.FAILED),
    "boot_loop": ({}, Outcome.FAILED),
    "stall": ({"percent": 40}, Outcome.FAILED),
    # It fetches again by itself.
    "wifi_lost": ({"percent": 40}, Outcome.SUCCEEDED),
    "vanish": ({"percent": 40}, Outcome.UNKNOWN),
}
"""What goes wrong with a plug, and how its update ends."""


@pytest.mark.requirement("F3", "F6", "R1")
def test_whatever_goes_wrong_with_a_device_its_update_comes_to_the_right_end(tmp_path: Path) -> None:
    places = dict(zip(FAULTS, range(1, 20), strict=False))
    small, wrong, astray = len(FAULTS) + 1, len(FAULTS) + 2, len(FAULTS) + 3
    faults: list[dict[str, JsonValue]] = [
        {**more, "fault": name, "appliance": address(places[name])}
        for name, (more, _) in FAULTS.items()
        if more is not None
    ]
    appliances = [*(plug(place) for place in places.values()), plug(small, flash="1m"), plug(wrong)]
    # It fetches from another address than it tells; of all others the address that they tell is theirs.
    appliances.append(plug(astray, address="127.0.0.9"))
    images = [NEW, MINIMAL, OF_ANOTHER_CHIP]
    # What waits for ever waits that long.
    with UpdatingVenue(
        tmp_path, appliances=appliances, images=images, faults=faults, patience="20s"
    ) as venue:
        venue.opens(*(address(place) for place in range(1, astray + 1)))

        orders = {name: venue.installs(address(place), NEW.name) for name, place in places.items()}
        orders["one megabyte"] = venue.installs(address(small), NEW.name)
        orders["another chip"] = venue.installs(address(wrong), OF_ANOTHER_CHIP.name)
        orders["another address"] = venue.installs(address(astray), NEW.name)
        ends = {name: venue.end_of(order) for name, order in orders.items()}

        expected = {name: outcome for name, (_, outcome) in FAULTS.items()}
        expected |= {"one megabyte": Outcome.SUCCEEDED, "another chip": Outcome.FAILED}
        expected |= {"another address": Outcome.FAILED}
        assert {name: end.outcome for name, end in ends.items()} == expected, ends
        assert {upgrades(venue, address(place)) for place in range(1, astray + 1)} == {1}
        honest = {place for name, place in places.items() if name not in {"tells_old", "vanish"}} | {
            small,
            wrong,
            astray,
        }
        truly = {place for place in honest if runs(venue, place) == "14.2.0"}
        good = {name for name, end in ends.items() if end.outcome is Outcome.SUCCEEDED}
        assert truly == {place for name, place in places.items() if name in good} | {small}
        assert venue.agent.stop() == 0
        told = "SELECT count(*) > 0 FROM audit WHERE detail LIKE '%other_address%'"
        assert query(venue.agent.database, told) == [(1,)]


@pytest.mark.requirement("L3", "R5")
@pytest.mark.parametrize("stage", [Stage.TRIGGERED, Stage.INSTALLING, Stage.SOAKING], ids=str)
def test_a_worker_that_is_killed_in_the_middle_is_followed_and_nothing_is_set_off_twice(
    venue: UpdatingVenue, stage: Stage
) -> None:
    venue.opens(PLUG)
    second = venue.new_worker()
    order = venue.installs(PLUG, NEW.name)
    wait_until(lambda: stage in venue.stages(order), f"the update to be {stage}")

    venue.worker.kill()
    second.start()

    assert venue.end_of(order).outcome is Outcome.SUCCEEDED
    assert upgrades(venue) == 1


@pytest.mark.requirement("L3", "R1", "R5")
@pytest.mark.parametrize(
    ("point", "nth"),
    [
        (CrashPoint.STEP_RECORDED, 1),
        (CrashPoint.STEP_RECORDED, 2),
        (CrashPoint.STEP_SENT, 2),
        (CrashPoint.STEP_CHECKPOINTED, 1),
        (CrashPoint.STEP_CHECKPOINTED, 2),
    ],
)
def test_an_agent_that_dies_in_the_middle_sets_nothing_off_twice(
    tmp_path: Path, point: CrashPoint, nth: int
) -> None:
    # The plug tries as often as real ones, and at their pace: it finds its file again where it was told.
    # What was recorded and never left is not sent: nothing comes of it, which need not be waited for long.
    was_lost = (point, nth) == (CrashPoint.STEP_RECORDED, 2)
    patience = "6s" if was_lost else "40s"
    with UpdatingVenue(
        tmp_path, appliances=[plug()], images=[NEW, MINIMAL], retry="3s", patience=patience
    ) as venue:
        dies_in_the_middle(venue, point, nth, was_lost=was_lost)


def dies_in_the_middle(venue: UpdatingVenue, point: CrashPoint, nth: int, *, was_lost: bool) -> None:
    """Let the agent die there and start again."""
    venue.opens(PLUG)
    venue.agent.kill()
    venue.agent.start(crash=(point, nth))
    venue.agent.wait_for_broker()
    order = venue.installs(PLUG, NEW.name)
    assert venue.agent.wait_for_end() == -9

    venue.agent.start()
    receipt = venue.end_of(order)

    assert receipt.outcome is (Outcome.FAILED if was_lost else Outcome.SUCCEEDED)
    assert upgrades(venue) == (0 if was_lost else 1)
