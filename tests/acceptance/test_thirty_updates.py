"""Thirty devices of three families are updated by lists, in a window, whatever happens meanwhile."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
from pydantic import JsonValue

from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.update import Stage
from edgeagent.core.firmware import NEXT, OUTCOMES
from edgeagent.issuer.commands import SignedCommand
from firmware_sim.image import SECTOR
from tests.firmware_sim.images import a_shelly_image, a_tasmota_image, a_zigbee_image
from tests.support.agents_rollouts import Group, RolloutVenue, rollout_venue, window
from tests.support.agents_updates import Released
from tests.support.brokers import wait_until
from tests.support.updates_seen import Seen, most_at_once, updates_seen

pytestmark = pytest.mark.slow

PARALLEL, CANARIES = 4, 2
SIZE: Final = 24 * SECTOR
MINIMAL: Final = Released(
    name="plug-14.2.0-minimal",
    image=a_tasmota_image(minimal=True),
    family="tasmota",
    version="14.2.0(minimal)",
)
PLUGS: Final = Group(
    image=Released(
        name="plug-14.2.0",
        image=a_tasmota_image(size=SIZE),
        family="tasmota",
        version="14.2.0(release-tasmota)",
    ),
    devices=[f"02A1B2{place:06X}" for place in range(1, 15)],
)
RELAYS: Final = Group(
    image=Released(
        name="relay-1.7.2", image=a_shelly_image(size=SIZE), family="shelly-gen2", version="1.7.2"
    ),
    devices=[f"shellyplugsg3-02b1b2{place:06x}" for place in range(1, 11)],
    profile="shelly-gen2",
)
LAMPS: Final = Group(
    image=Released(name="lamp-192", image=a_zigbee_image(size=SIZE), family="zigbee2mqtt", version="192"),
    devices=[f"0x00158d00000000{place:02x}" for place in range(1, 7)],
)
GROUPS: Final = (PLUGS, RELAYS, LAMPS)
NUMBERS: Final = dict(zip((group.image.name for group in GROUPS), ("14.2.0", "1.7.2", "192"), strict=True))
"""The versions of the images, as the appliances' journal has them."""
SMALL: Final = PLUGS.devices[3:5]
"""Of one megabyte: over the minimal image, with two reboots."""
FAULTY: Final[dict[str, tuple[dict[str, JsonValue], Outcome]]] = {
    PLUGS.devices[12]: ({"fault": "brown_out", "nth": 5}, Outcome.FAILED),
    RELAYS.devices[8]: ({"fault": "vanish", "percent": 40}, Outcome.UNKNOWN),
    LAMPS.devices[4]: ({"fault": "tells_old"}, Outcome.FAILED),
}
"""A power cut in the middle of a write, one that is gone for good, and a liar; none among the first."""
RULE: Final = f"""parallel = {PARALLEL}
canary = {CANARIES}
stop_after = 2
longest = "1m"
"""


def appliances() -> list[dict[str, JsonValue]]:
    """Thirty, and the bridge before some of them."""
    listed: list[dict[str, JsonValue]] = [
        {"model": "tasmota-plug", "mac": plug, "settings": {"flash": "1m" if plug in SMALL else "twin"}}
        for plug in PLUGS.devices
    ]
    listed += [{"model": "shelly-plug", "mac": relay.rpartition("-")[2].upper()} for relay in RELAYS.devices]
    lamps: list[JsonValue] = [
        {"ieee": lamp, "model": "zigbee-lamp", "name": f"lamp {lamp[-2:]}"} for lamp in LAMPS.devices
    ]
    listed.append({"model": "zigbee2mqtt", "mac": "02CC00000001", "settings": {"devices": lamps}})
    return listed


def faults() -> list[dict[str, JsonValue]]:
    """What goes wrong, as the appliances take it."""
    return [
        {**fault, "part" if device.startswith("0x") else "appliance": device}
        for device, (fault, _) in FAULTY.items()
    ]


