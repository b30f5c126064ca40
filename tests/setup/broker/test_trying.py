"""What is seen of a configuration with a mosquitto of its own, before it is put in place."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgeagent.clock import ProvenClock, SystemTime
from edgeagent.setup.broker.candidate import candidate_of
from edgeagent.setup.broker.trying import try_plan
from tests.setup.broker.building import PLUG, admits, planned
from tests.support.brokers import HOST
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


def test_a_bridge_of_somebody_else_leads_nowhere_while_it_is_tried(broker: OwnBroker, config: Path) -> None:
    with socket.create_server((HOST, 0)) as remote:
        remote.settimeout(0)
        port = remote.getsockname()[1]
        (broker.folder / "conf.d" / "bridge.conf").write_text(
            f"connection cloud\naddress {HOST}:{port}\ntopic # both 1\nremote_username hub\n"
            "remote_password chosen-by-a-person\nnotifications false\nmax_queued_messages 500\n"
        )

        tries(config)

        with pytest.raises(BlockingIOError):
            remote.accept()


def test_what_it_is_tried_with_is_for_nobody_else_to_read(
    broker: OwnBroker, config: Path, tmp_path: Path
) -> None:
    (broker.folder / "conf.d" / "bridge.conf").write_text(
        f"connection cloud\naddress {HOST}:1\nremote_username hub\nremote_password chosen-by-a-person\n"
        "max_queued_messages 500\n"
    )
    plan, folder = planned(config), tmp_path / "copy"
    folder.mkdir()
    assert plan.wish is not None

    candidate_of(plan, plan.wish, folder, []).laid_out()

    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"mosquitto.conf", "bridge.conf", "passwd", "acl"}
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert (folder / "conf.d" / "bridge.conf").read_text() == "max_queued_messages 500\n"


def test_it_is_tried_also_where_mosquitto_is_to_tell_of_errors_only(broker: OwnBroker, config: Path) -> None:
    broker.main.write_text(broker.main.read_text().replace("log_type all", "log_type error"))
    (broker.folder / "conf.d" / "quiet.conf").write_text("log_type warning\n")

    tries(config)
