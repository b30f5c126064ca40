"""A look at what the broker holds retained, over a connection of its own that leaves nothing behind.

    connect clean ──> SUBSCRIBE ──> UNSUBSCRIBE ──> its answer, then silence ──> done

A subscription of the sessions would do more than look: any subscriber on a command topic hides that no
device listens there (PUBACK 0x10). While a look lasts it hides it too; it lasts a quarter of a second.

The answer to UNSUBSCRIBE comes after what SUBSCRIBE brought, with mosquitto; brokers that deliver and
answer from different threads are given a moment of silence on top.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from paho.mqtt.subscribeoptions import SubscribeOptions

from edgeagent.adapters.mqtt.dial import dial
from edgeagent.adapters.mqtt.filters import parts
from edgeagent.adapters.mqtt.handshake import Identity
from edgeagent.adapters.mqtt.life import Life
from edgeagent.adapters.mqtt.settings import Means, MqttSettings
from edgeagent.adapters.mqtt.words import FAILURE
from edgeagent.contracts.mqtt import Inbound, Session
from edgeagent.ports.links import LinkError, Trouble

log = logging.getLogger(__name__)

_MOST: Final = 4096
_MOST_BYTES: Final = 16 * 1024 * 1024
_SILENCE: Final = timedelta(milliseconds=200)
_WINDOW: Final = 0xFFFF


class Look:
    """One look."""

    def __init__(self, client_id: str, settings: MqttSettings, means: Means) -> None:
        self._settings = settings
        self._means = means
        self._identity = Identity(
            client_id=client_id, session=Session.CONTROL, epoch=0, window=_WINDOW, expiry=timedelta(0)
        )
        self._life = Life(self._identity, settings, means.clock, self._arrived)
        self._found: list[Inbound] = []
        self._bytes = 0
        self._full = False
        self._stir = asyncio.Event()

    async def at(self, filters: Sequence[str]) -> list[Inbound]:
        """The retained messages under ``filters``; what exceeds the bounds is left out and logged.

        Raises:
            LinkError: the broker does not let us look, or did not finish in time.
        """
        dialled = await dial(self._settings, self._means.resolve)
        try:
            await self._life.open(dialled)
            refused = await self._subscribe(filters)
            if len(refused) == len(filters):
                raise LinkError(Trouble.LOGIN, "the broker does not let us look at retained messages")
            if refused:
                log.warning("not allowed to look at all", extra={"filters": refused})
            for part in parts(filters):
                await self._life.unsubscribe(part)
            await self._silence()
        finally:
            self._life.leave(LinkError(Trouble.UNREACHABLE, "looked"))
        return self._found

    async def _subscribe(self, filters: Sequence[str]) -> list[str]:
        """Subscribe to all; those that the broker refused."""
        refused = []
        for part in parts(filters):
            # QoS 1: with QoS 0 a broker may leave messages out when there are many.
            codes = await self._life.subscribe([(name, SubscribeOptions(qos=1)) for name in part])
            refused += [name for name, code in zip(part, codes, strict=True) if code >= FAILURE]
        return refused

    async def _silence(self) -> None:
        try:
            async with asyncio.timeout(self._settings.answer_timeout.total_seconds()):
                while await self._stirred():
                    pass
        except TimeoutError:
            raise LinkError(Trouble.BUSY, "retained messages do not end") from None

    async def _stirred(self) -> bool:
        if self._full:
            log.warning("more retained messages than one look takes", extra={"seen": len(self._found)})
            return False
        self._stir.clear()
        try:
            async with asyncio.timeout(_SILENCE.total_seconds()):
                return await self._stir.wait()
        except TimeoutError:
            return False

    def _arrived(self, messages: list[Inbound]) -> None:
        for message in messages:
            if not message.retain:  # a live one that came meanwhile
                continue
            if len(self._found) >= _MOST or self._bytes + len(message.payload) > _MOST_BYTES:
                self._full = True
                break
            self._bytes += len(message.payload)
            self._found.append(message)
        self._life.acknowledge(messages)
        self._stir.set()
