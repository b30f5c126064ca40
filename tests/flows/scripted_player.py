"""A player whose firmware is updated as a test says, and the shelf that its files lie on."""

import asyncio
import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

from pydantic import JsonValue

from edgeagent.contracts.artifact import ArtifactFacts
from edgeagent.contracts.mqtt import Outgoing
from edgeagent.core.catalogue import Artifact, Catalogue, Signed
from edgeagent.errors import RejectedError, StorageError, SuspiciousError
from edgeagent.ids import ArtifactId, DeviceId, Digest
from edgeagent.ports.firmware import Image, Pickup
from tests.support.clocks import NOON
from tests.support.fake_bus import FakeBus

OLD: Final = "1.0.0"
NEW: Final = "2.0.0"
_SOON: Final = timedelta(milliseconds=5)
_STEP: Final = timedelta(seconds=5)


class Player:
    """One of ``player.toml``. It has the version that its test gives it, and says what its script says.

    Attributes:
        shows: what it tells of itself.
        urls: the addresses that it was told.
        begun: how often it was told to begin.
        script: what it does when it is told to begin; by default it installs what it was told.
    """

    def __init__(self, bus: FakeBus, device: DeviceId, passes: Callable[[timedelta], None]) -> None:
        self._bus = bus
        self._topic = device
        self._passes = passes
        self._is_mute = False
        self.shows: dict[str, JsonValue] = {"firmware": OLD, "battery": 100, "power": False}
        self.urls: list[str] = []
        self.begun: list[str] = []
        self.asked = 0
        self.script: Callable[[str], None] = self.installs
        self.when_asked: Callable[[int], None] = lambda _: None
        bus.reacts(f"{device}/set/address", self._address)
        bus.reacts(f"{device}/set/begin", self._begin)
        bus.reacts(f"{device}/get", self._answer)
        bus.reacts(f"{device}/set/power", self._power)

    def comes_online(self) -> None:
        """It connects."""
        self._bus.delivers(f"{self._topic}/lwt", b"online")

    def goes_offline(self) -> None:
        """It is gone, and its last will says so."""
        self._bus.delivers(f"{self._topic}/lwt", b"offline")

    def tells(self) -> None:
        """It tells what it runs."""
        self._say("version", self.shows)

    def says(self, **fields: JsonValue) -> None:
        """It has something to say of the update."""
        self._passes(_SOON)
        self._say("said", fields)

    def boots(self, version: str) -> None:
        """It goes away and comes back with a version."""
        self._passes(_SOON)
        self.goes_offline()
        self._passes(_STEP)
        self.shows["firmware"] = version
        self.comes_online()

    def installs(self, version: str) -> None:
        """It does as it should."""
        self.says(begun=True)
        for percent in (0, 50, 100):
            self.says(percent=percent)
        self.says(done=True)
        self.boots(version)

    def is_mute(self) -> None:
        """It answers nothing any more."""
        self._is_mute = True

    def _address(self, message: Outgoing) -> None:
        self.urls.append(json.loads(message.payload)["url"])
        self.says(address=self.urls[-1])

    def _begin(self, message: Outgoing) -> None:
        version = json.loads(message.payload)["version"]
        self.begun.append(version)
        self.script(version)

    def _power(self, message: Outgoing) -> None:
        self.shows["power"] = json.loads(message.payload)["value"]
        self._passes(_SOON)
        self.tells()

    def _answer(self, _: Outgoing) -> None:
        self.asked += 1
        self.when_asked(self.asked)
        if self._is_mute:
            self._passes(_STEP)
            return
        self._passes(timedelta(seconds=1))
        self.tells()

    def _say(self, topic: str, fields: dict[str, JsonValue]) -> None:
        self._bus.delivers(f"{self._topic}/{topic}", json.dumps(fields).encode())


class Shelf:
    """The files of a hub of these tests. An ``Images``.

    Attributes:
        images: what may be installed.
        served: for which runs something is served, and under which address.
        is_empty: whether nothing was fetched yet.
        is_damaged: whether a file is another one when it is served.
        is_mistaken: whether it is to raise what it never raises; None once it has.
        tickets: of all that was served, in this order.
        is_open: set while whoever wants a file need not wait for it.
    """

    def __init__(self, images: Sequence[Image] = ()) -> None:
        self.images = list(images)
        self.served: dict[int, tuple[Image, str]] = {}
        self.is_empty = False
        self.is_damaged = False
        self.is_mistaken: bool | None = False
        self.tickets: list[str] = []
        self.is_open = asyncio.Event()
        self.is_open.set()

    @property
    def catalogue(self) -> Catalogue:
        """What is signed for: all of them."""
        signed = Signed(group="players", version=1, until=NOON + timedelta(days=365))
        return Catalogue(
            {
                image.artifact: Artifact(
                    id=image.artifact,
                    sha256=image.sha256,
                    length=1000,
                    facts=ArtifactFacts(family="player", models="*", version=image.version),
                    signed=signed,
                )
                for image in self.images
            }
        )

    def find(self, artifact: ArtifactId, sha256: Digest) -> Image:
        """One of them."""
        if self.is_mistaken:
            self.is_mistaken = None
            raise SuspiciousError("a mistake")
        for image in self.images:
            if (image.artifact, image.sha256) == (artifact, sha256):
                return image
        raise RejectedError(f"nobody signs for {artifact}")

    def earlier(self, device: DeviceId, version: str) -> Image | None:
        """One of that version."""
        del device
        return next((image for image in self.images if image.version == version), None)

    async def serve(self, run: int, device: DeviceId, image: Image, pickup: Pickup) -> str:
        """Under an address of its own."""
        self.tickets.append(pickup.ticket)
        await self.is_open.wait()
        if self.is_empty:
            raise StorageError(f"{image.artifact} is not here yet")
        if self.is_damaged:
            raise SuspiciousError("a verified file is not as long as it was")
        self.served[run] = (image, f"http://192.0.2.1:8080/{run}/{device}/{image.sha256[:8]}")
        return self.served[run][1]

    async def withdraw(self, run: int) -> None:
        """Nothing more for that run."""
        self.served.pop(run, None)
