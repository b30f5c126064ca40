"""The metrics: nothing of whom they count, and no more of them however many ids come by (SPEC O1, T51)."""

import http.client
import json
import re
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from edgeagent.flows.proposals import MOST_PROPOSALS
from tests.cli.building import typed
from tests.support.agents import AgentProcess
from tests.support.brokers import Mosquitto, free_port, wait_until
from tests.support.device import Device

pytestmark = [pytest.mark.slow, pytest.mark.requirement("O1", "R7"), pytest.mark.threat("T51")]

MANY: Final = 10_000
LABEL: Final = "Annas Schlafzimmer"
_SERIES: Final = re.compile(r"^([a-z_]+)(\{[^}]*\})? \S+$", re.MULTILINE)


def scraped(port: int, *, host: str = "127.0.0.1") -> tuple[int, str]:
    """What a scraper on this machine is answered."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with closing(connection):
        connection.request("GET", "/metrics", headers={"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def taken(port: int) -> float:
    """How many messages the agent has taken in."""
    found = re.findall(r"^edgeagent_messages_total\{[^}]*\} (\S+)$", scraped(port)[1], re.MULTILINE)
    return sum(map(float, found))


def announcement(number: int) -> tuple[str, bytes]:
    """Where and how a plug of this number shows itself, as Tasmota does."""
    mac = f"0200{number:08X}"
    config = {
        "ver": 1, "mac": mac, "t": mac.lower(), "ft": "%prefix%/%topic%/", "tp": ["cmnd", "stat", "tele"],
        "dn": LABEL, "md": "Plug", "sw": "14.1.0", "hn": "plug", "rl": [1], "lt_st": 0,
        "so": {"4": 0}, "state": ["OFF", "ON"], "onln": "Online", "ofln": "Offline",
    }  # fmt: skip
    return f"tasmota/discovery/{mac}/config", json.dumps(config).encode()


def test_ten_thousand_ids_add_no_series_and_no_name_is_in_any(tmp_path: Path) -> None:
    port, folder = free_port(), tmp_path / "hub"
    with (
        Mosquitto(tmp_path / "broker", options=["max_queued_messages 0"]) as broker,
        Device(broker.port) as device,
        closing(AgentProcess(folder, f'[broker]\nhost = "{broker.host}"\nport = {broker.port}\n')) as agent,
    ):
        text = agent.config.read_text("utf-8")
        agent.config.write_text(text.replace('"127.0.0.1:0"', f'"127.0.0.1:{port}"'), "utf-8")
        agent.start()
        agent.wait_for_broker()
        device.says(*announcement(MANY + 1))
        known = agent.admit(f"0200{MANY + 1:08X}")
        before = Counter(name for name, _ in _SERIES.findall(scraped(port)[1]))

        device.says_each([announcement(number) for number in range(MANY)])
        for number in range(20):
            typed("--config", str(agent.config), "send", f"0200{number:08X}", "power", "on=true")
        wait_until(lambda: taken(port) > MANY, "the plugs")
        assert len(agent.devices().proposals) == MOST_PROPOSALS

        _, answer = scraped(port)
        status, refused = scraped(port, host="evil.example")

    after = Counter(name for name, _ in _SERIES.findall(answer))
    # A reason that has never been met before has a series from then on: of those there is a fixed list.
    assert {name for name in after if after[name] > before[name]} <= {"edgeagent_commands_refused_total"}
    assert sum(after.values()) < 600
    for secret in (LABEL, known.device, known.device.lower(), "0200000000", "plug", "venue-7"):
        assert secret.lower() not in answer.lower()
    assert (status, "edgeagent_" in refused) == (403, False)
