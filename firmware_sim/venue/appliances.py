"""The dozen appliances of a venue, in a process of their own, and their journal: the first witness."""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from firmware_sim.fields import Fields, Json, parse
from firmware_sim.journal import Line, read
from firmware_sim.venue.children import Child, Children
from firmware_sim.venue.errors import VenueError
from firmware_sim.venue.loopback import HOST

_STARTING: Final = 30.0
_ANSWERING: Final = 10.0
_BURSTING: Final = 60.0
_SHELLY: Final = "shelly"
_MACS: Final = 0x02ED6E000000


@dataclass(frozen=True, slots=True)
class Appliance:
    """One appliance.

    Attributes:
        name: what people call it.
        id: the one that it has by birth.
    """

    name: str
    id: str


DOZEN: Final[Mapping[str, str]] = {
    "Coffee machine": "shelly-plug",
    "Screen wall": "shelly-plug",
    "Terrace heaters": "shelly-two-relays",
    "Bar lights": "shelly-dimmer",
    "Stage lights": "shelly-dimmer",
    "Awning": "shelly-cover",
    "Ice maker": "tasmota-plug",
    "Sound desk": "tasmota-plug",
    "Door signs": "tasmota-two-relays",
    "Mood lamp": "tasmota-light",
    "Kitchen air": "tasmota-sensor",
    "Cellar air": "tasmota-sensor",
}
"""The models, by what people call each."""


class Appliances:
    """The running fleet.

    Args:
        folder: for its list and its journal.
        children: where its process belongs.
    """

    def __init__(self, folder: Path, children: Children) -> None:
        self._folder = folder
        self._children = children
        self._child: Child | None = None
        self._asking = asyncio.Lock()
        self._named: dict[str, Appliance] = {}

    @property
    def all(self) -> Sequence[Appliance]:
        """All of them."""
        return list(self._named.values())

    def __getitem__(self, name: str) -> Appliance:
        """The one of that name."""
        return self._named[name]

    async def start(self, port: int, *, mqtt5: bool) -> Child:
        """Plug them all in at a broker, and return once they listen.

        Raises:
            VenueError: they do not.
        """
        listed = self._folder / "appliances.json"
        listed.write_text(json.dumps({"appliance": _specifications()}, indent=1), "utf-8")
        files = ("--specifications", str(listed), "--journal", str(self._journal))
        words = ["--broker", f"{HOST}:{port}", "--seed", "venue", "--period", "2s", *files]
        command = [sys.executable, "-m", "firmware_sim", *words, *(["--mqtt5"] if mqtt5 else [])]
        child = self._child = await self._children.start("appliances", command, talks=True)
        found: list[str] = []
        while True:
            line = Fields(parse(await child.line(within=_STARTING), "appliances"), "appliances")
            if line.has("ready"):
                break
            found.append(line.nested("appliance").text("id"))
        # It tells them in the order of the list.
        self._named = {name: Appliance(name, id_) for name, id_ in zip(DOZEN, found, strict=True)}
        return child

    def journal(self) -> list[Line]:
        """Everything that they have written down."""
        return read(self._journal) if self._journal.exists() else []

    async def press(self, appliance: Appliance) -> None:
        """Press its button."""
        await self._do("press", appliance)

    async def fall_silent(self, appliance: Appliance) -> None:
        """Let it hear and act, and say nothing, until it is healed."""
        await self._do("fault", appliance, fault={"fault": "silent", "way": "said"})

    async def lose_power(self, appliance: Appliance, *, write: int) -> None:
        """Let its power fail in the middle of a write of its flash, the ``write``-th of its next update."""
        await self._do("fault", appliance, fault={"fault": "brown_out", "nth": write, "times": 1})

    async def heal(self, appliance: Appliance) -> None:
        """Let it be as it should."""
        await self._do("heal", appliance)

    async def reconnect(self, appliance: Appliance) -> None:
        """Cut its connection, so that it comes back and introduces itself again."""
        await self._do("disconnect", appliance, lasting="100ms")

    async def burst(self, numbers: range, *, rate: int) -> None:
        """Send numbered readings at QoS 1, so many a second; return when the broker has acknowledged them.

        What became of them is in the journal.
        """
        burst: Mapping[str, Json] = {
            "do": "burst",
            "count": len(numbers),
            "rate": rate,
            "first": numbers.start,
        }
        await self._ask(burst, within=_BURSTING)

    @property
    def _journal(self) -> Path:
        return self._folder / "journal.jsonl"

    async def _do(self, verb: str, appliance: Appliance, **more: Json) -> None:
        await self._ask({"do": verb, "appliance": appliance.id, **more}, within=_ANSWERING)

    async def _ask(self, line: Mapping[str, Json], *, within: float) -> None:
        child = self._child
        assert child is not None, "they are not plugged in"  # noqa: S101 - our own mistake
        async with self._asking:
            await child.say(json.dumps(line))
            answer = Fields(parse(await child.line(within=within), "answer"), "answer")
        if not answer.flag("ok", default=False):
            raise VenueError(f"the appliances refuse {line['do']}: {answer.text('error', '')}")


def _specifications() -> list[Json]:
    listed: list[Json] = []
    for place, (name, model) in enumerate(DOZEN.items(), 1):
        settings: Mapping[str, Json] = {} if model.startswith(_SHELLY) else {"name": name}
        listed.append({"model": model, "mac": f"{_MACS + place:012X}", "settings": settings})
    return listed
