"""An infected television: a client of the broker that hears all that it may and publishes what it likes."""

import threading
from types import TracebackType
from typing import Final, Self

from paho.mqtt.client import Client, ConnectFlags, MQTTMessage, MQTTMessageInfo, MQTTv311
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from tests.support.brokers import Mosquitto, wait_until

NAME: Final = "tv1"
PASSWORD: Final = "tv1"  # noqa: S105 - of a broker that lives as long as its test
_DEADLINE: Final = 60.0


class Television:
    """See the module's docstring. It is there while it is entered.

    Args:
        broker: the hub's.
        named: whether it comes by its own name, or as anybody.

    Attributes:
        heard: topics and payloads, in the order in which they came.
    """

    def __init__(self, broker: Mosquitto, *, named: bool = False) -> None:
        self.heard: list[tuple[str, bytes]] = []
        self._listening = threading.Event()
        self._client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTv311)
        if named:
            self._client.username_pw_set(NAME, PASSWORD)
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message
        self._client.connect(broker.host, broker.port)

    def __enter__(self) -> Self:
        self._client.loop_start()
        assert self._listening.wait(_DEADLINE), "the broker does not answer"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def says(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Publish something, and wait until the broker has answered, whatever it answers."""
        told: MQTTMessageInfo = self._client.publish(topic, payload, qos=1, retain=retain)
        told.wait_for_publish(_DEADLINE)

    def hears(self, topic: str) -> bytes:
        """Wait for a message on a topic: its payload."""
        wait_until(lambda: topic in dict(self.heard), f"a message on {topic}")
        return dict(self.heard)[topic]

    def _on_connect(
        self,
        client: Client,
        _data: object,
        _flags: ConnectFlags,
        _code: ReasonCode,
        _properties: Properties | None,
    ) -> None:
        client.subscribe("#", qos=1)

    def _on_subscribe(
        self,
        _client: Client,
        _data: object,
        _id: int,
        _codes: list[ReasonCode],
        _properties: Properties | None,
    ) -> None:
        self._listening.set()

    def _on_message(self, _client: Client, _data: object, message: MQTTMessage) -> None:
        self.heard.append((message.topic, bytes(message.payload)))
