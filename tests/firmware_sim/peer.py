"""The outsider: a plain MQTT 5 client that hears what appliances say, with the flags they said it with."""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from paho.mqtt.client import Client, ConnectFlags, MQTTMessage, MQTTv5, topic_matches_sub
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from firmware_sim.fields import Json
from tests.support.waiting import eventually

_WITHIN: Final = 60.0


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it was published: the quality of service and retain flag are the publisher's."""

    topic: str
    payload: bytes
    qos: int
    retain: bool

    @property
    def text(self) -> str:
        """The payload as text."""
        return self.payload.decode()

    @property
    def json(self) -> dict[str, Json]:
        """The payload as a JSON object."""
        value = json.loads(self.payload)
        assert isinstance(value, dict)
        return value


class Peer:
    """See the module's docstring.

    Args:
        host: of the broker.
        port: of the broker.
        filters: what it listens to.
    """

    def __init__(self, host: str, port: int, filters: tuple[str, ...] = ("#",)) -> None:
        self.messages: list[Message] = []
        self._filters = filters
        self._listening = threading.Event()
        self._client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTv5)
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message
        self._client.connect(host, port)
        self._client.loop_start()

    def __enter__(self) -> Self:
        assert self._listening.wait(_WITHIN), "the broker did not answer"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def says(
        self,
        topic: str,
        payload: str | bytes,
        *,
        qos: int = 1,
        retain: bool = False,
        expiry: int | None = None,
    ) -> None:
        """Publish, and wait until the broker has it."""
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho's
        if expiry is not None:
            properties.MessageExpiryInterval = expiry
        self._client.publish(topic, payload, qos, retain, properties).wait_for_publish(_WITHIN)

    def asks(self, prefix: str, method: str, number: int = 1, **params: Json) -> None:
        """Send an RPC request; the answer comes on ``peer/rpc``."""
        frame = {"id": number, "src": "peer", "method": method, "params": params}
        self.says(f"{prefix}/rpc", json.dumps(frame))

    def heard(self, topic: str) -> list[Message]:
        """What has come so far on a topic or filter."""
        return [message for message in list(self.messages) if topic_matches_sub(topic, message.topic)]

    async def hears(self, topic: str, fits: Callable[[Message], object] = bool, *, after: int = 0) -> Message:
        """Wait for a message.

        Args:
            topic: or filter.
            fits: what it must be like.
            after: how many of the matching ones to pass over.
        """

        def found() -> list[Message]:
            return [message for message in self.heard(topic) if fits(message)][after:]

        await eventually(found, within=_WITHIN)
        return found()[0]

    async def answered(self, number: int = 1) -> Mapping[str, Json]:
        """Wait for the answer to an RPC request."""
        answer = await self.hears("peer/rpc", lambda message: message.json["id"] == number)
        return answer.json

    def forgets(self) -> None:
        """Begin a new page."""
        self.messages.clear()

    def _on_connect(
        self,
        client: Client,
        _data: object,
        _flags: ConnectFlags,
        _reason: ReasonCode,
        _more: Properties | None,
    ) -> None:
        # QoS 2, so that every message comes with its own; and the retain flag as published.
        options = SubscribeOptions(qos=2, retainAsPublished=True)
        client.subscribe([(one, options) for one in self._filters])

    def _on_subscribe(
        self, _client: Client, _data: object, _mid: int, _reasons: list[ReasonCode], _more: Properties | None
    ) -> None:
        self._listening.set()

    def _on_message(self, _client: Client, _data: object, message: MQTTMessage) -> None:
        self.messages.append(
            Message(message.topic, bytes(message.payload), message.qos, bool(message.retain))
        )


def news(method: str, key: str) -> Callable[[Message], bool]:
    """Whether a message is a notification about a component."""

    def fits(message: Message) -> bool:
        frame = message.json
        params = frame["params"]
        return frame["method"] == method and isinstance(params, dict) and key in params

    return fits


def about(message: Message, key: str) -> dict[str, Json]:
    """What a notification says of a component."""
    params = message.json["params"]
    assert isinstance(params, dict)
    told = params[key]
    assert isinstance(told, dict)
    return told


def settled(peer: Peer) -> Callable[[], bool]:
    """Whether a Tasmota has said all that it says after a boot."""
    return lambda: bool(peer.heard("tasmota/discovery/+/sensors"))
