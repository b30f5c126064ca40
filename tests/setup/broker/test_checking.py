"""A broker is looked at as a guest does: what is missing, what nobody can promise; nothing changes."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.adapters.mqtt.settings import MqttSettings
from edgeagent.clock import ProvenClock, SystemTime
from edgeagent.contracts.reports.broker import BrokerCheck, BrokerReport
from edgeagent.contracts.reports.health import Level
from edgeagent.setup.broker.checking import NOBODY_PROVES, Wanted, check_broker
from tests.cli.building import typed
from tests.setup.broker.building import PLUG, admits
from tests.support.brokers import Mosquitto, free_port
from tests.support.device import Device

pytestmark = pytest.mark.requirement("N1", "H5")

MOMENT = timedelta(milliseconds=300)


def looked(
    broker: Mosquitto,
    *,
    commands: Sequence[str] = (),
    listening: timedelta = MOMENT,
    configuration: Path | None = None,
) -> BrokerReport:
    """What is said of a broker, by its configuration or by another file that is taken for it."""
    settings = MqttSettings(port=broker.port, connect_timeout=timedelta(seconds=5))
    wanted = Wanted(
        readings=["tele/#"],
        commands=commands,
        listening=listening,
        configuration=configuration or broker.configuration,
    )
    return check_broker(settings, wanted, ProvenClock(SystemTime()))


def of(report: BrokerReport, name: str) -> BrokerCheck:
    """One of its checks."""
    [found] = [check for check in report.checks if check.name == name]
    return found


def test_of_an_open_broker_it_says_what_would_close_it_and_what_nobody_can_promise(tmp_path: Path) -> None:
    with Mosquitto(tmp_path) as broker, Device(broker.port) as other:
        other.says("cmnd/plug/POWER", b"ON", retain=True)
        report = looked(broker, commands=["cmnd/plug/#"])

        assert report.level is Level.WARNING
        assert of(report, "broker").summary.startswith("speaks MQTT 5, mosquitto version 2")
        assert of(report, "anonymous").lines[0] == "allow_anonymous false"
        assert "any client can speak for any device" in of(report, "rules").summary
        assert "max_queued_messages 100000" in of(report, "limits").lines
        assert "cmnd/plug/POWER" in of(report, "retained").summary
        assert of(report, "foreign").level is Level.OK
        assert NOBODY_PROVES in report.cannot
        assert other.is_connected


def test_of_one_that_no_device_of_the_network_reaches_it_says_so(tmp_path: Path) -> None:
    # As Debian installs it: without any listener mosquitto 2 serves its own machine
    untouched = tmp_path / "mosquitto.conf"
    untouched.write_text("persistence true\n")
    with Mosquitto(tmp_path / "broker") as broker:
        listener = of(looked(broker, configuration=untouched), "listener")
        named = of(looked(broker), "listener")

    assert listener.level is Level.WARNING
    assert "no device of the network reaches it" in listener.summary
    assert listener.lines[0] == "listener 1883"
    assert named.level is Level.OK


def test_of_a_guarded_broker_it_finds_little(tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    rules.write_text("topic readwrite #\ntopic read $SYS/#\n")
    options = [f"acl_file {rules}", "max_queued_messages 20000", "autosave_interval 300"]
    with Mosquitto(tmp_path / "broker", options=options) as broker:
        report = looked(broker)

    assert {check.name for check in report.checks if check.level is not Level.OK} == {"anonymous"}
    assert of(report, "dropped").summary.startswith("drops nothing")


def test_who_else_commands_devices_is_told(tmp_path: Path) -> None:
    with Mosquitto(tmp_path) as broker, Device(broker.port) as other:

        async def meanwhile() -> BrokerReport:
            looking = asyncio.create_task(
                asyncio.to_thread(looked, broker, commands=["cmnd/plug/#"], listening=timedelta(seconds=1))
            )
            while not looking.done():
                await asyncio.to_thread(other.says, "cmnd/plug/POWER", b"ON")
                await asyncio.sleep(0.02)
            return await looking

        report = asyncio.run(meanwhile())

    assert of(report, "foreign").level is Level.WARNING
    assert "cmnd/plug/POWER" in of(report, "foreign").summary


def test_one_that_hides_its_own_topics_is_told(tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    rules.write_text("topic readwrite #\n")
    with Mosquitto(tmp_path / "broker", options=[f"acl_file {rules}"]) as broker:
        dropped = of(looked(broker), "dropped")

    assert (dropped.level, dropped.lines) == (Level.WARNING, ["topic read $SYS/broker/#"])


def test_one_that_asks_for_a_login_or_is_not_there_is_critical(tmp_path: Path) -> None:
    with Mosquitto(tmp_path, anonymous=False) as broker:
        shut = of(looked(broker), "broker")
    gone = of(looked(broker), "broker")

    assert (shut.level, gone.level) == (Level.CRITICAL, Level.CRITICAL)
    assert "mosquitto_passwd" in shut.advice
    assert gone.lines == [f"listener {broker.port} 127.0.0.1"]


def test_lines_that_shut_others_out_say_so(tmp_path: Path) -> None:
    with Mosquitto(tmp_path) as broker:
        opened = typed("broker", "check", f"mqtt://127.0.0.1:{broker.port}", "--listen", "1")
    nobody = typed("broker", "check", f"mqtt://127.0.0.2:{broker.port}", "--listen", "1")

    assert "allow_anonymous false" in opened.out
    assert "whoever has no login is shut out" in opened.out
    # Where nothing listens at another machine's address, nothing is to be written on this one
    assert (nobody.status, "shut out" in nobody.out, "listener" in nobody.out) == (2, False, False)
    assert f"{broker.port}: 127.0.0.2" not in nobody.out


def test_one_that_speaks_the_older_protocol_only_is_told_so() -> None:
    """What answers CONNECT of MQTT 5 with a refusal of 3.1.1 (code 1), as brokers of that time do."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = await reader.read(64)
        writer.write(b"\x20\x02\x00\x00" if said[8:9] == b"\x04" else b"\x20\x02\x00\x01")
        await writer.drain()
        writer.close()

    async def look() -> BrokerReport:
        server = await asyncio.start_server(serve, "127.0.0.1", free_port())
        async with server:
            port = server.sockets[0].getsockname()[1]
            settings = MqttSettings(port=port, answer_timeout=timedelta(seconds=2))
            wanted = Wanted(readings=["a"], commands=[])
            return await asyncio.to_thread(check_broker, settings, wanted, ProvenClock(SystemTime()))

    broker = of(asyncio.run(look()), "broker")

    assert broker.level is Level.CRITICAL
    assert "speaks MQTT 3.1.1 and not MQTT 5" in broker.summary


def test_on_the_command_line_it_looks_for_the_admitted_devices(tmp_path: Path) -> None:
    admits(tmp_path / "state", PLUG)
    with Mosquitto(tmp_path / "broker") as broker, Device(broker.port) as other:
        config = tmp_path / "config.toml"
        config.write_text(
            f'[hub]\nid = "venue-7"\nstate_dir = "{tmp_path / "state"}"\n[broker]\nport = {broker.port}\n'
        )
        other.says("cmnd/plug-1/POWER", b"ON", retain=True)
        before = broker.configuration.read_bytes()
        said = typed("--config", str(config), "broker", "check", "--listen", "1")
        as_json = typed("--config", str(config), "broker", "check", "--listen", "1", "--json")
        wrong = typed("--config", str(config), "broker", "check", "http://127.0.0.1")

    assert said.status == 1
    assert said.out.startswith("BROKER WARNING - ")
    assert "cmnd/plug-1/POWER" in said.out
    assert "allow_anonymous false" in said.out
    assert NOBODY_PROVES in as_json.report(BrokerReport).cannot
    assert (wrong.status, "no address like mqtt://" in wrong.err) == (1, True)
    assert broker.configuration.read_bytes() == before
