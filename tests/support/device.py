"""An ordinary MQTT client, as a device or an onlooker would be: plain paho, nothing of ours.

with Device(broker.port) as device:
    device.listens("cmnd/#")
    device.says("tele/1/data", b"{}", retain=True)
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from secrets import token_hex
from types import TracebackType
from typing import Final, Self

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.reasoncodes import ReasonCode

_DEADLINE: Final = 60.0
_REFUSED: Final = 0x80
"""Reason codes from here on are refusals (MQTT 5 section 2.4)."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A message that a device has received.

    Attributes:
        topic: where.
        payload: what.
        qos: 0 or 1.
        retain: whether it was the broker's stored copy.
        expires_in: what is left of its expiry interval in seconds; None for none.
        told: its user properties.
    """

    topic: str
    payload: bytes
    qos: int
    retain: bool
    expires_in: int | None
    told: tuple[tuple[str, str], ...] = ()


class Device:
    """A client with a network thread of its own, connected while it is entered."""

    def __init__(self, port: int, *, client_id: str = "", login: tuple[str, str] | None = None) -> None:
        self._port = port
        self._told = threading.Condition()
        self._heard: list[Heard] = []
        self._granted: set[int] = set()
        self._connected = threading.Event()
        self._client = Client(
            CallbackAPIVersion.VERSION2, client_id or None, protocol=MQTTProtocolVersion.MQTTv5
        )
        if login is not None:
            self._client.username_pw_set(*login)
        self._answered: dict[int, int] = {}
        self._client.on_publish = self._on_publish
        self._client.on_message = self._on_message
        self._client.on_subscribe = self._on_subscribe
        self._client.on_connect = lambda *_: self._connected.set()

    def __enter__(self) -> Self:
        self._client.connect("127.0.0.1", self._port)
        self._client.loop_start()
        assert self._connected.wait(_DEADLINE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    @property
    def is_connected(self) -> bool:
        """Whether the broker has not hung up."""
        return self._client.is_connected()

    def says(self, topic: str, payload: bytes, *, qos: int = 1, retain: bool = False) -> None:
        """Publish, and return once the broker has it."""
        self._client.publish(topic, payload, qos, retain).wait_for_publish(_DEADLINE)

    def may_say(self, topic: str, payload: bytes, *, retain: bool = False) -> bool:
        """Publish, and return whether the broker has taken it or does not let us."""
        sent = self._client.publish(topic, payload, 1, retain)
        with self._told:
            assert self._told.wait_for(lambda: sent.mid in self._answered, _DEADLINE)
            return self._answered[sent.mid] < _REFUSED

    def says_all(self, topic: str, payloads: Sequence[bytes], *, qos: int = 1) -> None:
        """Publish many, and return once the broker has them all."""
        for sent in [self._client.publish(topic, payload, qos) for payload in payloads]:
            sent.wait_for_publish(_DEADLINE)

    def says_each(self, messages: Sequence[tuple[str, bytes]]) -> None:
        """Publish many, each on its own topic, and return once the broker has them all."""
        for sent in [self._client.publish(topic, payload, 1) for topic, payload in messages]:
            sent.wait_for_publish(_DEADLINE)

    def listens(self, topic_filter: str) -> None:
        """Subscribe, and return once that is granted."""
        _, packet_id = self._client.subscribe(topic_filter, 1)
        assert packet_id is not None
        with self._told:
            assert self._told.wait_for(lambda: packet_id in self._granted, _DEADLINE)

    @property
    def heard(self) -> list[Heard]:
        """All that it has heard so far."""
        with self._told:
            return list(self._heard)

    def hears(self, count: int = 1) -> list[Heard]:
        """All that it has heard, once it is at least ``count`` messages."""
        with self._told:
            assert self._told.wait_for(lambda: len(self._heard) >= count, _DEADLINE), self._heard
            return list(self._heard)

    def hears_out(self, topic: str) -> list[Heard]:
        """All that the broker had for it by now: it says something itself on a topic that it listens to."""
        mark = token_hex(8).encode()
        self.says(topic, mark)
        with self._told:
            assert self._told.wait_for(lambda: mark in [each.payload for each in self._heard], _DEADLINE)
            return [each for each in self._heard if each.payload != mark]

    def _on_message(self, _: Client, __: object, message: MQTTMessage) -> None:
        assert message.properties is not None  # MQTT 5
        said = message.properties.json()  # type: ignore[no-untyped-call]  # paho has no annotation
        heard = Heard(
            message.topic,
            bytes(message.payload),
            message.qos,
            message.retain,
            said.get("MessageExpiryInterval"),
            tuple((name, value) for name, value in said.get("UserProperty", ())),
        )
        with self._told:
            self._heard.append(heard)
            self._told.notify_all()

    def _on_publish(self, _: Client, __: object, packet_id: int, code: ReasonCode, ___: object) -> None:
        with self._told:
            self._answered[packet_id] = code.value
            self._told.notify_all()

    def _on_subscribe(
        self, _: Client, __: object, packet_id: int, ___: list[ReasonCode], ____: object
    ) -> None:
        with self._told:
            self._granted.add(packet_id)
            self._told.notify_all()
