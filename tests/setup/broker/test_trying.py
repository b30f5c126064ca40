"""What is seen of a configuration with a mosquitto of its own, before it is put in place."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgeagent.clock import ProvenClock, SystemTime
from edgeagent.setup.broker.trying import try_plan
from tests.setup.broker.building import PLUG, admits, planned
from tests.support.own_broker import OwnBroker

pytestmark = [pytest.mark.requirement("H5"), pytest.mark.slow]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OwnBroker]:
    with OwnBroker(tmp_path / "etc", tmp_path / "state") as own:
        yield own


@pytest.fixture
def config(tmp_path: Path, broker: OwnBroker) -> Path:
    return broker.configure(tmp_path / "config.toml")


def tries(config: Path) -> None:
    """Try what would be written."""
    try_plan(planned(config), ProvenClock(SystemTime()))


def test_behind_a_bridge_of_many_devices_one_that_has_no_login_yet_is_tried_as_well(
    config: Path, tmp_path: Path
) -> None:
    for number in range(64):
        admits(tmp_path / "state", f"0x{number:016x}", "zigbee2mqtt", friendly_name=f"lamp {number}")
    admits(tmp_path / "state", PLUG)
    plan = planned(config)
    assert plan.access[-1].login == PLUG

    tries(config)
