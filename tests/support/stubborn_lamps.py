"""Lamps that say they are off, and answer every command with the same words; they count what they hear.

with StubbornLamps(broker, 20) as lamps:
lamps.are_admitted(agent)
...
assert lamps.heard == 3
"""

import threading
from types import TracebackType
from typing import Final, Self

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

from edgeagent.ids import DeviceId
from tests.support.agents import AgentProcess
from tests.support.brokers import Mosquitto, wait_until

REFUSES: Final = b'{"Command":"Error"}'
"""What a Tasmota says to what it does not do."""
OBEYS: Final = b'{"POWER":"%s"}'
"""What one says that does as it is told; ``%s`` stands for what that was."""
OTHER: Final = b'{"POWER":"OFF"}'
"""What one says that does something else."""
_OFF: Final = b'{"POWER":"OFF","UptimeSec":1}'
_DEADLINE: Final = 60.0


class StubbornLamps:
    """See the module's docstring. They are there while they are entered.

    Args:
        broker: the hub's.
        count: how many.

    Attributes:
        devices: their ids.
        answer: what they say to a command; nothing while it is empty. Questions are answered.
    """

    def __init__(self, broker: Mosquitto, count: int, answer: bytes = REFUSES) -> None:
        self.devices = [DeviceId(f"lamp-{number:03d}") for number in range(count)]
        self.answer = answer
        self._heard: list[str] = []
        self._gone: set[str] = set()
        self._listening = threading.Event()
        self._client = Client(CallbackAPIVersion.VERSION2)
        self._client.on_message = self._on_message
        self._client.on_subscribe = lambda *_: self._listening.set()
        self._client.connect(broker.host, broker.port)

    def __enter__(self) -> Self:
        self._client.loop_start()
        self._client.subscribe("cmnd/#", 1)
        assert self._listening.wait(_DEADLINE)
        for device in self.devices:
            self._client.publish(f"tele/{device}/LWT", "Online", qos=1, retain=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    @property
    def heard(self) -> int:
        """How many commands have come to all of them; questions are none."""
        return len(self._heard)

    def leaves(self, device: DeviceId) -> None:
        """Let one of them go: it says nothing any more, and the broker says so."""
        self._gone.add(str(device))
        self._client.publish(f"tele/{device}/LWT", "Offline", qos=1, retain=True)

    def heard_by(self, device: DeviceId) -> int:
        """How many commands have come to one of them."""
        return sum(topic.split("/")[1] == device for topic in self._heard)

    def are_admitted(self, agent: AgentProcess) -> None:
        """Have an agent take them in, and wait until it sees them online."""
        for device in self.devices:
            agent.admit_by_hand(device, "tasmota", topic=str(device))
        ours = set(map(str, self.devices))
        wait_until(
            lambda: ours <= {each.device for each in agent.devices().devices if each.online},
            "the lamps to be online",
        )

    def _on_message(self, client: Client, _: object, message: MQTTMessage) -> None:
        _, lamp, word = message.topic.split("/", 2)
        if lamp not in self.devices:
            return
        is_command = word == "POWER1" and bool(message.payload)
        if is_command:
            self._heard.append(message.topic)
        said = self.answer.replace(b"%s", message.payload) if is_command else _OFF
        if said and lamp not in self._gone:
            client.publish(f"stat/{lamp}/RESULT", said, qos=1)
