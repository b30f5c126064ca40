"""A connection that asks a broker what it does and what it lets us do, and leaves nothing behind.

    open ──> hears, publishes ──> gone

It is the connection of whoever sets a hub up or looks at a broker: clean, with a name of its own, so that it
takes no session over. What it subscribes to is taken back with it.
"""

import asyncio
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

from paho.mqtt.subscribeoptions import SubscribeOptions

from edgeagent.adapters.mqtt.addresses import in_thread, resolve
from edgeagent.adapters.mqtt.dial import dial
from edgeagent.adapters.mqtt.filters import parts
from edgeagent.adapters.mqtt.handshake import Identity, Welcome
from edgeagent.adapters.mqtt.life import Life
from edgeagent.adapters.mqtt.settings import MqttSettings
from edgeagent.clock import Clock
from edgeagent.contracts.mqtt import Inbound, Outgoing, Session
from edgeagent.ports.links import LinkError, Trouble

_MOST: Final = 4096
_WINDOW: Final = 0xFFFF
_CHANCE: Final = 6
# CONNECT and CONNACK of MQTT 3.1.1, sections 3.1 and 3.2: protocol level 4, clean session, keepalive 10 s.
_OLD_CONNECT: Final = b"\x10\x16\x00\x04MQTT\x04\x02\x00\x0a\x00\x0aedgeagent-"
_OLD_CONNACK: Final = b"\x20\x02"


class Probe:
    """One such connection.

    Args:
        settings: of the broker, and as whom we come.
        clock: time.

    Attributes:
        came: what has come so far, retained messages and live ones; at most a few thousand.
    """

    def __init__(self, settings: MqttSettings, clock: Clock) -> None:
        self._settings = settings
        name = f"edgeagent-probe-{os.urandom(_CHANCE).hex()}"
        identity = Identity(
            client_id=name, session=Session.CONTROL, epoch=0, window=_WINDOW, expiry=timedelta(0)
        )
        self._life = Life(identity, settings, clock, self._arrived)
        self.came: list[Inbound] = []

    async def open(self) -> Welcome:
        """Connect.

        Raises:
            LinkError: the broker is not there, or does not take us.
        """
        return await self._life.open(await dial(self._settings, resolve))

    async def hear(self, filters: Sequence[str]) -> dict[str, int]:
        """Subscribe, with QoS 1.

        Returns:
            The broker's reason code for each.

        Raises:
            LinkError: the connection is over.
        """
        codes: dict[str, int] = {}
        for part in parts(filters):
            answered = await self._life.subscribe([(name, SubscribeOptions(qos=1)) for name in part])
            codes |= dict(zip(part, answered, strict=True))
        return codes

    async def stays(self, within: timedelta) -> None:
        """Listen for a while.

        Raises:
            LinkError: the connection ended meanwhile.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(within.total_seconds()):
                raise await self._life.over()

    async def publish(self, message: Outgoing) -> int:
        """Publish, not retained.

        Returns:
            The broker's reason code; from 0x80 on it has refused.

        Raises:
            LinkError: the connection is over.
            RejectedError: larger than the broker takes.
        """
        return (await self._life.publish(message))[0]

    def leave(self) -> None:
        """Disconnect."""
        self._life.leave(LinkError(Trouble.UNREACHABLE, "looked"))

    def _arrived(self, messages: list[Inbound]) -> None:
        self.came += messages[: _MOST - len(self.came)]
        self._life.acknowledge(messages)


async def takes(settings: MqttSettings, clock: Clock) -> bool:
    """Whether a broker lets somebody in."""
    probe = Probe(settings, clock)
    try:
        await probe.open()
    except LinkError:
        return False
    finally:
        probe.leave()
    return True


async def speaks_only_311(settings: MqttSettings) -> bool:
    """Whether a broker that does not take MQTT 5 answers to its predecessor."""
    try:
        dialled = await dial(settings, resolve)
        return await in_thread(lambda: _answers_old(dialled, settings.answer_timeout))
    except (LinkError, OSError):
        return False


def _answers_old(dialled: socket.socket, within: timedelta) -> bool:
    with dialled:
        dialled.settimeout(within.total_seconds())
        dialled.sendall(_OLD_CONNECT)
        return dialled.recv(4).startswith(_OLD_CONNACK)
