"""T1: what is on the local network never becomes a command, whatever it says and wherever it is published."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.receipt import Outcome
from edgeagent.ids import ReadingName
from tests.attacks.television import NAME, PASSWORD, Television
from tests.support.agents_cloud import FIRST
from tests.support.agents_venue import PLUG, Venue
from tests.support.brokers import wait_until
from tests.support.stores import query

pytestmark = [pytest.mark.slow, pytest.mark.requirement("T1", "M6"), pytest.mark.threat("T1")]

TOPIC: Final = "tasmota_000001"
"""The plug's."""

COMMAND_LIKE: Final = (
    "cmd/venue-7",
    "cmd/venue-7/02A1B2000001",
    "commands",
    "edgeagent/venue-7/commands",
    "edgeagent/venue-7/cmd/02A1B2000001/power",
    "v1/hubs/venue-7/commands",
    "hubs/venue-7/commands/lease",
    "venue-7/policy",
    "venue-7/rpc",
    f"stat/{TOPIC}/COMMAND",
    f"tele/{TOPIC}/COMMAND",
    f"tele/{TOPIC}/SENSOR",
    f"stat/{TOPIC}/RESULT",
    f"stat/{TOPIC}/STATUS11",
    "tasmota/discovery/02A1B2000001/config",
    "homeassistant/switch/02A1B2000001/set",
)
"""What looks like a way to a hub, and what really is one to its ears."""


def reading(venue: Venue, name: str) -> object:
    """What the agent knows of the plug; None for nothing."""
    known = venue.agent.device(PLUG).readings.get(ReadingName(name))
    return None if known is None else known.value


def test_a_signed_command_that_a_television_publishes_is_no_command(venue: Venue) -> None:
    """It is genuine, and has never been in the queue: recorded, or made by whoever stole a key."""
    toggle = venue.sign(PLUG, ActionName.TOGGLE)
    lease = json.dumps(
        {"commands": [{"handle": "1", "envelope": toggle.envelope.decode(), "hold_seconds": 9}]}
    )

    with Television(venue.broker) as television:
        television.hears(f"tele/{TOPIC}/LWT")
        heard = {topic for topic, _ in television.heard if not topic.startswith("$")}
        for topic in (*COMMAND_LIKE, *sorted(heard)):
            for payload in (toggle.envelope, lease.encode(), b'{"action":"toggle","device":"02A1B2000001"}'):
                television.says(topic, payload)
        _is_past_the_agent(television, venue)
        # Whatever it hears, it may ask the plug how it is.
        commands = {topic for topic, _ in television.heard if topic.startswith("cmnd/")} - heard
        sent_by_the_agent = {topic for topic in commands if not topic.endswith(("/Status", "/State"))}

    assert sent_by_the_agent == set()
    assert query(venue.agent.database, "SELECT command FROM inbox") == []
    assert venue.cloud.receipts() == []
    assert venue.effects(PLUG, ActionName.TOGGLE) == 0
    assert reading(venue, "power") is False
    # By the way that commands come it is done, and once.
    venue.cloud.send(toggle.envelope)
    assert venue.end_of(toggle).outcome is Outcome.SUCCEEDED
    assert venue.effects(PLUG, ActionName.TOGGLE) == 1


def _is_past_the_agent(television: Television, venue: Venue) -> None:
    """Wait until the agent has taken what was published before on either of its connections."""
    television.says(f"stat/{TOPIC}/STATUS2", b'{"StatusFWR":{"Version":"of the television"}}')
    television.says(f"tele/{TOPIC}/SENSOR", b'{"ENERGY":{"Total":%d}}' % FIRST)
    wait_until(
        lambda: reading(venue, "firmware") == "of the television" and FIRST in venue.cloud.numbers(),
        "the agent to have heard the television",
    )


@pytest.mark.threat("T3")
def test_what_a_television_leaves_in_the_broker_does_nothing_after_a_restart(venue: Venue) -> None:
    toggle = venue.sign(PLUG, ActionName.TOGGLE)
    with Television(venue.broker) as television:
        for topic in COMMAND_LIKE:
            television.says(topic, toggle.envelope, retain=True)

        for _ in range(3):
            venue.agent.kill()
            venue.agent.start()
            venue.agent.wait_for_broker()
        _is_past_the_agent(television, venue)

    assert query(venue.agent.database, "SELECT command FROM inbox") == []
    assert venue.effects(PLUG, ActionName.TOGGLE) == 0
    done = venue.order(PLUG, ActionName.TOGGLE)
    assert venue.end_of(done).outcome is Outcome.SUCCEEDED


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Venue]:
    """A venue whose broker lets the television have its own topics and no others."""
    names, rules = tmp_path / "names", tmp_path / "rules"
    subprocess.run(["mosquitto_passwd", "-b", "-c", str(names), NAME, PASSWORD], check=True)
    rules.write_text(
        f"topic readwrite #\nuser {NAME}\n"
        f"topic readwrite tele/{NAME}/#\ntopic readwrite stat/{NAME}/#\ntopic read cmnd/{NAME}/#\n"
    )
    for file in (names, rules):
        file.chmod(0o600)
    # Not with an unlimited queue: mosquitto 2.0 then cuts off whoever publishes what it may not.
    options = (f"password_file {names}", f"acl_file {rules}")
    with Venue(tmp_path, broker_options=options) as running:
        running.open()
        yield running


def test_a_television_behind_the_brokers_rules_reaches_no_other_device(guarded: Venue) -> None:
    wait_until(lambda: reading(guarded, "voltage") is not None, "the plug's own readings")

    with Television(guarded.broker, named=True) as television:
        for topic in (f"cmnd/{TOPIC}/POWER", "cmnd/tasmotas/POWER", f"cmnd/{TOPIC}/Backlog"):
            television.says(topic, b"ON")
            television.says(topic, b"TOGGLE", retain=True)
        for topic in COMMAND_LIKE:
            television.says(topic, b'{"ENERGY":{"Voltage":999},"POWER":"ON"}')
        television.says(f"tele/{NAME}/SENSOR", b"{}")
        wait_until(lambda: f"tele/{NAME}/SENSOR" in dict(television.heard), "its own topic")

    done = guarded.order(PLUG, ActionName.TOGGLE)
    assert guarded.end_of(done).outcome is Outcome.SUCCEEDED
    assert guarded.effects(PLUG, ActionName.POWER) == 0
    assert guarded.effects(PLUG, ActionName.TOGGLE) == 1
    assert reading(guarded, "voltage") != 999
    assert {topic for topic, _ in television.heard} == {f"tele/{NAME}/SENSOR"}
