"""The same words, typed at a real agent with a real broker."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from edgeagent.contracts.door import decode
from edgeagent.contracts.reports.devices import DeviceReport
from edgeagent.contracts.reports.health import HealthReport, Level
from tests.support.agents import AgentProcess
from tests.support.brokers import Mosquitto, wait_until
from tests.support.device import Device

PLUG = "AABBCCDDEEFF"
CONFIG = {
    "ver": 1,
    "mac": PLUG,
    "t": "plug-a",
    "ft": "%prefix%/%topic%/",
    "tp": ["cmnd", "stat", "tele"],
    "dn": "Plug A",
    "md": "Plug",
    "sw": "14.1.0",
    "hn": "plug-a",
    "rl": [1],
    "lt_st": 0,
    "so": {"4": 0},
    "state": ["OFF", "ON"],
    "onln": "Online",
    "ofln": "Offline",
}


@pytest.mark.slow
@pytest.mark.requirement("M1", "M4", "O5", "G3")
def test_a_plug_shows_itself_is_taken_in_reports_and_is_looked_at(tmp_path: Path) -> None:
    with (
        Mosquitto(tmp_path / "broker") as broker,
        Device(broker.port, client_id="plug-a") as plug,
        closing(AgentProcess(tmp_path / "hub", f"[broker]\nport = {broker.port}\n")) as agent,
    ):
        agent.start()
        agent.wait_for_broker()
        plug.says(f"tasmota/discovery/{PLUG}/config", json.dumps(CONFIG).encode(), retain=True)
        wait_until(lambda: PLUG in agent.run("devices", "list").stdout, "the plug in the list")

        admitted = agent.run("devices", "admit", PLUG)
        plug.says("tele/plug-a/LWT", b"Online", retain=True)
        plug.says("tele/plug-a/SENSOR", b'{"ENERGY": {"Power": 5}}')
        plug.says("stat/plug-a/POWER", b"ON")
        wait_until(lambda: "power" in agent.run("devices", "show", PLUG).stdout, "the plug's state")
        shown = decode(
            DeviceReport, agent.run("--json", "devices", "show", PLUG).stdout.encode(), limit=100_000
        )
        health = agent.run("--json", "health")
        waiting = agent.run("outbox", "stats")
        worked = agent.run("locks", "list")
        agent.kill()
        down = agent.run("health")

        assert admitted.returncode == 0
        assert admitted.stdout.startswith(f"{PLUG}  Plug A  (tasmota, ")
        assert (shown.readings["power"].value, shown.readings["power"].live) == (True, True)
        assert (shown.online, shown.readings["active_power"].value) == (True, 5)
        report = decode(HealthReport, health.stdout.encode(), limit=100_000)
        assert health.returncode == report.level.exit_status
        assert {check.name for check in report.checks if check.level is not Level.OK} <= {"clock", "disk"}
        assert waiting.returncode == 0
        assert (worked.returncode, worked.stdout) == (0, "no device is worked\n")
        assert down.returncode == 2
        assert down.stdout.startswith("EDGEAGENT CRITICAL - agent: does not answer")
