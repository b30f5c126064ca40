"""One connection to the broker, from CONNECT to its end.

    open ──CONNACK──> subscribe, publish, acknowledge, pause ──> ended

A life is never used again: what it has not finished ends with it, so nothing of it is sent late. It
hands on what comes and sends what it is told to. Who waits how long before the next one, and what is
subscribed, is its owner's business. Everything happens on the loop; a callback only notes.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from edgeagent.adapters.mqtt.acks import Unacknowledged
from edgeagent.adapters.mqtt.answers import Answers
from edgeagent.adapters.mqtt.drive import Drive
from edgeagent.adapters.mqtt.framing import Packet, publish_of
from edgeagent.adapters.mqtt.handshake import Identity, Welcome, connect_properties, farewell, greeting
from edgeagent.adapters.mqtt.settings import MqttSettings
from edgeagent.adapters.mqtt.wire import Wire
from edgeagent.clock import Clock
from edgeagent.contracts.mqtt import Inbound, Outgoing
from edgeagent.errors import RejectedError
from edgeagent.ports.links import LinkError, Trouble

_MICROSECOND: Final = timedelta(microseconds=1)
_MOMENT: Final = timedelta(seconds=1)
# Fixed header, lengths of topic and properties, packet id, and the expiry property, at their longest.
_PUBLISH_OVERHEAD: Final = 1 + 4 + 2 + 2 + 1 + 5


class Life:
    """One connection.

    Attributes:
        identity: who it is.
        ended: done when it is over, with the reason.
    """

    def __init__(
        self,
        identity: Identity,
        settings: MqttSettings,
        clock: Clock,
        arrived: Callable[[list[Inbound]], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        self.identity = identity
        self.ended: asyncio.Future[LinkError] = loop.create_future()
        self._settings = settings
        self._clock = clock
        self._arrived = arrived
        self._wire = Wire(identity.client_id, settings.largest_packet, self._take, self._puback)
        self._drive: Drive | None = None
        self._greeting: asyncio.Future[Welcome] = loop.create_future()
        self._welcome: Welcome | None = None
        self._answers = Answers(settings.answer_timeout, self.close)
        self._publishing: set[int] = set()
        self._unacknowledged = Unacknowledged()

    @property
    def is_greeted(self) -> bool:
        """Whether the broker has taken us."""
        return self._welcome is not None

    @property
    def keepalive(self) -> timedelta:
        """After how much silence the connection counts as dead; the broker may have shortened ours."""
        return timedelta(seconds=self._wire.keepalive) or self._settings.keepalive

    async def open(self, dialled: socket.socket) -> Welcome:
        """Say CONNECT over a connected socket, which is ours from here on, and wait for the answer.

        Raises:
            LinkError: the broker did not take us.
        """
        wire, settings = self._wire, self._settings
        wire.on_connect = self._on_connect
        wire.on_disconnect = self._on_disconnect
        wire.on_subscribe = self._on_answer
        wire.on_unsubscribe = self._on_answer
        if settings.username is not None:
            secret = None if settings.password is None else settings.password.get_secret_value()
            # Annotated as str; MQTT 5 section 3.1.3.6 and paho's code take bytes.
            wire.username_pw_set(settings.username, secret)  # type: ignore[arg-type]
        wire.hand_socket(dialled)
        self._drive = Drive(wire, dialled, self.close)
        wire.connect(
            settings.host,
            settings.port,
            int(settings.keepalive.total_seconds()),
            clean_start=self.identity.clean_start,
            properties=connect_properties(self.identity, largest=settings.largest_packet),
        )
        self._drive.start_keepalive()
        return await self._answers.in_time(self._greeting, "CONNECT")

    async def over(self) -> LinkError:
        """Wait for its end."""
        # Not awaited as such: a cancelled waiter would cancel the future for everybody.
        await asyncio.wait([self.ended])
        return self.ended.result()

    async def subscribe(self, filters: Sequence[tuple[str, SubscribeOptions]]) -> list[int]:
        """Send one SUBSCRIBE.

        Returns:
            The broker's reason code for each filter.

        Raises:
            LinkError: the connection is over, or the answer is not one.
        """
        sent = self._answers.expect(self._wire.subscribe(list(filters))[1])
        codes = await self._answers.in_time(sent, "SUBSCRIBE")
        if len(codes) != len(filters):
            why = LinkError(Trouble.BROKEN_ANSWER, "the broker sent a SUBACK that does not fit its SUBSCRIBE")
            self.close(why)
            raise why
        return codes

    async def unsubscribe(self, filters: Sequence[str]) -> None:
        """Send one UNSUBSCRIBE and give the broker a moment to answer; what it answers does not matter.

        Some brokers (iotcore) say nothing to a filter that they do not know.

        Raises:
            LinkError: the connection is over.
        """
        answer = self._answers.expect(self._wire.unsubscribe(list(filters))[1])
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_MOMENT.total_seconds()):
                await answer

    def publish(self, message: Outgoing) -> Awaitable[list[int]]:
        """Send a message here and now.

        Returns:
            To be awaited for the reason code of its PUBACK; raises LinkError if there was none.

        Raises:
            RejectedError: larger than the broker takes; nothing was sent.
            LinkError: the connection is over, or too much is on its way; nothing was sent.
        """
        welcome = self._welcome
        if welcome is None or self.ended.done():
            raise LinkError(Trouble.UNREACHABLE, "no connection to the broker")
        if len(self._publishing) >= min(self._settings.publish_window, welcome.window):
            raise LinkError(Trouble.BUSY, "too many messages wait for the broker's answer")
        self._check_size(message, welcome)
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho has no annotation
        properties.MessageExpiryInterval = message.expires_in
        if message.traceparent is not None:
            properties.UserProperty = ("traceparent", message.traceparent)
        sent = self._wire.publish(message.topic, message.payload, 1, retain=False, properties=properties)
        self._publishing.add(sent.mid)
        answer = self._answers.expect(sent.mid)
        self._flush()
        return self._answers.in_time(answer, "PUBLISH")

    def acknowledge(self, messages: Sequence[Inbound]) -> None:
        """Send the PUBACKs that may leave now; messages of another life are passed over."""
        ready = self._unacknowledged.settle(messages)
        if ready and not self.ended.done():
            self._wire.send_pubacks(ready)
            self._flush()

    def pause(self) -> None:
        """Read no more until ``resume``, for at most half of ``keepalive``."""
        if self._drive is not None:
            self._drive.pause()

    def resume(self) -> None:
        """Read on."""
        if self._drive is not None:
            self._drive.resume()

    def leave(self, why: LinkError) -> None:
        """Say DISCONNECT, as far as that is possible at once, and end it."""
        if not self.ended.done() and not self._publishing:
            self._wire.on_disconnect = None
            self._wire.disconnect()
            self._flush()
        self.close(why)

    def close(self, why: LinkError) -> None:
        """End it, and everything that waits for an answer on it. The broker keeps the session."""
        if self.ended.done():
            return
        self.ended.set_result(why)
        if self._drive is not None:
            # A command that has not left the hub yet must not arrive after its sender gave it up.
            self._drive.stop(abort=bool(self._publishing))
        if not self._greeting.done():
            self._greeting.set_exception(why)
        self._answers.end(why)

    def _check_size(self, message: Outgoing, welcome: Welcome) -> None:
        size = len(message.payload)
        if size > self._settings.largest_publish:
            raise RejectedError(f"{size} bytes, where the broker takes {self._settings.largest_publish}")
        packet = size + len(message.topic.encode()) + _PUBLISH_OVERHEAD
        if welcome.largest is not None and packet > welcome.largest:
            raise RejectedError(f"a packet of {packet} bytes, where the broker takes {welcome.largest}")

    def _flush(self) -> None:
        if self._drive is not None:
            self._drive.flush()

    def _take(self, packets: Sequence[Packet]) -> None:
        """Hand on the messages of one read, up to one that cannot be read.

        Raises:
            LinkError: there was one.
        """
        if self.ended.done():
            return
        if self._welcome is None:
            raise LinkError(Trouble.BROKEN_ANSWER, "the broker sent a message before CONNACK")
        heard = self._clock.boot() // _MICROSECOND * 1000
        session, epoch = self.identity.session, self.identity.epoch
        messages: list[Inbound] = []
        try:
            for packet, start in packets:
                topic, payload, packet_id = publish_of(packet, start)
                flags = packet[0]  # MQTT 5 section 3.3.1
                qos, retain, dup = flags >> 1 & 3, bool(flags & 1), bool(flags & 8)
                messages.append(Inbound(session, epoch, topic, payload, qos, retain, dup, packet_id, heard))
        finally:
            self._unacknowledged.came(messages)
            self._arrived(messages)

    def _puback(self, packet_id: int, code: int) -> None:
        self._publishing.discard(packet_id)
        self._answers.came(packet_id, [code])

    def _on_connect(
        self, _: Client, __: object, flags: ConnectFlags, reason: ReasonCode, properties: Properties | None
    ) -> None:
        try:
            self._welcome = greeting(flags, reason, properties, client_id=self.identity.client_id)
        except LinkError as why:
            self.close(why)
        else:
            if not self._greeting.done():  # some brokers are not sure and say it twice
                self._greeting.set_result(self._welcome)

    def _on_disconnect(
        self, _: Client, __: object, flags: DisconnectFlags, reason: ReasonCode, properties: Properties | None
    ) -> None:
        told = farewell(flags, reason, properties, client_id=self.identity.client_id)
        self.close(self._wire.last_words or told)

    def _on_answer(
        self, _: Client, __: object, packet_id: int, codes: list[ReasonCode], ___: Properties | None
    ) -> None:
        self._answers.came(packet_id, [code.value for code in codes])
