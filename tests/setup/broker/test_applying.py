"""A broker of the hub's own: planned, tried, put in force, or left as it was (SPEC H5, M4, W2)."""

import asyncio
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from typing_extensions import override

from edgeagent.adapters.mqtt.probe import takes
from edgeagent.adapters.mqtt.settings import TlsSettings
from edgeagent.clock import ProvenClock, SystemTime
from edgeagent.config import load
from edgeagent.errors import ConfigurationError, RejectedError, TransientError
from edgeagent.ids import device_id
from edgeagent.setup.broker.applying import apply_plan
from edgeagent.setup.broker.login_desk import add_login, all_logins, remove_login, rotate_login
from edgeagent.setup.broker.logins import Login
from edgeagent.setup.broker.passwords import new_password
from edgeagent.setup.broker.place import MARK, BrokerPlace
from edgeagent.setup.broker.planning import BrokerPlan, Change, plan_broker, plan_leaving
from edgeagent.setup.broker.trying import settings_of
from tests.setup.broker.building import OTHER, PLUG, admits, forgets, in_force, planned
from tests.support.brokers import wait_until
from tests.support.certificates import Authority
from tests.support.device import Device
from tests.support.own_broker import OwnBroker
from tests.support.private import write_private

pytestmark = pytest.mark.requirement("H5", "M4", "W2")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OwnBroker]:
    with OwnBroker(tmp_path / "etc", tmp_path / "state") as own:
        yield own


@pytest.fixture
def config(tmp_path: Path, broker: OwnBroker) -> Path:
    return broker.configure(tmp_path / "config.toml")


def test_a_plan_shows_each_file_and_does_nothing(broker: OwnBroker, config: Path, tmp_path: Path) -> None:
    admits(tmp_path / "state", PLUG)
    before = broker.files()

    report = planned(config).report()

    place = BrokerPlace(broker.folder)
    assert list(report.differences) == [str(path) for path in place.modes]
    assert f"+listener {broker.port} 127.0.0.1" in report.differences[str(place.own)]
    assert "+topic write tele/plug-1/#" in report.differences[str(place.rules)]
    assert "$7$" not in report.differences[str(place.passwords)]
    assert (report.restart, report.obstacles) == (True, [])
    assert f"{PLUG} has no login: edgeagent broker logins add {PLUG}" in report.notes
    assert broker.files() == before


def test_files_beside_a_configuration_are_named_whole_wherever_one_stands(
    broker: OwnBroker, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with config.open("a") as file:
        file.write('cert_file = "own.pem"\nkey_file = "own.key"\n')
    (tmp_path / "own.key").touch(0o600)
    monkeypatch.chdir(tmp_path)

    plan = planned(Path(config.name))

    assert plan.wish is not None
    assert plan.wish.password_file == tmp_path / "broker-password"
    assert f"certfile {tmp_path}/own.pem" in (plan.after[BrokerPlace(broker.folder).own] or "")


@pytest.mark.slow
def test_it_is_put_in_force_whatever_the_umask_and_put_in_force_again_it_changes_nothing(
    broker: OwnBroker, config: Path, tmp_path: Path
) -> None:
    broker.restart()
    before = os.umask(0o077)
    try:
        done = apply_plan(planned(config), broker, restart=True)
    finally:
        os.umask(before)
    written = broker.files()
    password = (tmp_path / "broker-password").read_text().strip()

    assert (done.done, broker.restarts) == ("restarted", 2)
    assert all(text.decode().startswith(MARK) for name, text in written.items() if "edgeagent" in name)
    assert (broker.folder / "edgeagent").stat().st_mode & 0o777 == 0o755
    assert (broker.folder / "edgeagent" / "passwd").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "broker-password").stat().st_mode & 0o777 == 0o600
    with Device(broker.agent_port, login=("edgeagent", password)) as agent:
        assert not agent.may_say("tele/plug-1/SENSOR", b"{}")
        again = apply_plan(planned(config), broker, restart=True)
        assert (again.done, again.written) == ("nothing", [])
        assert planned(config).report().differences == {}
        assert agent.is_connected
    assert broker.files() == written
    assert (broker.restarts, broker.reloads) == (2, 0)


