"""The broker of a venue: mosquitto, or the embedded iotcore where that cannot be had.

mosquitto marks what it delivers again (DUP, MQTT 5 section 4.4); iotcore does not. iotcore also breaks the
connection of a client of MQTT 3.1.1 to which it delivers a message with the properties of MQTT 5
(rumqttd 0.20), as every command has: the appliances then have to speak MQTT 5. Both listen on loopback
alone, let everybody in, and keep nothing when they end.
"""

import asyncio
import os
import shutil
import sys
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from firmware_sim.fields import InputError
from firmware_sim.venue.children import Child, Children
from firmware_sim.venue.errors import VenueError
from firmware_sim.venue.loopback import HOST, free_port, listens

# Where Debian has mosquitto; a plain user's PATH often lacks it.
_PLACES: Final = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
_TRIES: Final = 3
_STARTING: Final = 15.0
_LOOK: Final = 0.05


class Make(StrEnum):
    """Which broker."""

    MOSQUITTO = "mosquitto"
    IOTCORE = "iotcore"


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A running broker.

    Attributes:
        make: which.
        port: where it listens.
        config: its configuration.
    """

    make: Make
    port: int
    config: Path

    @property
    def marks_redeliveries(self) -> bool:
        """Whether a reading that comes a second time can be told from an equal one."""
        return self.make is Make.MOSQUITTO

    @property
    def most_behind(self) -> int | None:
        """How many readings may wait for a hub that comes back; None for as many as you like.

        iotcore answers no SUBSCRIBE while the window of unacknowledged messages is full (rumqttd 0.20), and
        the hub acknowledges nothing before that answer.
        """
        return None if self.make is Make.MOSQUITTO else 40

    @property
    def all_speak_mqtt5(self) -> bool:
        """Whether whoever comes has to speak MQTT 5, which no real appliance of these families does."""
        return self.make is Make.IOTCORE

    def words(self) -> str:
        """It in a few words."""
        place = f"on {HOST}:{self.port}"
        return f"mosquitto {place}" if self.make is Make.MOSQUITTO else f"the embedded iotcore {place}"


def choose(asked: Make | None) -> Make:
    """Which broker to take: the one that is asked for, else mosquitto, else iotcore.

    Raises:
        InputError: it is not there, nor is any.
    """
    there = [make for make in Make if _is_there(make)]
    if asked is not None and asked not in there:
        raise InputError(f"--broker: {asked} is not installed; {_ADVICE[asked]}")
    if not there:
        raise InputError(f"no broker is installed; {_ADVICE[Make.MOSQUITTO]}, or {_ADVICE[Make.IOTCORE]}")
    return asked or there[0]


async def start_broker(make: Make, folder: Path, children: Children) -> Broker:
    """Start a broker, and return once it takes connections.

    Raises:
        VenueError: it does not start.
    """
    tries = 0
    while True:
        tries += 1
        broker, command = _prepared(make, folder)
        child = await children.start("broker", command)
        if await _is_up(broker, child):
            return broker
        # Its port was taken by another between looking and listening; or it has a reason that stays.
        if tries == _TRIES:
            raise child.trouble("does not start")


async def _is_up(broker: Broker, child: Child) -> bool:
    try:
        async with asyncio.timeout(_STARTING):
            while child.alive:
                if await listens(broker.port):
                    # Whoever listens there may be another, on whose account ours has just ended.
                    await asyncio.sleep(_LOOK)
                    return child.alive
                await asyncio.sleep(_LOOK)
    except TimeoutError as why:
        raise child.trouble(f"does not listen within {_STARTING:g} s") from why
    return False


def _prepared(make: Make, folder: Path) -> tuple[Broker, list[str]]:
    """Write a broker's configuration; say where it will listen, and what to start."""
    folder.mkdir(exist_ok=True)
    port = free_port()
    match make:
        case Make.MOSQUITTO:
            config = folder / "mosquitto.conf"
            config.write_text(_mosquitto(port), "utf-8")
            program = shutil.which("mosquitto", path=_PLACES)
            if program is None:
                raise VenueError("mosquitto has gone")
            return Broker(make=make, port=port, config=config), [program, "-c", str(config)]
        case Make.IOTCORE:
            config = folder / "iotcore.toml"
            config.write_text(_IOTCORE.format(host=HOST, port=port), "utf-8")
            command = [sys.executable, "-m", "iotcore", "--config", str(config), "--log-level", "warn"]
            return Broker(make=make, port=port, config=config), command


def _is_there(make: Make) -> bool:
    if make is Make.MOSQUITTO:
        return shutil.which("mosquitto", path=_PLACES) is not None
    return find_spec("iotcore") is not None


_ADVICE: Final = {
    Make.MOSQUITTO: "sudo apt-get install mosquitto",
    Make.IOTCORE: "pip install 'edgeagent[demo]' for the embedded iotcore",
}


def _mosquitto(port: int) -> str:
    lines = [
        # As root it would become a user that may not read this folder.
        *(["user root"] if os.geteuid() == 0 else []),
        f"listener {port} {HOST}",
        "allow_anonymous true",
        "persistence false",
        # As delivered it drops QoS 1 beyond 1,000 without a word.
        "max_queued_messages 100000",
        "set_tcp_nodelay true",
    ]
    return "\n".join(lines) + "\n"


_IOTCORE: Final = """id = 0
[router]
id = 0
max_connections = 100
max_outgoing_packet_count = 200
max_segment_size = 104857600
max_segment_count = 10
[v5.1]
name = "v5"
listen = "{host}:{port}"
next_connection_delay_ms = 1
[v5.1.connections]
connection_timeout_ms = 60000
max_payload_size = 1048576
max_inflight_count = 500
dynamic_filters = true
"""
