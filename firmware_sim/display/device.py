"""A display that is updated from a URL and tells its progress, as many small devices do.

    <topic>/lwt             online, offline: retained; the will
    <topic>/state           {"power":true,"brightness":80,"version":"1.0.0"}, at each change and each period
    <topic>/set         in  {"power":false}, {"brightness":40}
    <topic>/get         in  anything: tells the state
    <topic>/update          {"id":…,"installed_version":"1.0.0","in_progress":true,"update_percentage":40,
                            "error":null}, retained; the shape of Home Assistant's ``update`` over MQTT
    <topic>/update/set  in  {"url":"http://…","id":…}; ``id`` is repeated
    <topic>/update/cancel  in  anything: ends a download, and nothing later than that

No maker made it: it is there so that an update by URL and progress can be tried without a family's manners. A
cut download is taken up by ``Range``, three times. A second update while one runs is told as an error of the
second one's ``id``, and the first goes on.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Final

from firmware_sim.display.image import MODEL, made, whole
from firmware_sim.display.settings import DisplaySettings
from firmware_sim.fields import InputError, Json
from firmware_sim.firmware import Board, Heard, Piece, Said, Subscription, Timing, Will
from firmware_sim.flash import Flash, Layout
from firmware_sim.image import Family, Label, Order
from firmware_sim.part import Part
from firmware_sim.updating import Update

_BRIGHTEST: Final = 100
_RESUMES: Final = 3
_STEP: Final = 5
# What a try again may mend.
_CUT: Final = ("connection lost", "ClientPayloadError", "timed out")
_LONGEST_URL: Final = 1024


def display_id(mac: str) -> str:
    """Its id."""
    return f"display-{mac.lower()}"


@dataclass(frozen=True, slots=True)
class Shown:
    """What it shows."""

    power: bool = True
    brightness: int = 80

    def values(self) -> Mapping[str, Json]:
        """In the journal's words."""
        return {"power": self.power, "brightness": self.brightness}

    def wrong(self, before: "Shown") -> "Shown":
        """As before, or the other way round."""
        return before if before != self else replace(self, power=not self.power)


