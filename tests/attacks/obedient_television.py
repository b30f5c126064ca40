"""A television as ``tests/flows/television.toml`` has it: it does what it is told, shows it, and counts."""

import json
import threading
from types import TracebackType
from typing import Final, Self

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion
from pydantic import JsonValue

from tests.support.brokers import Mosquitto

FIRST: Final[dict[str, JsonValue]] = {"power": True, "volume": 10, "input": "HDMI 1"}
"""What it shows when it comes."""
_DEADLINE: Final = 60.0


class ObedientTelevision:
    """See the module's docstring. It is there while it is entered.

    Args:
        broker: the hub's.
        topic: its own.

    Attributes:
        shows: its state.
        effects: what it was made to do, oldest first; what changes nothing counts too.
    """

    def __init__(self, broker: Mosquitto, topic: str) -> None:
        self.shows = dict(FIRST)
        self.effects: list[tuple[str, JsonValue]] = []
        self._topic = topic
        self._listening = threading.Event()
        self._client = Client(CallbackAPIVersion.VERSION2)
        self._client.on_message = self._on_message
        self._client.on_subscribe = lambda *_: self._listening.set()
        self._client.will_set(f"{topic}/lwt", b"offline", qos=1)
        self._client.connect(broker.host, broker.port)

    def __enter__(self) -> Self:
        self._client.loop_start()
        self._client.subscribe([(f"{self._topic}/set/+", 1), (f"{self._topic}/get", 1)])
        assert self._listening.wait(_DEADLINE), "the broker does not answer"
        self.says("lwt", b"online")
        self.says("state", json.dumps(self.shows).encode())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def is_as_at_first(self) -> None:
        """Somebody sets it back by hand, and it shows that; what it did is forgotten."""
        self.shows = dict(FIRST)
        self.effects.clear()
        self.says("state", json.dumps(self.shows).encode())

    def says(self, what: str, payload: bytes) -> None:
        """Publish something on a topic of its own, and wait until the broker has it."""
        self._client.publish(f"{self._topic}/{what}", payload, qos=1).wait_for_publish(_DEADLINE)

    def _on_message(self, client: Client, _data: object, message: MQTTMessage) -> None:
        name = message.topic.rpartition("/")[2]
        answer = "answer"
        if name != "get":
            value: JsonValue = json.loads(message.payload)["value"]
            self.effects.append((name, value))
            self.shows |= {"power": not self.shows["power"]} if name == "toggle" else {name: value}
            answer = "state"
        client.publish(f"{self._topic}/{answer}", json.dumps(self.shows).encode(), qos=1)
