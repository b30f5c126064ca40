"""A hostile television, as an appliance among others: it hears what it may, and harms whom it can.

It subscribes to everything and remembers the last of it, does one deed each period in an order of its seed's
own, and writes each down. What it says goes out under its own login, so that a broker's rules are what stops
it; it fetches from no server that is not nearby.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from random import Random
from typing import Final

from firmware_sim.fields import InputError, Json
from firmware_sim.firmware import Board, Heard, Piece, Said, Subscription, Will
from firmware_sim.journal import What
from firmware_sim.television import abuse, lies
from firmware_sim.television.settings import Deed, TelevisionSettings

_MEMORY: Final = 500
_SERVERS: Final = 20
_SAID: Final = 2000
# MQTT 3.1.1 section 1.5.3: what it makes of a long one may be too long.
_LONGEST_TOPIC: Final = 65_535


def television_id(mac: str) -> str:
    """Its id."""
    return f"television-{mac.lower()}"


class Television:
    """See the module's docstring.

    Args:
        board: the hardware.
        mac: twelve capital hexadecimal digits.
        settings: what it is out for.
        seed: names the order of its deeds.
    """

    keepalive = timedelta(seconds=60)

    def __init__(self, board: Board, mac: str, settings: TelevisionSettings, seed: str) -> None:
        self._board = board
        self._settings = settings
        self._deeds = settings.deeds or tuple(Deed)
        self._chance = Random(f"{seed}/{mac}/deeds")
        self._heard: deque[Heard] = deque(maxlen=_MEMORY)
        self._servers: deque[abuse.Server] = deque(maxlen=_SERVERS)
        self._own: deque[tuple[str, bytes]] = deque(maxlen=_SAID)
        self._next: list[Deed] = []
        self.native_id = television_id(mac)
        self.client_id = self.native_id
        self.will = Will(f"{settings.topic}/lwt", "Offline", 1, retain=True)

    def boot(self, usual: timedelta, *, cold: bool) -> timedelta | None:  # noqa: ARG002 - it makes no difference
        """It forgets what it has heard."""
        self._heard.clear()
        return usual

    def chips(self) -> Mapping[str, Json]:
        """None that anybody updates."""
        return {}

    def greet(self, *, fresh: bool) -> None:  # noqa: ARG002 - the same each time
        """Ask for everything."""
        self._board.subscribe([Subscription("#", 1)])
        self._say([Said(f"{self._settings.topic}/lwt", b"Online", 1, retain=True)])

    def hear(self, message: Heard) -> None:
        """Remember it, and the servers that it names; not what it has said itself."""
        if (message.topic, message.payload) in self._own:
            return
        self._heard.append(message)
        for server in abuse.overheard(message.payload):
            if server not in self._servers:
                self._servers.append(server)

    def report(self) -> None:
        """Do the next deed."""
        if self._settings.idle:
            return
        if not self._next:
            self._next = self._chance.sample(self._deeds, len(self._deeds))
        self._do(self._next.pop())

    def press(self, button: int) -> None:
        """Do the deed of that number."""
        if not 1 <= button <= len(Deed):
            raise InputError(f"{self.native_id} has no button {button}")
        self._do(list(Deed)[button - 1])

    def counted(self, number: int) -> Said | None:  # noqa: ARG002 - it measures nothing
        """It has no meter."""
        return None

    def describe(self) -> Mapping[str, Json]:
        """What a visitor is told."""
        return {
            "family": "television",
            "model": "hostile",
            "topic": self._settings.topic,
            "can": {},
            "deeds": [deed.value for deed in self._deeds],
        }

    def pieces(self) -> Sequence[Piece]:
        """Nothing that can be set."""
        return []

    def _do(self, deed: Deed) -> None:
        heard, settings = list(self._heard), self._settings
        match deed:
            case Deed.SPOOF:
                self._spoken(deed, lies.spoofed(heard))
            case Deed.PLANT:
                self._spoken(deed, lies.planted(heard, settings.evil))
            case Deed.ANSWER:
                self._spoken(deed, lies.answered(heard))
            case Deed.FLOOD:
                self._spoken(deed, lies.flood(settings.topic, heard, settings.many))
            case Deed.REPLAY:
                again = (Said(one.topic, one.payload, min(one.qos, 1), one.retain) for one in heard)
                self._spoken(deed, again)
            case Deed.WANDER:
                self._visited(deed, abuse.wander)
            case Deed.RANGES:
                self._visited(deed, abuse.ranges)
            case Deed.DAWDLE:
                self._visited(deed, abuse.dawdle)
            case Deed.CROWD:
                self._visited(deed, partial(abuse.crowd, many=settings.many))

    def _spoken(self, deed: Deed, messages: Iterable[Said]) -> None:
        said = list(messages)
        self._say(said)
        self._board.note(What.ABUSED, {"deed": deed.value, "messages": len(said)})

    def _say(self, messages: Iterable[Said]) -> None:
        for message in messages:
            if len(message.topic.encode()) > _LONGEST_TOPIC:
                continue
            self._own.append((message.topic, message.payload))
            self._board.say(message)

    def _visited(self, deed: Deed, how: Callable[[abuse.Server], Awaitable[list[str]]]) -> None:
        for server in self._servers:
            self._board.beside(self._visit(deed, replace(server, source=self._settings.address), how))

    async def _visit(
        self, deed: Deed, server: abuse.Server, how: Callable[[abuse.Server], Awaitable[list[str]]]
    ) -> None:
        answers = await how(server)
        where = f"http://{server.host}:{server.port}{server.path}"
        self._board.note(What.ABUSED, {"deed": deed.value, "url": where, "answers": answers})