def came_after_the_first(seen: Mapping[str, Seen], group: Group) -> bool:
    """Whether no further device was set off before the first ones ran the new version."""
    begun = sorted((seen[device].set_off[0], device) for device in group.devices)
    first = [device for _, device in begun[:CANARIES]]
    return max(seen[device].over or 0 for device in first) < begun[CANARIES][0]


def is_a_way(trail: list[str]) -> bool:
    """Whether a trail leads from the beginning to an end by moves that there are."""
    stages = [Stage(stage) for stage in trail]
    moves = all(after in NEXT[before] for before, after in pairwise(stages))
    return stages[0] is Stage.STAGING and moves and stages[-1] in OUTCOMES


@pytest.mark.requirement("F1", "F2", "F3", "F4", "F5", "F6", "S2", "R1", "R5", "L3", "W1")
def test_thirty_devices_are_updated_once_each_and_the_faulty_ones_come_to_their_right_end(
    tmp_path: Path,
) -> None:
    images = [MINIMAL, *(group.image for group in GROUPS)]
    with rollout_venue(
        tmp_path,
        appliances=appliances(),
        images=images,
        faults=faults(),
        rule=RULE + window(timedelta(hours=10)),
    ) as (venue, web):
        # The server of files is cut twice, each time in the middle of one.
        web.cuts = {PLUGS.image.name: 1, RELAYS.image.name: 1}
        venue.comes_in(GROUPS)
        plugs = venue.lists(PLUGS)

        # The window is closed: nobody begins.
        wait_until(lambda: venue.stands(plugs).waits is Reason.ROLLOUT_WINDOW, "the window")
        assert updates_seen(venue.journal()) == {}
        venue.rules(RULE + window(timedelta(hours=-1)))

        # The agent dies while the first ones fetch, and they go on fetching from the one that comes back.
        wait_until(lambda: len(updates_seen(venue.journal())) == CANARIES, "the first ones")
        venue.agent.kill()
        venue.agent.start()
        orders = [plugs, venue.lists(RELAYS), venue.lists(LAMPS)]

        venue.goes_on(12)
        second = venue.new_worker()
        venue.worker.kill()
        second.start()
        venue.goes_on(30)

        judge_the_devices(updates_seen(venue.journal()))
        judge_the_hub(venue, orders)
        assert [name.partition(".")[2] for name in web.was_cut] == [PLUGS.image.name, RELAYS.image.name]
        assert venue.agent.stop() == 0
        assert venue.audit_break() is None


def judge_the_devices(seen: Mapping[str, Seen]) -> None:
    """Hold what the appliances wrote down against what was asked for."""
    good = {device: group for group in GROUPS for device in group.devices if device not in FAULTY}
    vanished, liar = RELAYS.devices[8], LAMPS.devices[4]
    assert seen.keys() == good.keys() | FAULTY.keys()
    assert {device for device, one in seen.items() if len(one.set_off) != 1} == set()
    assert {
        device for device, group in good.items() if seen[device].runs != NUMBERS[group.image.name]
    } == set()
    assert (seen[PLUGS.devices[12]].runs, seen[vanished].gone, seen[liar].runs) == ("14.1.0", True, "192")
    assert 1 < most_at_once(seen) <= PARALLEL
    assert all(came_after_the_first(seen, group) for group in GROUPS)


def judge_the_hub(venue: RolloutVenue, orders: Sequence[SignedCommand]) -> None:
    """See that receipts and trail tell the same."""
    for group, order in zip(GROUPS, orders, strict=True):
        trails, outcomes = venue.trails(order), venue.outcomes(order)
        expected = dict.fromkeys(group.devices, Outcome.SUCCEEDED)
        expected |= {device: end for device, (_, end) in FAULTY.items() if device in expected}
        assert outcomes == expected
        assert {device: OUTCOMES.get(Stage(trail[-1])) for device, trail in trails.items()} == outcomes
        assert [trail for trail in trails.values() if not is_a_way(trail)] == []
    verified = venue.agent.run("audit", "verify")
    assert verified.returncode == 0, verified.stdout