@pytest.mark.slow
@pytest.mark.threat("T1", "T2")
def test_a_device_speaks_for_itself_alone(broker: OwnBroker, config: Path, tmp_path: Path) -> None:
    """Against the list that is generated: neither another's readings nor anybody's commands."""
    state = tmp_path / "state"
    for device in (PLUG, OTHER):
        admits(state, device)
    admits(state, "0x01", "zigbee2mqtt", friendly_name="lamp")
    in_force(config, broker)
    keys = {
        name: add_login(config, broker, device_id(name), None, {}).password or ""
        for name in (PLUG, OTHER, "0x01")
    }
    assert (broker.restarts, broker.reloads) == (1, 3)

    agent = ("edgeagent", (tmp_path / "broker-password").read_text().strip())
    with (
        Device(broker.port, login=(PLUG, keys[PLUG]), client_id="edgeagent-venue-7-control") as plug,
        Device(broker.port, login=("zigbee2mqtt", keys["0x01"])) as bridge,
        Device(broker.agent_port, login=agent, client_id="edgeagent-venue-7-control") as hub,
    ):
        for topic in ("tele/plug-1/SENSOR", "stat/plug-1/RESULT", f"tasmota/discovery/{PLUG}/config"):
            assert plug.may_say(topic, b"{}"), topic
        for topic in (
            *("tele/plug-2/SENSOR", "stat/plug-2/RESULT", "cmnd/plug-2/POWER", "cmnd/plug-1/POWER"),
            *(f"tasmota/discovery/{OTHER}/config", "cmnd/tasmotas/POWER", "zigbee2mqtt/lamp/set"),
            *("zigbee2mqtt/bridge/devices", "edgeagent/venue-7/x/rpc", "$SYS/broker/version", "anything"),
        ):
            assert not plug.may_say(topic, b"ON"), topic
            assert not plug.may_say(topic, b"ON", retain=True), topic
        assert not bridge.may_say("tele/plug-1/SENSOR", b"{}")
        plug.listens("#")
        hub.listens("#")
        assert hub.may_say("cmnd/plug-2/POWER", b"ON")
        assert hub.may_say("cmnd/plug-1/POWER", b"OFF")
        assert not hub.may_say("tele/plug-1/SENSOR", b"{}")
        assert bridge.may_say("zigbee2mqtt/lamp", b'{"state":"ON"}')
        assert [heard.topic for heard in plug.hears(1)] == ["cmnd/plug-1/POWER"]
        assert "zigbee2mqtt/lamp" in [heard.topic for heard in hub.hears(3)]
        # Nobody takes the name of another's connection: a device's is that of its login.
        assert hub.is_connected


