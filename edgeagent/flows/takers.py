"""Who waits for a command of one lane, and one transaction that claims for all of them.

    take ──> stands with the others ──┐
    take ──> stands with the others ──┼──> the first asks for all: one transaction ──> a command for some
    take ──> asks, being the first ───┘    nothing left? it waits for the bell, and asks again

Each by itself would cost a transaction for every one that waits, again and again; so there is one at most
under way. Whoever is cancelled hands its turn on, and what it has asked for the others reaches them all the
same. A command that was claimed for somebody who is gone by then, or goes before it has all of it, is given
back: nothing was done with it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import field
from datetime import timedelta
from secrets import token_hex
from typing import TypeVar

from edgeagent.flows.bells import Bell
from edgeagent.flows.claims import Found, Taker
from edgeagent.values import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    """What there was for those who asked.

    Attributes:
        found: a command for each of the first of them.
        within: after what time to ask again at the latest; None: when the bell is rung.
        is_left: whether commands stand queued that could not be claimed.
    """

    found: Sequence[Found] = ()
    within: timedelta | None = None
    is_left: bool = False


Ask = Callable[[Sequence[Taker]], Awaitable[Answer]]
"""Claims for all who ask."""
GiveBack = Callable[[Taker, Found], Coroutine[None, None, None]]
"""Queues a command again that nobody has begun."""
PutTogether = Callable[[Found, Taker], Awaitable[T]]
"""Makes of what was claimed what is lent to whoever works it."""


@dataclass(eq=False, slots=True)
class _Place:
    """Where somebody stands.

    Attributes:
        taker: who.
        found: what was claimed for it.
        stirred: set when that was, or when it is to ask.
    """

    taker: Taker
    found: Found | None = None
    stirred: asyncio.Event = field(default_factory=asyncio.Event)


class Takers:
    """Those who wait for a command of a lane."""

    def __init__(self, bell: Bell, ask: Ask, give_back: GiveBack) -> None:
        self._bell = bell
        self._ask_for = ask
        self._give_back = give_back
        self._places: list[_Place] = []
        self._speaker: _Place | None = None
        self._is_left = False
        self._unserved: Answer | None = None
        self._asking: asyncio.Task[None] | None = None
        self._returning: set[asyncio.Task[None]] = set()

    def let_go(self) -> None:
        """A command has ended: that makes work only where another was left queued.

        Every other commit that makes work, now or later, rings the bell. What was left is known by then:
        results are handed out in the order of their commits.
        """
        if self._is_left:
            self._bell.ring()

    async def lend(self, holder: str, put_together: PutTogether[T]) -> T:
        """Wait for a command, and for what is made of it for whoever works it.

        Raises:
            StorageError: the disk did not take the claim, and nothing is claimed; or what is made of it could
                not be read.
        """
        taker, found = await self.take(holder)
        try:
            return await put_together(found, taker)
        except asyncio.CancelledError:
            self._return(taker, found)
            raise

    async def take(self, holder: str) -> tuple[Taker, Found]:
        """Wait for a command.

        Raises:
            StorageError: the disk did not take the claim; nothing is claimed.
        """
        place = _Place(Taker(holder, token_hex(16)))
        self._places.append(place)
        if self._speaker is None:
            # What the last who asked was told may be old: nobody has waited for it.
            self._speaker, self._unserved = place, None
        try:
            while place.found is None:
                if self._speaker is not place:
                    await place.stirred.wait()
                    place.stirred.clear()
                elif self._unserved is None:
                    await self._ask()
                else:
                    # There was not enough, and every commit since then that makes work has rung.
                    within, self._unserved = self._unserved.within, None
                    await self._bell.wait(within)
        except asyncio.CancelledError:
            if place.found is not None:
                self._return(place.taker, place.found)
            raise
        else:
            return place.taker, place.found
        finally:
            self._places.remove(place)
            if self._speaker is place:
                self._hand_on()

    async def _ask(self) -> None:
        """Ask for all, or wait for the end of what another has asked who is gone."""
        # One that is done says nothing to whoever comes now, and would be waited for without a pause.
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._claim())
            self._asking.add_done_callback(_heard)
        # A task of its own: what is claimed for the others must not be lost with whoever asked for them.
        await asyncio.shield(self._asking)

    async def _claim(self) -> None:
        # Who has asked last is served first: a worker that was stopped has asked long ago, and what was lost
        # with it must not be lent to it again while another one is there.
        asking = [each for each in reversed(self._places) if each.found is None]
        answer = await self._ask_for([each.taker for each in asking])
        if len(answer.found) < len(asking):
            self._is_left, self._unserved = answer.is_left, answer
        for place, found in zip(asking, answer.found, strict=False):
            if place in self._places:
                place.found = found
                place.stirred.set()
            else:
                self._return(place.taker, found)

    def _return(self, taker: Taker, found: Found) -> None:
        """Give a command back in the name of somebody who cannot wait for it any more."""
        task = asyncio.create_task(self._give_back(taker, found))
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)
        task.add_done_callback(_heard)

    def _hand_on(self) -> None:
        """Have another one ask."""
        self._speaker = next((each for each in self._places if each.found is None), None)
        if self._speaker is not None:
            self._speaker.stirred.set()


def _heard(asking: "asyncio.Task[None]") -> None:
    """Its error is told to whoever waits for it; perhaps nobody does."""
    if not asking.cancelled():
        asking.exception()
