"""Load: numbered telemetry at QoS 1, with a record of what the broker has acknowledged.

Each message is a real telemetry message of its family whose energy reading, in kWh, is the message's
number: ``ENERGY.Total`` of a Tasmota, ``aenergy.total`` of a Shelly (in Wh there, so a thousandfold). So no
two are alike, none is a repeat that report by exception would swallow, and whoever counts at the far end
needs nothing else. The numbers run through the whole fleet, in turn; an appliance's own rise.

The journal tells which numbers got their PUBACK, and which never will, since their connection went: those may
or may not have arrived. (A real Tasmota uses QoS 0 for telemetry; here somebody wants to count.)
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from math import inf
from typing import Final

from firmware_sim.appliance import Appliance
from firmware_sim.fields import InputError
from firmware_sim.journal import Journal, What

FLEET: Final = "fleet"
"""In whose name the journal tells of a burst."""

_FLUSH_EVERY: Final = 0.2
# Messages between two turns of the event loop, which sends and reads.
_AT_ONCE: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """What is asked for.

    Attributes:
        count: how many messages.
        rate: how many per second; 0 as fast as the broker acknowledges.
        first: the number of the first.
        window: how many may be unacknowledged at once.
        patience: how long to wait for an acknowledgement, or for a connection, before giving up.

    Raises:
        InputError: a number is out of range.
    """

    count: int
    rate: float = 0.0
    first: int = 1
    window: int = 1000
    patience: timedelta = timedelta(seconds=10)

    def __post_init__(self) -> None:
        """Refuse what is no burst."""
        if self.count < 1 or self.window < 1 or self.first < 0:
            raise InputError("a burst has at least one message, a window of one, and no number below 0")
        if not 0 <= self.rate < inf:
            raise InputError(f"a rate of {self.rate:g} per second")


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of it.

    Attributes:
        sent: how many were handed to a socket.
        acknowledged: of those, how many got a PUBACK.
        lost: of those, how many never will.
        seconds: from the first message to the last acknowledgement.
    """

    sent: int
    acknowledged: int
    lost: int
    seconds: float


@dataclass(slots=True)
class _Progress:
    """Where the burst is."""

    pending: dict[int, tuple[Appliance, int]] = field(default_factory=dict)
    untold: list[int] = field(default_factory=list)
    acknowledged: int = 0
    lost: int = 0
    last_acknowledged: float = 0.0
    last_moved: float = 0.0
    room: asyncio.Event = field(default_factory=asyncio.Event)


async def burst(appliances: Iterable[Appliance], journal: Journal, wanted: Burst) -> Tally:
    """Send a burst and wait for its acknowledgements.

    Raises:
        InputError: no appliance has a meter.
    """
    metered = [appliance for appliance in appliances if appliance.counted(0) is not None]
    if not metered:
        raise InputError("no appliance has a meter that could count")
    loop = asyncio.get_running_loop()
    progress = _Progress()
    begun = progress.last_acknowledged = progress.last_moved = loop.time()
    async with asyncio.TaskGroup() as group:
        telling = group.create_task(_keep_telling(progress, journal))
        sent = await _send_all(metered, wanted, progress)
        while progress.pending and not _stuck(wanted, progress):
            await _room(progress)
        telling.cancel()
    _give_up(progress, list(progress.pending), journal)
    _tell(progress, journal)
    return Tally(sent, progress.acknowledged, progress.lost, round(progress.last_acknowledged - begun, 3))


async def _send_all(metered: Sequence[Appliance], wanted: Burst, progress: _Progress) -> int:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    for done in range(wanted.count):
        if wanted.rate and (ahead := begun + done / wanted.rate - loop.time()) > 0:
            await asyncio.sleep(ahead)
        elif done % _AT_ONCE == 0:
            await asyncio.sleep(0)
        while len(progress.pending) >= wanted.window and not _stuck(wanted, progress):
            await _room(progress)
        if len(progress.pending) >= wanted.window or not await _send(metered, wanted, progress, done):
            return done
    return wanted.count


async def _send(metered: Sequence[Appliance], wanted: Burst, progress: _Progress, done: int) -> bool:
    """Send one message over the next appliance that is connected; False when none comes back in time."""
    loop = asyncio.get_running_loop()
    number, until = wanted.first + done, loop.time() + wanted.patience.total_seconds()
    while True:
        for step in range(len(metered)):
            appliance = metered[(done + step) % len(metered)]
            message = appliance.counted(number)
            if message is not None and appliance.publish(message, partial(_acknowledged, progress, number)):
                progress.pending[number] = (appliance, appliance.life)
                progress.last_moved = loop.time()
                return True
        if loop.time() > until:
            return False
        await _room(progress)


def _acknowledged(progress: _Progress, number: int) -> None:
    if progress.pending.pop(number, None) is not None:
        progress.acknowledged += 1
        progress.untold.append(number)
        progress.last_acknowledged = progress.last_moved = asyncio.get_running_loop().time()
        progress.room.set()


def _stuck(wanted: Burst, progress: _Progress) -> bool:
    """Whether nothing has gone out or come back for too long."""
    return asyncio.get_running_loop().time() - progress.last_moved > wanted.patience.total_seconds()


async def _room(progress: _Progress) -> None:
    """Wait for an acknowledgement, or a moment."""
    progress.room.clear()
    with suppress(TimeoutError):
        async with asyncio.timeout(_FLUSH_EVERY):
            await progress.room.wait()


async def _keep_telling(progress: _Progress, journal: Journal) -> None:
    while True:
        await asyncio.sleep(_FLUSH_EVERY)
        gone = [
            number
            for number, (appliance, life) in progress.pending.items()
            if appliance.life != life or not appliance.connected
        ]
        _give_up(progress, gone, journal)
        _tell(progress, journal)


def _give_up(progress: _Progress, numbers: Sequence[int], journal: Journal) -> None:
    if not numbers:
        return
    for number in numbers:
        del progress.pending[number]
    progress.lost += len(numbers)
    progress.room.set()
    journal.note(FLEET, What.LOST, {"ranges": ranges(numbers)})


def _tell(progress: _Progress, journal: Journal) -> None:
    told, progress.untold = progress.untold, []
    if told:
        journal.note(FLEET, What.ACKNOWLEDGED, {"ranges": ranges(told)})


def ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Numbers as ranges, ends included: 1, 2, 3, 7 as [[1, 3], [7, 7]]."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found
