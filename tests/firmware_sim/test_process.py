"""The fleet as a process: its lines, its control, its end."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from firmware_sim.fields import Json
from firmware_sim.journal import What, read
from firmware_sim.specification import invented
from tests.firmware_sim.peer import Peer
from tests.firmware_sim.process import FleetProcess, fleet, started
from tests.support.brokers import Mosquitto, free_port
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("F6")

_WITHIN: Final = 60.0


def named(running: FleetProcess, model: str) -> dict[str, Json]:
    """The first appliance of a kind."""
    return next(one for one in running.appliances if one["model"] == model)


def test_it_tells_what_it_is_made_of_when_all_listen(broker: Mosquitto) -> None:
    with fleet(broker, "--seed", "7", "--appliances", "12") as running:
        first = running.appliances
    with fleet(broker, "--seed", "7", "--appliances", "12") as again:
        second = again.appliances

    assert len(first) == 12
    assert first == second
    assert {one["family"] for one in first} == {"shelly", "tasmota"}
    assert {"id", "family", "model", "can"} <= set(first[0])
    assert named(running, "Nous A1T")["can"] == {
        "POWER": ["power", "toggle", "identify"],
        "device": ["reboot"],
    }


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
async def test_a_signal_ends_it_cleanly_and_the_wills_are_said(
    how: signal.Signals, broker: Mosquitto, peer: Peer, journal_path: Path
) -> None:
    with fleet(broker, "--journal", str(journal_path)) as running:
        running.process.send_signal(how)
        status = running.process.wait(_WITHIN)
        complaints = running.errors()
        wills = [f"{one['prefix']}/online" for one in running.appliances if one["family"] == "shelly"]

    assert (status, complaints) == (0, "")
    for will in wills:
        await peer.hears(will, lambda message: message.text == "false")
    told = [line.what for line in read(journal_path)]
    assert told.count(What.STOPPED) == told.count(What.STATE) == 8


async def test_control_lines_make_things_happen(broker: Mosquitto, peer: Peer) -> None:
    with fleet(broker) as running:
        plug, dual = named(running, "Nous A1T"), named(running, "Sonoff Dual R3")
        who, topic = str(plug["id"]), str(plug["topic"])

        running.does("press", str(dual["id"]), button=2)
        await peer.hears(f"stat/{dual['topic']}/POWER2", lambda message: message.text == "ON")

        assert running.does("fault", who, fault={"fault": "drop", "topic": "cmnd/+/POWER"})["done"] == {
            who: 1
        }
        peer.says(f"cmnd/{topic}/POWER", "ON")
        await eventually(lambda: running.state(who)["commands"] == 1)
        running.does("heal", who)
        peer.says(f"cmnd/{topic}/POWER", "TOGGLE")
        await peer.hears(f"stat/{topic}/POWER", lambda message: message.text == "ON")

        running.does("publish", who, topic=f"tele/{topic}/SENSOR", payload_base64="/wA=", qos=1)
        odd = await peer.hears(f"tele/{topic}/SENSOR", lambda message: message.payload == b"\xff\x00")
        assert (odd.qos, odd.retain) == (1, False)

        running.does("reboot", who, lasting="50ms")
        await peer.hears(f"tele/{topic}/LWT", lambda message: message.text == "Offline")
        await peer.hears(f"tele/{topic}/INFO1", after=1)

        running.does("disconnect", who, lasting="1h")
        await peer.hears(f"tele/{topic}/LWT", lambda message: message.text == "Offline", after=1)
        answer = running.does("state", who, tag="t1")

    assert answer["tag"] == "t1"
    done = answer["done"]
    assert isinstance(done, dict)
    state = dict(done[who])
    runs = state.pop("flash")["flash"]["running"]
    assert state == {
        "connected": False,
        "boots": 1,
        "commands": 2,
        "gone": False,
        "parts": {"POWER": {"power": True}},
    }
    assert (runs["slot"], runs["version"]) == ("a", "14.1.0")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        pytest.param("nonsense", "not JSON", id="not JSON"),
        pytest.param("[]", "an object is wanted", id="a list"),
        pytest.param("{}", "'do' is missing", id="nothing"),
        pytest.param('{"do":"dance"}', "one of state", id="no such verb"),
        pytest.param('{"do":"press"}', "'appliance' is missing", id="nobody"),
        pytest.param('{"do":"press","appliance":"nobody"}', "there is no appliance", id="stranger"),
        pytest.param('{"do":"press","appliance":"*","button":0}', "from 1", id="no such button"),
        pytest.param('{"do":"heal","appliance":"*","why":1}', "unknown why", id="unknown field"),
        pytest.param(
            '{"do":"fault","appliance":"*","fault":{"fault":"x"}}', "one of drop", id="no such fault"
        ),
        pytest.param(
            '{"do":"publish","appliance":"*","topic":"a/#","payload":""}', "cannot be sent", id="topic"
        ),
        pytest.param(
            '{"do":"publish","appliance":"*","topic":"a","payload_base64":"?"}', "base64", id="base64"
        ),
        pytest.param("[" * 5000, "not JSON", id="too deep"),
        pytest.param("x" * 1_200_000, "longer than", id="too long"),
    ],
)
def test_a_line_that_cannot_be_read_is_answered_and_changes_nothing(
    line: str, complaint: str, broker: Mosquitto
) -> None:
    with fleet(broker, "--appliances", "2") as running:
        before = running.does("state")["done"]
        answer = running.asked(line)
        while (follow := running.asked('{"do":"state","appliance":"*","tag":1}')).get("tag") != 1:
            assert follow["ok"] is False  # the rest of a line that was too long

    assert answer["ok"] is False
    assert complaint in str(answer["error"])
    assert follow["done"] == before


def test_it_ends_when_asked_to(broker: Mosquitto) -> None:
    with fleet(broker, "--appliances", "1") as running:
        assert running.asked('{"do":"stop"}') == {"ok": True}
        assert running.process.wait(_WITHIN) == 0


async def test_it_goes_on_when_its_input_ends(broker: Mosquitto, peer: Peer) -> None:
    with fleet(broker, "--appliances", "1") as running:
        assert running.process.stdin is not None
        running.process.stdin.close()
        for number in range(1, 4):
            peer.asks(str(running.appliances[0]["prefix"]), "Shelly.GetDeviceInfo", number)
            await peer.answered(number)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(_WITHIN) == 0


def test_it_says_who_does_not_get_to_the_broker() -> None:
    nowhere = f"127.0.0.1:{free_port()}"

    with started(nowhere, "--appliances", "2", "--within", "300ms") as running:
        status = running.process.wait(_WITHIN)
        complaints = running.errors().splitlines()

    assert status == 1
    assert len(complaints) == 2
    assert all("does not listen: Connection refused" in line for line in complaints)


def test_a_journal_that_cannot_be_written_ends_it(broker: Mosquitto) -> None:
    where = f"127.0.0.1:{broker.port}"

    with started(where, "--appliances", "1", "--journal", "/dev/full") as running:
        status = running.process.wait(_WITHIN)
        complaints = running.errors()

    assert status == 1
    assert "No space left on device" in complaints
    assert "Traceback" not in complaints


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param(["--broker", "localhost"], "HOST:PORT", id="no port"),
        pytest.param(["--broker", "localhost:99999"], "HOST:PORT", id="no such port"),
        pytest.param(["--broker", "a:1", "--period", "soon"], "no duration", id="period"),
        pytest.param(["--broker", "a:1", "--period", "0s"], "take some time", id="no period"),
        pytest.param(["--broker", "a:1", "--appliances", "0"], "are possible", id="none"),
        pytest.param(["--broker", "a:1", "--appliances", "-1"], "are possible", id="too many"),
        pytest.param(["--broker", "a:1", "--faults", "/nowhere"], "No such file", id="no such file"),
        pytest.param(["--broker", "a:1", "--journal", "/"], "Is a directory", id="no file"),
        pytest.param(["--broker", "a:1", "--burst", "0"], "at least one", id="empty burst"),
    ],
)
def test_wrong_arguments_are_refused_with_the_reason(arguments: list[str], complaint: str) -> None:
    with started(*arguments[1:]) as running:
        status = running.process.wait(_WITHIN)
        complaints = running.errors()

    assert status == 2
    assert complaint in complaints


def test_each_appliance_may_log_in_as_itself(tmp_path: Path) -> None:
    passwords = tmp_path / "passwords"
    with fleet_of_one_name(tmp_path) as (broker, name):
        subprocess.run(["mosquitto_passwd", "-b", "-c", str(passwords), name, "secret"], check=True)
        passwords.chmod(0o644)
        broker.start()
        with fleet(broker, "--appliances", "1", "--username", "{id}", "--password", "secret") as running:
            assert running.appliances[0]["id"] == name
        arguments = ("--appliances", "1", "--username", "{id}", "--password", "wrong", "--within", "300ms")
        with started(f"127.0.0.1:{broker.port}", *arguments) as stranger:
            status = stranger.process.wait(_WITHIN)
            complaints = stranger.errors()

    assert status == 1
    assert "refused: Not authorized" in complaints


@contextmanager
def fleet_of_one_name(tmp_path: Path) -> Iterator[tuple[Mosquitto, str]]:
    """A broker that wants names, not started, and the name of the only appliance of the default seed."""
    broker = Mosquitto(
        tmp_path / "closed", anonymous=False, options=[f"password_file {tmp_path / 'passwords'}"]
    )
    try:
        yield broker, invented("0", 1)[0].id
    finally:
        broker.stop()


async def test_faults_and_appliances_come_from_files(broker: Mosquitto, peer: Peer, tmp_path: Path) -> None:
    venue, mishaps = tmp_path / "venue.toml", tmp_path / "mishaps.toml"
    venue.write_text('[[appliance]]\nmodel = "tasmota-plug"\nmac = "02A1B2C3D4E5"\n', encoding="utf-8")
    mishaps.write_text('[[fault]]\nfault = "duplicate"\ntopic = "cmnd/#"\n', encoding="utf-8")

    with fleet(broker, "--specifications", str(venue), "--faults", str(mishaps)) as running:
        peer.says("cmnd/tasmota_C3D4E5/POWER", "TOGGLE")
        await peer.hears("stat/tasmota_C3D4E5/POWER", lambda message: message.text == "ON")
        await eventually(lambda: len(peer.heard("stat/tasmota_C3D4E5/POWER")) == 3)
        state = running.state("02A1B2C3D4E5")

    assert state["parts"] == {"POWER": {"power": False}}
