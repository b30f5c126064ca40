"""The venue's own listener at the broker: which numbered readings the appliances said.

It hears what the hub hears, reads it with nothing of the hub's, and keeps off command topics: whoever
subscribes there makes the broker believe that an appliance listens.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Final

from firmware_sim.firmware import Heard, Subscription, Will
from firmware_sim.link import Broker, Connected, Granted, Link, LinkEvent, Login
from firmware_sim.venue.errors import VenueError
from firmware_sim.venue.evidence import FIRST_NUMBER
from firmware_sim.venue.loopback import HOST

_FILTERS: Final = ("tele/+/SENSOR", "+/events/rpc")
_STARTING: Final = 10.0
_WATT_HOURS: Final = 1000


class Listener:
    """Counts."""

    def __init__(self) -> None:
        self.heard: Counter[int] = Counter()
        self._listening = asyncio.Event()
        self._link: Link | None = None

    @asynccontextmanager
    async def at(self, port: int, *, mqtt5: bool) -> AsyncIterator[None]:
        """Listen at a broker while inside.

        Raises:
            VenueError: it does not let us.
        """
        login = Login(
            client_id="venue-listener",
            keepalive=timedelta(seconds=60),
            will=Will("venue/listener", "gone", 0, retain=False),
            mqtt5=mqtt5,
        )
        self._link = link = Link(Broker(HOST, port), login, self._tell)
        living = asyncio.create_task(link.live(), name="listener")
        try:
            await self._until_listening()
            yield
        finally:
            living.cancel()
            with suppress(asyncio.CancelledError):
                await living

    async def _until_listening(self) -> None:
        try:
            async with asyncio.timeout(_STARTING):
                await self._listening.wait()
        except TimeoutError as why:
            raise VenueError("the broker does not take the venue's listener") from why

    def _tell(self, event: LinkEvent) -> None:
        match event:
            case Connected():
                assert self._link is not None  # noqa: S101 - it is what tells
                self._link.subscribe([Subscription(entry, 1) for entry in _FILTERS])
            case Granted():
                self._listening.set()
            case Heard():
                self.heard.update(numbers(event.payload))


def numbers(payload: bytes) -> list[int]:
    """The number of a numbered reading, read as a Tasmota or a Shelly writes it; most messages have none."""
    try:
        message: object = json.loads(payload)
    except (ValueError, RecursionError):
        return []
    match message:
        case {"ENERGY": {"Total": int() | float() as kilowatt_hours}}:
            shown = [float(kilowatt_hours)]
        case {"method": "NotifyStatus", "params": dict() as parts}:
            shown = [_kilowatt_hours(part) for part in parts.values()]
        case _:
            shown = []
    return [round(number) for number in shown if number >= FIRST_NUMBER]


def _kilowatt_hours(part: object) -> float:
    """What the meter of a Shelly's component shows; 0 without one."""
    match part:
        case {"aenergy": {"total": int() | float() as watt_hours}}:
            return float(watt_hours) / _WATT_HOURS
        case _:
            return 0.0
