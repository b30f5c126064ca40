"""Threats T36 and T6 with a device at the end: it gets what is signed for and not too old, or nothing.

Whoever has the hub's disk swaps files, links and bytes between their proof and their use. The images that
they bring would be installed by a plug without a question: it looks at a first byte and a length.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pydantic import JsonValue

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome, Receipt
from edgeagent.ids import DeviceId
from firmware_sim.image import SECTOR
from firmware_sim.journal import What
from tests.firmware_sim.images import a_tasmota_image
from tests.support.agents_updates import Released, UpdatingVenue
from tests.support.brokers import wait_until
from tests.support.stores import query

pytestmark = [pytest.mark.slow, pytest.mark.requirement("F1", "F3", "V3")]

PLUG: Final = DeviceId("02A1B2000001")
SIZE: Final = 2500 * SECTOR
"""More than lies in the buffers on the way."""
NEW: Final = Released(
    name="plug-14.2.0",
    image=a_tasmota_image(size=SIZE),
    family="tasmota",
    version="14.2.0(release-tasmota)",
    floor="14.2.0",
)
EARLIER: Final = Released(
    name="plug-14.1.5", image=a_tasmota_image("14.1.5"), family="tasmota", version="14.1.5(release-tasmota)"
)
EVIL: Final = a_tasmota_image("14.9.9", size=SIZE)


@pytest.fixture
def venue(tmp_path: Path) -> Iterator[UpdatingVenue]:
    """A venue with one plug that runs 14.1.0, and a file that is signed for and below the floor."""
    plug: dict[str, JsonValue] = {"model": "tasmota-plug", "mac": str(PLUG)}
    with UpdatingVenue(tmp_path, appliances=[plug], images=[EARLIER, NEW]) as made:
        made.opens(PLUG)
        yield made


def installs(venue: UpdatingVenue, image: Released) -> Receipt:
    """How an order ends that nobody has approved yet."""
    arguments = {"artifact": image.name, "digest": str(image.digest)}
    return venue.end_of(venue.order(PLUG, ActionName.INSTALL, arguments))


def ran(venue: UpdatingVenue) -> set[object]:
    """All that has ever booted on the plug."""
    return {line.details["version"] for line in venue.journal() if line.what is What.BOOTED}


def upgrades(venue: UpdatingVenue) -> int:
    """How often the plug was told to install."""
    return sum(
        line.what is What.HEARD and str(line.details.get("topic", "")).endswith("/Upgrade")
        for line in venue.journal()
    )


@pytest.mark.threat("T6", "T36")
def test_a_device_gets_what_is_signed_for_and_not_too_old_whatever_becomes_of_the_files(
    venue: UpdatingVenue,
) -> None:
    # Signed for, approved, and here: all of that was true once of what must not come back.
    slot = venue.agent.state_dir / "artifacts" / NEW.digest
    assert [venue.agent.run("artifacts", "fetch", each.name).returncode for each in (EARLIER, NEW)] == [0, 0]
    below = [installs(venue, EARLIER)]
    venue.agent.kill()
    venue.agent.start()
    venue.agent.wait_for_broker()
    below.append(installs(venue, EARLIER))
    assert upgrades(venue) == 0

    slot.chmod(0o600)
    inode = os.open(slot, os.O_RDWR)
    stall: dict[str, JsonValue] = {"fault": "stall", "percent": 5, "lasting": "2s", "times": 1}
    venue.fleet.does("fault", str(PLUG), fault=stall)
    order = venue.installs(PLUG, NEW.name)
    wait_until(lambda: any(line.what is What.FAULT for line in venue.journal()), "it to come half")
    # The very bytes behind the handle that was verified, and another file under its name.
    os.pwrite(inode, EVIL, 0)
    os.close(inode)
    evil = slot.with_name("evil")
    evil.write_bytes(EVIL)
    evil.rename(slot)
    spoilt = venue.end_of(order)
    served = query(venue.agent.database, "SELECT detail ->> 'ways' FROM audit WHERE kind = 'artifact_served'")
    assert (spoilt.outcome, "broken" in str(served)) == (Outcome.FAILED, True), spoilt
    left_alone = venue.end_of(venue.installs(PLUG, NEW.name))
    below.append(installs(venue, EARLIER))

    assert left_alone.outcome is Outcome.SUCCEEDED
    assert slot.read_bytes() == NEW.image
    assert [(each.outcome, each.reason) for each in below] == [(Outcome.REFUSED, Reason.ARTIFACT_TOO_OLD)] * 3
    assert upgrades(venue) == 2
    assert ran(venue) == {"14.1.0", "14.2.0"}