class Display:
    """See the module's docstring.

    Args:
        board: the hardware.
        mac: twelve capital hexadecimal digits.
        settings: the owner's.
        timing: how long things take.
    """

    keepalive = timedelta(seconds=30)

    def __init__(self, board: Board, mac: str, settings: DisplaySettings, timing: Timing) -> None:
        self._board = board
        self._timing = timing
        self.native_id = self.client_id = display_id(mac)
        self._topic = settings.topic or f"display/{self.native_id}"
        self.will = Will(f"{self._topic}/lwt", "offline", 1, retain=True)
        self._part = Part(board, "screen", Shown())
        label = Label(
            family=Family.DISPLAY, model=MODEL, hardware=settings.hardware, version=settings.version
        )
        check = partial(whole, hardware=settings.hardware)
        self._flash = Flash(board, "flash", Layout(), check, made(Order(label=label)))
        self._update = Update(board, self._flash, check, self)
        self._running = False
        self._id: Json = None
        self._url = ""
        self._percent = 0
        self._resumes = 0

    def boot(self, usual: timedelta, *, cold: bool) -> timedelta | None:  # noqa: ARG002 - it makes no difference
        """What it shows is kept; an update is forgotten."""
        self._update.cancel()
        self._running = False
        return self._flash.boot(usual)

    def chips(self) -> Mapping[str, Json]:
        """One."""
        return {self._flash.part: self._flash.describe()}

    def greet(self, *, fresh: bool) -> None:
        """Say that it is there, what it shows and what it runs."""
        wanted = ("set", "get", "update/set", "update/cancel")
        self._board.subscribe([Subscription(f"{self._topic}/{one}", 1) for one in wanted])
        self._board.say(Said(f"{self._topic}/lwt", b"online", 1, retain=True))
        self._tell_state()
        self._tell_update(None)
        if fresh:
            self._board.start_timer(self._timing.settle, self._came_up)

    def hear(self, message: Heard) -> None:
        """Take a command; what is none is dropped."""
        match message.topic.removeprefix(f"{self._topic}/"):
            case "set":
                self._set(_object(message.payload))
            case "get":
                self._tell_state()
            case "update/set":
                self._begin(_object(message.payload))
            case "update/cancel" if self._running:
                self._update.cancel()
                self._running = False
                self._tell_update("cancelled")
            case _:
                pass

    def report(self) -> None:
        """Tell the state."""
        self._tell_state()

    def press(self, button: int) -> None:
        """Its one button switches it."""
        if button != 1:
            raise InputError(f"{self.native_id} has no button {button}")
        self._part.carry_out("power", replace(self._part.true, power=not self._part.true.power))
        self._tell_state()

    def counted(self, number: int) -> Said | None:  # noqa: ARG002 - it measures nothing
        """It has no meter."""
        return None

    def describe(self) -> Mapping[str, Json]:
        """What a visitor is told."""
        can: Json = {"screen": ["power", "brightness"]}
        return {"family": "display", "model": MODEL, "topic": self._topic, "can": can}

    def pieces(self) -> Sequence[Piece]:
        """One."""
        return [self._part]

    # What the update calls: ``updating.Teller``.

    def progressed(self, percent: int) -> None:
        """Tell it in steps, and whenever it goes back."""
        if percent >= self._percent + _STEP or percent < self._percent:
            self._percent = percent
            self._tell_update(None)

    def succeeded(self) -> None:
        """That it is all there; what runs is told after the reboot."""
        self._percent = 100
        self._tell_update(None)

    def failed(self, why: str) -> None:
        """Take it up again, or say so; the old firmware runs on."""
        if why.startswith(_CUT) and self._resumes < _RESUMES:
            self._resumes += 1
            self._board.start_timer(self._timing.retry, self._resume)
            return
        self._running = False
        self._tell_update(why)

    def installed(self) -> None:
        """Reboot into it."""
        self._board.restart(self._timing.restart)

    def _begin(self, asked: Mapping[str, Json]) -> None:
        url, number = asked.get("url"), asked.get("id")
        number = number if isinstance(number, str | int) else None
        if self._running:
            self._tell_update("busy", number)
            return
        right = isinstance(url, str) and url.startswith(("http://", "https://")) and len(url) <= _LONGEST_URL
        if not isinstance(url, str) or not right:
            self._tell_update("no such URL", number)
            return
        self._running, self._id, self._url, self._percent, self._resumes = True, number, url, 0, 0
        self._tell_update(None)
        self._update.start(url, old=False, agent="display")

    def _resume(self) -> None:
        if self._running:
            self._update.again(self._url, old=False, agent="display", resume=True)

    def _came_up(self) -> None:
        again = self._flash.came_up(self._timing.boot)
        if again is not None:
            self._board.restart(again)

    def _set(self, wanted: Mapping[str, Json]) -> None:
        power, brightness = wanted.get("power"), wanted.get("brightness")
        if isinstance(power, bool):
            self._part.carry_out("power", replace(self._part.true, power=power))
        if isinstance(brightness, int) and not isinstance(brightness, bool) and 0 <= brightness <= _BRIGHTEST:
            self._part.carry_out("brightness", replace(self._part.true, brightness=brightness))
        self._tell_state()

    def _tell_state(self) -> None:
        told = {**self._part.told.values(), "version": self._flash.told.version}
        self._board.say(Said(f"{self._topic}/state", json.dumps(told).encode(), 1))

    def _tell_update(self, error: str | None, number: Json = None) -> None:
        """How its update stands; an error of another one names that one's id."""
        told: dict[str, Json] = {
            "id": self._id if number is None else number,
            "installed_version": self._flash.told.version,
            "in_progress": self._running,
            "update_percentage": self._percent if self._running else None,
            "error": error,
        }
        self._board.say(Said(f"{self._topic}/update", json.dumps(told).encode(), 1, retain=True))


def _object(payload: bytes) -> Mapping[str, Json]:
    try:
        value: Json = json.loads(payload)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, Mapping) else {}
