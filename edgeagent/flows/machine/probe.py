"""A look that may hang: at a disk that does not answer, at a name server that is away.

It is made in a thread of its own, waited for a few seconds and not a second time while it hangs, and what it
found holds for a while: however often health is asked, no more is asked of the machine, and nobody waits
long. The thread ends with the process, whatever it waits for.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

from edgeagent.clock import Clock
from edgeagent.contracts.reports.health import Check, Level

PATIENCE: Final = timedelta(seconds=4)
"""How long a look is waited for."""

Look = Callable[[], Sequence[Check]]


class Probe:
    """One such look.

    Args:
        name: of the check that tells that it hangs.
        look: blocks, and is called in a thread.
        clock: tells how old what was found is.
        every: how long what was found well holds; what was not, a fifth of it.
        patience: how long the look is waited for.
    """

    def __init__(
        self, name: str, look: Look, clock: Clock, *, every: timedelta, patience: timedelta = PATIENCE
    ) -> None:
        self._name = name
        self._look = look
        self._clock = clock
        self._every = every
        self._patience = patience
        self._found: tuple[timedelta, Sequence[Check]] | None = None
        self._under_way: asyncio.Future[Sequence[Check]] | None = None

    async def checks(self) -> Sequence[Check]:
        """What was found, now or a moment ago."""
        if self._found is not None:
            at, checks = self._found
            is_well = all(check.level is Level.OK for check in checks)
            if self._clock.boot() - at < (self._every if is_well else self._every / 5):
                return checks
        # One that hung and has ended since is taken too: it is the newest there is.
        look = self._under_way = self._under_way or _in_thread(self._look)
        done, _ = await asyncio.wait([look], timeout=self._patience.total_seconds())
        if not done:
            return [self._hanging()]
        if self._under_way is look:
            self._under_way = None
            self._found = (self._clock.boot(), look.result())
        return look.result()

    def _hanging(self) -> Check:
        seconds = self._patience.total_seconds()
        return Check(
            name=self._name,
            level=Level.UNKNOWN,
            summary=f"the machine has not answered within {seconds:.0f} s",
            advice="dmesg, mount and df: a disk or a network share that hangs",
        )


def _in_thread(look: Look) -> asyncio.Future[Sequence[Check]]:
    """Begin a look; a thread of its own, since those of the loop are waited for at the end."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Sequence[Check]] = loop.create_future()

    def done(tell: Callable[[], None]) -> None:
        # Nobody listens any more once the loop is closed.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: None if future.done() else tell())

    def run() -> None:
        try:
            found = look()
        except Exception as why:  # noqa: BLE001 - it is handed to whoever waits
            failure = why
            done(lambda: future.set_exception(failure))
        else:
            done(lambda: future.set_result(found))

    threading.Thread(target=run, name="probe", daemon=True).start()
    return future
