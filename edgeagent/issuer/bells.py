"""Waking whoever waits for something to be stored.

A bell is rung after the commit. Whoever waits listens first and looks into the store then, so that
nothing that is stored in between is missed.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from enum import Enum
from typing import Final

from edgeagent.ids import HubId


class About(Enum):
    """What a bell is rung about."""

    QUEUE = "queue"
    """A hub's queue: commands may be lent."""
    COMMANDS = "commands"
    """A hub's commands: one of them stands elsewhere than before."""


_FOR_EVER: Final = 1e9


class Bells:
    """All that wait, by what they wait for. Lives on the event loop."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[HubId, About], set[asyncio.Event]] = {}
        self._holders: dict[HubId, object] = {}
        self.closing = False

    @contextmanager
    def listening(self, hub: HubId, about: About) -> Iterator[asyncio.Event]:
        """An event that is set whenever the bell is rung; whoever waits clears it before looking."""
        bell = asyncio.Event()
        waiting = self._waiting.setdefault((hub, about), set())
        waiting.add(bell)
        try:
            yield bell
        finally:
            waiting.discard(bell)
            if not waiting and self._waiting.get((hub, about)) is waiting:
                del self._waiting[hub, about]

    def ring(self, hub: HubId, *abouts: About) -> None:
        """Wake whoever waits for this."""
        for about in abouts:
            for bell in self._waiting.get((hub, about), ()):
                bell.set()

    def take_over(self, hub: HubId) -> object:
        """Become the one that waits for a hub's commands; an earlier one is woken and finds it out.

        Its connection may be dead without anybody knowing: what it were lent would be lost for as long
        as it is lent.
        """
        holder = object()
        self._holders[hub] = holder
        self.ring(hub, About.QUEUE)
        return holder

    def holds(self, hub: HubId, holder: object) -> bool:
        """Whether nobody has taken over since."""
        return self._holders.get(hub) is holder

    def let_go(self, hub: HubId, holder: object) -> None:
        """Stop being the one that waits."""
        if self.holds(hub, holder):
            del self._holders[hub]

    def close(self) -> None:
        """Send everybody home: the server stops."""
        self.closing = True
        for waiting in self._waiting.values():
            for bell in waiting:
                bell.set()


async def heard(bell: asyncio.Event, *, within: timedelta) -> None:
    """Wait until a bell rings, or the time is over."""
    try:
        async with asyncio.timeout(min(within.total_seconds(), _FOR_EVER)):
            await bell.wait()
    except TimeoutError:
        pass
