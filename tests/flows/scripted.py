"""Devices that do as a test says: what they show, what they answer, and what they were made to do."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from pydantic import JsonValue

from edgeagent.contracts.mqtt import Outgoing
from edgeagent.ids import DeviceId
from tests.support.fake_bus import FakeBus

Passes = Callable[[timedelta], None]
"""Lets time go on."""

_SOON: Final = timedelta(milliseconds=5)
_STEP: Final = timedelta(seconds=5)
"""Longer than any step of these tests may take: silence is over at once, and nobody really waits."""


class Television:
    """One of ``television.toml``, obedient until it is told otherwise.

    Attributes:
        shows: what it would report of itself.
        effects: what commands have made of it, oldest first; one that changes nothing counts too.
        asked: how often it was asked for its state.
    """

    def __init__(self, bus: FakeBus, device: DeviceId, passes: Passes) -> None:
        self._bus = bus
        self._topic = device
        self._passes = passes
        self._deaf = False
        self._deaf_to: set[str] = set()
        self._refuses_of: dict[str, str] = {}
        self._meanwhile_at: dict[str, Callable[[], object]] = {}
        self._silent = 0
        self._silent_to = ""
        self._mute = False
        self._refuses = ""
        self._first_shows: dict[str, JsonValue] = {}
        self._leaves_out: set[str] = set()
        self._meanwhile: Callable[[], None] | None = None
        self.shows: dict[str, JsonValue] = {"power": False, "volume": 10, "input": "HDMI 1"}
        self.effects: list[tuple[str, JsonValue]] = []
        self.asked = 0
        for name in ("power", "volume", "input", "toggle", "reboot"):
            bus.reacts(f"{device}/set/{name}", self._obey)
        bus.reacts(f"{device}/get", self._answer)

    def comes_online(self) -> None:
        """It connects."""
        self._bus.delivers(f"{self._topic}/lwt", b"online")

    def goes_offline(self) -> None:
        """It is gone, and its last will says so."""
        self._bus.delivers(f"{self._topic}/lwt", b"offline")

    def reports(self, **changes: JsonValue) -> None:
        """It reports its state, after somebody beside it has changed something."""
        self.shows |= changes
        self._say("state", self.shows)

    def obeys(self) -> None:
        """It does as it is told, and shows it."""
        self._deaf, self._silent, self._mute, self._refuses = False, 0, False, ""
        self._deaf_to, self._refuses_of = set(), {}
        self._first_shows = {}

    def is_silent(self, times: int = 1_000, to: str = "") -> None:
        """It does what it is told the next times and does not show it; it answers questions.

        Args:
            times: how often.
            to: only what it is told by this name.
        """
        self._silent, self._silent_to = times, to

    def is_deaf(self, to: str = "") -> None:
        """It hears no command, or not those of one name; it answers questions."""
        if to:
            self._deaf_to.add(to)
        else:
            self._deaf = True

    def is_mute(self) -> None:
        """It answers no question."""
        self._mute = True

    def refuses(self, words: str, of: str = "") -> None:
        """It says no to commands, or to those of one name."""
        if of:
            self._refuses_of[of] = words
        else:
            self._refuses = words

    def shows_first(self, **values: JsonValue) -> None:
        """Before it obeys, it reports what was on its way already."""
        self._first_shows = values

    def leaves_out(self, name: str) -> None:
        """Its answers do not tell one of its readings."""
        self._leaves_out.add(name)

    def meanwhile(self, happens: Callable[[], None]) -> None:
        """While it is asked for its state, something else happens."""
        self._meanwhile = happens

    def meanwhile_at(self, name: str, happens: Callable[[], object]) -> None:
        """When it is next told a command of that name, something else happens first."""
        self._meanwhile_at[name] = happens

    def says(self, **fields: JsonValue) -> None:
        """It has something to say that is no state."""
        self._say("said", fields)

    def _obey(self, message: Outgoing) -> None:
        name = message.topic.rpartition("/")[2]
        value = json.loads(message.payload)["value"]
        happens = self._meanwhile_at.pop(name, None)
        if happens is not None:
            happens()
        refuses = self._refuses or self._refuses_of.get(name, "")
        if refuses:
            self._passes(_SOON)
            self.says(error=refuses)
            return
        if self._deaf or name in self._deaf_to:
            self._passes(_STEP)
            return
        if self._first_shows:
            self._passes(_SOON)
            self._say("state", self.shows | self._first_shows)
        self.effects.append((name, value))
        if name in self.shows:
            self.shows[name] = value
        elif name == "toggle":
            self.shows["power"] = not self.shows["power"]
        if self._silent and self._silent_to in {"", name}:
            self._silent -= 1
            self._passes(_STEP)
            return
        self._passes(_SOON)
        if name == "reboot":
            self.says(rebooting=True)
        else:
            self._say("state", self.shows)

    def _answer(self, _: Outgoing) -> None:
        self.asked += 1
        if self._meanwhile is not None:
            self._meanwhile()
        if self._mute:
            self._passes(_STEP)
            return
        self._passes(_SOON)
        self._say(
            "answer", {name: value for name, value in self.shows.items() if name not in self._leaves_out}
        )

    def _say(self, topic: str, fields: dict[str, JsonValue]) -> None:
        self._bus.delivers(f"{self._topic}/{topic}", json.dumps(fields).encode())