@pytest.mark.slow
def test_a_login_is_made_before_its_device_comes_and_goes_with_it(
    broker: OwnBroker, config: Path, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    in_force(config, broker)
    with pytest.raises(RejectedError, match="name its --profile"):
        add_login(config, broker, device_id(PLUG), None, {})
    with pytest.raises(RejectedError, match="need the parameter topic"):
        add_login(config, broker, device_id(PLUG), "tasmota", {})

    made = add_login(config, broker, device_id(PLUG), "tasmota", {"topic": "plug-1"})
    assert made.password is not None
    with pytest.raises(RejectedError, match="rotate"):
        add_login(config, broker, device_id(PLUG), "tasmota", {"topic": "plug-1"})
    with Device(broker.port, login=(PLUG, made.password)) as plug:
        assert plug.may_say(f"tasmota/discovery/{PLUG}/config", b"{}")
    renewed = rotate_login(config, broker, PLUG)
    assert renewed.password not in {None, made.password}
    assert [(login.login, login.devices, login.password) for login in all_logins(config)] == [
        (PLUG, [PLUG], None)
    ]

    admits(state, PLUG)
    rules = planned(config).report().differences[str(broker.folder / "edgeagent" / "acl")]
    assert f"user {PLUG}" not in rules
    apply_plan(planned(config), broker, restart=False)
    forgets(state, PLUG)
    plan = planned(config)
    assert f"the login {PLUG} goes: its device is not admitted any more" in plan.notes
    apply_plan(plan, broker, restart=False)
    assert all_logins(config) == []
    assert PLUG not in (broker.folder / "edgeagent" / "acl").read_text()
    with pytest.raises(RejectedError):
        remove_login(config, broker, PLUG)


@pytest.mark.slow
def test_who_is_connected_is_cut_off_when_its_login_goes(broker: OwnBroker, config: Path) -> None:
    in_force(config, broker)
    made = add_login(config, broker, device_id(PLUG), "tasmota", {"topic": "plug-1"})
    with Device(broker.port, login=(PLUG, made.password or "")) as plug:
        assert plug.may_say("tele/plug-1/SENSOR", b"{}")
        remove_login(config, broker, PLUG)

        wait_until(lambda: not plug.is_connected, "the plug to be cut off")
        wait_until(lambda: broker.log.count("not authorised") > 1, "the plug to be refused")


@pytest.mark.parametrize("written", range(5))
def test_cut_off_between_two_files_it_is_ended_by_applying_again(
    broker: OwnBroker, config: Path, tmp_path: Path, written: int
) -> None:
    """Also when it was cut off before the broker was told: whether it was is noted afterwards."""
    admits(tmp_path / "state", PLUG)
    half = planned(config)
    assert half.wish is not None
    password = tmp_path / "broker-password"
    write_private(password, half.wish.password)
    for path in half.changed[:written]:
        half.place.write(path, half.after[path])
    broker.restart()

    rest = planned(config)
    in_force(config, broker)

    assert {path.name for path in rest.changed} == {path.name for path in half.changed[written:]}
    assert (rest.restart, broker.restarts) == (True, 2)
    assert planned(config).changed == []


def test_without_leave_to_restart_nothing_is_written(broker: OwnBroker, config: Path, tmp_path: Path) -> None:
    before = broker.files()

    with pytest.raises(RejectedError, match="--restart"):
        apply_plan(planned(config), broker, restart=False)

    assert broker.files() == before
    assert not (tmp_path / "broker-password").exists()


@pytest.mark.parametrize(
    ("name", "line", "told"),
    [
        ("mosquitto.conf", "allow_anonymous true", "allow_anonymous"),
        ("conf.d/theirs.conf", "per_listener_settings true", "per_listener_settings"),
        ("conf.d/theirs.conf", "acl_file /etc/theirs", "acl_file"),
        ("conf.d/theirs.conf", "listener {port}", "listens on port"),
        ("conf.d/theirs.conf", "port {agent_port}", "listens on port"),
        ("conf.d/theirs.conf", "max_connections 50", "opens a listener of mosquitto's own"),
    ],
)
def test_where_somebody_else_has_said_who_may_come_in_nothing_is_written(
    broker: OwnBroker, config: Path, name: str, line: str, told: str
) -> None:
    file = broker.folder / name
    said = file.read_text() if file.exists() else ""
    file.write_text(f"{said}{line.format(port=broker.port, agent_port=broker.agent_port)}\n")
    before = broker.files()

    plan = planned(config)
    [obstacle] = plan.obstacles
    with pytest.raises(RejectedError, match=told):
        apply_plan(plan, broker, restart=True)

    assert f"{file}:" in obstacle
    assert broker.files() == before
    assert broker.restarts == 0


def test_a_main_file_that_is_not_there_or_includes_nothing_is_told(broker: OwnBroker, config: Path) -> None:
    broker.main.write_text("persistence true\n")
    [includes_nothing] = planned(config).obstacles
    broker.main.unlink()
    [missing] = planned(config).obstacles

    assert "add include_dir" in includes_nothing
    assert "apt-get install mosquitto" in missing


def test_a_file_of_somebody_else_in_the_place_of_ours_is_left_alone(broker: OwnBroker, config: Path) -> None:
    theirs = broker.folder / "conf.d" / "edgeagent.conf"
    theirs.write_text("listener 1883\n")

    with pytest.raises(ConfigurationError, match="is not ours"):
        plan_broker(config)

    assert theirs.read_text() == "listener 1883\n"


def test_what_mosquitto_does_not_take_is_found_before_anything_is_written(
    broker: OwnBroker, config: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "certificate.pem"
    write_private(broken, "no certificate\n")
    lines = f'cert_file = "{broken}"\nkey_file = "{broken}"\n'
    config.write_text(config.read_text() + lines)
    before = broker.files()

    with pytest.raises(RejectedError, match="mosquitto does not take it"):
        apply_plan(planned(config), broker, restart=True)

    assert broker.files() == before
    assert broker.restarts == 0


@pytest.mark.slow
def test_what_others_have_written_of_other_things_stays_and_is_tried_as_well(
    broker: OwnBroker, config: Path
) -> None:
    theirs = broker.folder / "conf.d" / "limits.conf"
    theirs.write_text("listener 9001\nmax_connections 50\nmax_nothing 3\n")
    before = broker.files()
    with pytest.raises(RejectedError, match="max_nothing"):
        apply_plan(planned(config), broker, restart=True)
    assert broker.files() == before

    theirs.write_text("set_tcp_nodelay true\n")
    in_force(config, broker)
    assert theirs.read_text() == "set_tcp_nodelay true\n"


@pytest.mark.slow
def test_of_two_who_write_at_once_the_later_one_changes_nothing(broker: OwnBroker, config: Path) -> None:
    early, late = planned(config), planned(config)
    apply_plan(early, broker, restart=True)
    written = broker.files()

    with pytest.raises(RejectedError, match="meanwhile"):
        apply_plan(late, broker, restart=True)
    made = rotated(config)
    with BrokerPlace(broker.folder).alone(), pytest.raises(TransientError, match="somebody else"):
        apply_plan(made, broker, restart=True)

    assert broker.files() == written
    assert broker.restarts == 1


def rotated(config: Path) -> BrokerPlan:
    """A plan in which there is something to write."""
    plug = Login(login=PLUG, device=device_id(PLUG), profile="tasmota", parameters={"topic": "plug-1"})
    plan = plan_broker(config, Change(add=plug, password=new_password()))
    assert plan is not None
    return plan


@pytest.mark.slow
def test_with_a_certificate_devices_have_to_use_tls_and_the_agent_has_not(tmp_path: Path) -> None:
    with TemporaryDirectory(prefix="edgeagent-") as name:
        # Below a folder of root's alone mosquitto's own user could not read it.
        folder = Path(name)
        folder.chmod(0o755)
        authority = Authority(folder)
        certificate, key = authority.issues("hub", "127.0.0.1")
        if os.geteuid() == 0:
            shutil.chown(key, group="mosquitto")
        key.chmod(0o640)
        more = f'cert_file = "{certificate}"\nkey_file = "{key}"\n'
        with OwnBroker(tmp_path / "etc", tmp_path / "state", more) as broker:
            config = broker.configure(tmp_path / "config.toml")
            in_force(config, broker)
            made = add_login(config, broker, device_id(PLUG), "tasmota", {"topic": "plug-1"})
            plain = settings_of(broker.port, PLUG, made.password)
            guarded = replace(plain, tls=TlsSettings(ca=authority.certificate))
            clock = ProvenClock(SystemTime())

            assert asyncio.run(takes(guarded, clock))
            assert not asyncio.run(takes(plain, clock))


class Stubborn(OwnBroker):
    """One that does not come up with what it was given, though it took it when it was tried."""

    @override
    def restart(self) -> None:
        self.stop()
        self.restarts += 1
        if (self.folder / "conf.d" / "edgeagent.conf").exists():
            raise TransientError("it does not come up")


def test_when_the_broker_does_not_come_up_the_earlier_files_are_back(tmp_path: Path) -> None:
    stubborn = Stubborn(tmp_path / "etc", tmp_path / "state")
    config = stubborn.configure(tmp_path / "config.toml")
    before = stubborn.files()

    with pytest.raises(RejectedError, match="does not come up; the earlier files are back, and in force"):
        apply_plan(planned(config), stubborn, restart=True)

    assert stubborn.files() == before
    assert stubborn.restarts == 2
    assert not (tmp_path / "broker-password").exists()


def test_a_purge_of_the_package_knows_our_files_by_their_first_line() -> None:
    said = (Path(__file__).parents[3] / "packaging" / "deb" / "control.py").read_text("utf-8")

    [begins] = re.findall(r'_MARK: Final = "(.+)"', said)
    assert MARK.startswith(begins)


def test_as_a_guest_there_is_nothing_to_write_and_what_was_ours_goes(
    broker: OwnBroker, config: Path, tmp_path: Path
) -> None:
    (tmp_path / "guest.toml").write_text(f'[hub]\nid = "venue-7"\nstate_dir = "{tmp_path}"\n')
    before = broker.files()

    assert plan_broker(tmp_path / "guest.toml") is None
    assert broker.files() == before
    assert config.exists()


@pytest.mark.slow
@pytest.mark.requirement("A2")
def test_a_guest_again_leaves_nothing_behind_the_password_that_was_made_for_it_least_of_all(
    broker: OwnBroker, config: Path, tmp_path: Path
) -> None:
    before = broker.files()
    in_force(config, broker)
    apply_plan(rotated(config), broker, restart=False)
    made, place = tmp_path / "broker-password", BrokerPlace(broker.folder)
    sections = broker.sections.partition("[broker.managed]")[0]
    hub = config.read_text().partition("[broker]")[0]

    # As long as the configuration names it, it may be in use.
    config.write_text(f"{hub}{sections}")
    kept = plan_leaving(load(config), config, place)
    assert kept is not None
    assert (kept.goes, kept.notes) == (None, [])

    config.write_text(hub)
    plan = plan_leaving(load(config), config, place)
    assert plan is not None
    assert str(made) in plan.report().notes[0]
    assert made.exists()
    with pytest.raises(RejectedError, match="--restart"):
        apply_plan(plan, broker, restart=False)
    assert made.exists()
    done = apply_plan(plan, broker, restart=True)

    assert str(made) in done.removed
    assert not made.exists()
    assert broker.files() == before
    assert plan_leaving(load(config), config, place) is None


def test_a_password_that_a_person_has_made_stays(broker: OwnBroker, config: Path, tmp_path: Path) -> None:
    own = tmp_path / "broker-password"
    write_private(own, "chosen-by-a-person-1")
    in_force(config, broker)
    config.write_text(config.read_text().partition("[broker]")[0])

    plan = plan_leaving(load(config), config, BrokerPlace(broker.folder))
    assert plan is not None
    apply_plan(plan, broker, restart=True)

    assert own.read_text() == "chosen-by-a-person-1"
