"""The power fails in the middle of updates, at one write of flash or another: each comes to its right end.

What a device does of each write is held in ``tests/firmware_sim/test_brown_outs.py``; here the agent judges.
"""

from pathlib import Path
from typing import Final

import pytest
from pydantic import JsonValue

from edgeagent.contracts.receipt import Outcome
from firmware_sim.journal import What
from tests.firmware_sim.images import PUBLIC, a_shelly_image, a_tasmota_image
from tests.firmware_sim.test_brown_outs import a_display_image
from tests.support.agents_updates import Released, UpdatingVenue

pytestmark = [pytest.mark.slow, pytest.mark.requirement("F4", "F6", "S2"), pytest.mark.threat("T24")]

TASMOTA: Final = Released(
    name="plug-14.2.0", image=a_tasmota_image(), family="tasmota", version="14.2.0(release-tasmota)"
)
SHELLY: Final = Released(name="shelly-1.7.2", image=a_shelly_image(), family="shelly-gen2", version="1.7.2")
DISPLAY: Final = Released(
    name="display-2.0.0", image=a_display_image("2.0.0"), family="url-update", version="2.0.0"
)
LAST_OLD: Final = {TASMOTA: 10, SHELLY: 11, DISPLAY: 10}
"""Up to which write the old image boots: the erasing, each sector, and the record of what boots."""
BEFORE: Final = {TASMOTA: "14.1.0", SHELLY: "1.7.1", DISPLAY: "1.0.0"}
"""What the devices run when they come."""
WRITES: Final = {TASMOTA: (1, 9, 10, 11), SHELLY: (5, 11, 12), DISPLAY: (2, 11)}


def appliance(image: Released, place: int) -> tuple[str, dict[str, JsonValue]]:
    """A device for an image: its id, and as ``firmware_sim`` takes it."""
    mac = f"02A1B2{place:06X}"
    if image is TASMOTA:
        return mac, {"model": "tasmota-plug", "mac": mac}
    if image is SHELLY:
        return f"shellyplugsg3-{mac.lower()}", {"model": "shelly-plug", "mac": mac}
    return f"display-{mac.lower()}", {"model": "display", "mac": mac}


def test_whichever_write_the_power_fails_at_the_update_comes_to_its_right_end(tmp_path: Path) -> None:
    cases = [(image, nth) for image, writes in WRITES.items() for nth in writes]
    made = [appliance(image, place) for place, (image, _) in enumerate(cases, 1)]
    names = [name for name, _ in made]
    faults: list[dict[str, JsonValue]] = [
        {"fault": "brown_out", "appliance": name, "nth": nth}
        for name, (_, nth) in zip(names, cases, strict=True)
    ]
    appliances, images = [one for _, one in made], [TASMOTA, SHELLY, DISPLAY]
    with UpdatingVenue(tmp_path, appliances=appliances, images=images, faults=faults, maker=PUBLIC) as venue:
        venue.opens(*names)

        orders = [venue.installs(name, image.name) for name, (image, _) in zip(names, cases, strict=True)]
        ends = [venue.end_of(order).outcome for order in orders]

        right = [Outcome.FAILED if nth <= LAST_OLD[image] else Outcome.SUCCEEDED for image, nth in cases]
        assert dict(zip(names, ends, strict=True)) == dict(zip(names, right, strict=True))
        struck = {line.appliance for line in venue.journal() if line.what is What.FAULT}
        assert struck == set(names)
        assert [venue.runs(name) for name in names] == [
            image.version.partition("(")[0] if end is Outcome.SUCCEEDED else BEFORE[image]
            for (image, _), end in zip(cases, ends, strict=True)
        ]
        assert venue.agent.stop() == 0
        assert venue.audit_break() is None
