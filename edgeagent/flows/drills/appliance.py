"""The virtual appliance: does what it is told and shows it, or fails as a drill wants it to.

It exists in memory only, and its profile is that of no real one.
"""

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from edgeagent.contracts.mqtt import Outgoing
from edgeagent.contracts.profile import DeviceProfile
from edgeagent.core.profile.load import load
from edgeagent.flows.drills.timepiece import Timepiece
from edgeagent.ids import DeviceId

APPLIANCE: Final = DeviceId("drill-appliance")
"""The only device of a drill; also the first part of its topics."""

Effect = tuple[str, JsonValue]
"""What was done, and to which value."""

_SOON: Final = timedelta(milliseconds=5)
# Longer than its profile gives any step: whoever waits for it finds at once that it stays silent.
_SILENCE: Final = timedelta(seconds=5)


def profile() -> DeviceProfile:
    """How it is spoken to."""
    return load(Path(__file__).with_name("appliance.toml").read_bytes())


class Appliance:
    """The appliance.

    Attributes:
        shows: its state.
        effects: what it was made to do, oldest first; what changes nothing counts too.
    """

    def __init__(self, time: Timepiece) -> None:
        self._time = time
        self._say: Callable[[str, bytes], None] = lambda _topic, _payload: None
        self._deaf = False
        self._refuses = ""
        self._holds_back = False
        self._acted = asyncio.Event()
        self.shows: dict[str, JsonValue] = {"power": False, "volume": 10, "input": "HDMI 1"}
        self.effects: list[Effect] = []

    def connects(self, say: Callable[[str, bytes], None]) -> None:
        """Speak by ``say``: tell that it is there, and its state."""
        self._say = say
        self._says("lwt", b"online")
        self._reports("state")

    def is_deaf(self) -> None:
        """From now on it does nothing of what it is told; it answers questions."""
        self._deaf = True

    def refuses(self, words: str) -> None:
        """From now on it says no."""
        self._refuses = words

    def holds_back(self) -> None:
        """From now on it does as it is told, and does not show it; its answers come when it speaks."""
        self._holds_back = True
        self._acted.clear()

    def is_well(self) -> None:
        """From now on it does as it is told, and shows it."""
        self._deaf, self._refuses, self._holds_back = False, "", False

    def speaks(self) -> None:
        """It shows its state, and is well."""
        self.is_well()
        self._time.passes(_SOON)
        self._reports("state")

    async def acts(self) -> None:
        """Wait until it has done something, since it began to hold back."""
        await self._acted.wait()

    def hears(self, message: Outgoing) -> None:
        """Take a message that was sent to it."""
        name = message.topic.rpartition("/")[2]
        if name == "get":
            self._time.passes(_SOON)
            self._reports("answer")
        elif self._refuses:
            self._time.passes(_SOON)
            self._says("said", json.dumps({"error": self._refuses}).encode())
        elif self._deaf:
            self._time.passes(_SILENCE)
        else:
            self._obeys(name, json.loads(message.payload)["value"])

    def _obeys(self, name: str, value: JsonValue) -> None:
        self.act(name, value)
        self._acted.set()
        if not self._holds_back:
            self._time.passes(_SOON)
            self._reports("state")

    def act(self, name: str, value: JsonValue) -> None:
        """Do what it is told."""
        self.effects.append((name, value))
        if name == "toggle":
            self.shows["power"] = not self.shows["power"]
        else:
            self.shows[name] = value

    def _reports(self, topic: str) -> None:
        self._says(topic, json.dumps(self.shows).encode())

    def _says(self, topic: str, payload: bytes) -> None:
        self._say(f"{APPLIANCE}/{topic}", payload)
