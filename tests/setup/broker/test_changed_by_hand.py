"""Files of ours that somebody has changed: what they allow ends when they are as they are to be again."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgeagent.adapters.mqtt.probe import takes
from edgeagent.clock import ProvenClock, SystemTime
from edgeagent.errors import RejectedError
from edgeagent.setup.broker.applying import apply_plan
from edgeagent.setup.broker.passwords import hashed, new_password
from edgeagent.setup.broker.trying import settings_of
from tests.setup.broker.building import PLUG, admits, in_force, planned
from tests.support.device import Device
from tests.support.own_broker import OwnBroker

pytestmark = [pytest.mark.requirement("H5", "M4", "W2"), pytest.mark.slow]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OwnBroker]:
    with OwnBroker(tmp_path / "etc", tmp_path / "state") as own:
        yield own


@pytest.fixture
def config(tmp_path: Path, broker: OwnBroker) -> Path:
    config = broker.configure(tmp_path / "config.toml")
    admits(tmp_path / "state", PLUG)
    in_force(config, broker)
    return config


def test_a_login_that_somebody_has_written_in_by_hand_ends_with_the_next_apply(
    broker: OwnBroker, config: Path
) -> None:
    key, ours = new_password(), broker.folder / "edgeagent"
    for name, more in (("acl", "\nuser debug\ntopic readwrite #\n"), ("passwd", f"debug:{hashed(key)}\n")):
        (ours / name).write_text((ours / name).read_text() + more)
    broker.reload()
    with Device(broker.port, login=("debug", key)) as debug:
        assert debug.may_say("cmnd/plug-1/POWER", b"ON")

    done = apply_plan(planned(config), broker, restart=False)

    assert (done.done, broker.reloads) == ("reloaded", 2)
    debugging = settings_of(broker.port, "debug", key)
    assert not asyncio.run(takes(debugging, ProvenClock(SystemTime())))
    assert planned(config).changed == []


def test_rights_that_somebody_has_written_in_by_hand_end_too(broker: OwnBroker, config: Path) -> None:
    rules = broker.folder / "edgeagent" / "acl"
    rules.write_text(rules.read_text() + "topic readwrite #\n")

    assert apply_plan(planned(config), broker, restart=False).done == "reloaded"
    assert planned(config).changed == []


def test_listeners_that_somebody_has_taken_away_are_there_again_after_a_restart(
    broker: OwnBroker, config: Path
) -> None:
    (broker.folder / "conf.d" / "edgeagent.conf").unlink()
    broker.restart()
    with pytest.raises(RejectedError, match="--restart"):
        apply_plan(planned(config), broker, restart=False)

    done = apply_plan(planned(config), broker, restart=True)

    assert (done.done, broker.restarts) == ("restarted", 3)
    assert planned(config).changed == []
