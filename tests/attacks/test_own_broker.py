"""T1, T2: behind the rules that are made for it, a television reaches no other device and no command."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.receipt import Outcome
from edgeagent.ids import ReadingName, device_id, hub_id
from edgeagent.setup.broker.applying import apply_plan
from edgeagent.setup.broker.login_desk import add_login
from tests.firmware_sim.process import FleetProcess
from tests.setup.broker.building import planned
from tests.support.agents import AgentProcess
from tests.support.agents_keys import Keys
from tests.support.brokers import HOST, wait_until
from tests.support.device import Device
from tests.support.own_broker import OwnBroker
from tests.support.stores import query

pytestmark = [pytest.mark.slow, pytest.mark.requirement("M4", "W2"), pytest.mark.threat("T1", "T2")]

PLUG: Final = "02A1B2000001"
TOPIC: Final = "tasmota_000001"
TELEVISION: Final = "tv-1"


@dataclass(frozen=True, slots=True)
class Venue:
    """An agent, its own broker, a plug, and the login of a television."""

    agent: AgentProcess
    broker: OwnBroker
    fleet: FleetProcess
    television: tuple[str, str]

    def reading(self, name: str) -> object:
        """What the agent knows of the plug; None for nothing."""
        known = self.agent.device(PLUG).readings.get(ReadingName(name))
        return None if known is None else known.value


@contextmanager
def plugged_in(broker: OwnBroker, folder: Path, password: str) -> Iterator[FleetProcess]:
    """The plug, with its login."""
    file = folder / "venue.json"
    file.write_text(json.dumps({"appliance": [{"model": "tasmota-plug", "mac": PLUG}]}))
    words = ["--specifications", str(file), "--username", PLUG, "--password", password, "--period", "200ms"]
    fleet = FleetProcess(["--broker", f"{HOST}:{broker.port}", *words])
    fleet.until_ready()
    try:
        yield fleet
    finally:
        with fleet.process:
            fleet.process.kill()


@pytest.fixture
def venue(tmp_path: Path) -> Iterator[Venue]:
    keys, folder = Keys(), tmp_path / "hub"
    folder.mkdir()
    (folder / "policy.json").write_bytes(keys.policy(hub_id("venue-7")))
    policy = f'[policy]\nfile = "policy.json"\nsigner = "{keys.root.public.hex()}"\n'
    with ExitStack() as stack:
        broker = stack.enter_context(OwnBroker(tmp_path / "etc", folder / "state"))
        agent = AgentProcess(folder, f"{broker.sections}\n{policy}")
        stack.callback(agent.close)
        apply_plan(planned(agent.config), broker, restart=True)
        plug = add_login(agent.config, broker, device_id(PLUG), "tasmota", {"topic": TOPIC})
        television = add_login(agent.config, broker, device_id(TELEVISION), "url-update", {"topic": "tv/1"})
        agent.start()
        agent.wait_for_broker()
        fleet = stack.enter_context(plugged_in(broker, tmp_path, plug.password or ""))
        agent.admit(PLUG)
        apply_plan(planned(agent.config), broker, restart=False)
        wait_until(lambda: bool(agent.device(PLUG).online), "the plug to be online")
        yield Venue(agent, broker, fleet, (TELEVISION, television.password or ""))


def test_it_speaks_for_nobody_else_and_commands_nobody(venue: Venue) -> None:
    """What it may not say reaches nobody; what the agent says to the plug still does."""
    wait_until(lambda: venue.reading("voltage") is not None, "the plug's own readings")
    forged = b'{"ENERGY":{"Voltage":998.7654},"POWER":"ON","StatusFWR":{"Version":"6.6.6"}}'

    with Device(venue.broker.port, login=venue.television) as television:
        television.listens("#")
        for topic in (
            f"tele/{TOPIC}/SENSOR",
            f"stat/{TOPIC}/STATUS2",
            f"stat/{TOPIC}/RESULT",
            f"tele/{TOPIC}/LWT",
        ):
            assert not television.may_say(topic, forged), topic
            assert not television.may_say(topic, forged, retain=True), topic
        for topic in (f"cmnd/{TOPIC}/POWER", "cmnd/tasmotas/POWER", f"cmnd/{TOPIC}/Backlog"):
            assert not television.may_say(topic, b"ON"), topic
            assert not television.may_say(topic, b"ON", retain=True), topic
        assert not television.may_say(f"tasmota/discovery/{PLUG}/config", b"")
        assert television.may_say("tv/1/lwt", b"online")
        sent = venue.agent.send(PLUG, ActionName.TOGGLE)
        assert television.heard == []

    assert sent.command is not None
    assert sent.command.state == Outcome.SUCCEEDED
    assert venue.reading("power") is True
    assert venue.reading("firmware") != "6.6.6"
    assert venue.reading("voltage") != 998.7654
    assert venue.agent.device(PLUG).online
    events = query(venue.agent.database, "SELECT data FROM outbox")
    assert not any("998.7654" in str(data) or "6.6.6" in str(data) for (data,) in events)
