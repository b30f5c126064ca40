"""Many commands for upkeep: held until their time comes, over all at once, old enough to be forgotten.

They are asked of a hundred televisions by two issuers, three of each, so that none takes another's place.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from edgeagent.flows.forgetting import KEPT, Forgetting
from edgeagent.ids import DeviceId, device_id
from tests.flows.commanding import Hub
from tests.flows.signing import INPUT, POWER, VOLUME

DEVICES: Final[list[DeviceId]] = [device_id(f"tv-{number}") for number in range(100)]
COMMANDS: Final = 2 * 3 * len(DEVICES)
"""How many commands there are, each device of a list counted."""

_AHEAD: Final = timedelta(hours=1)
_GOOD_FOR: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Commands:
    """The commands of a hub whose time is moved by hand.

    Attributes:
        hub: whose.
    """

    hub: Hub

    async def come(self) -> None:
        """Have them come, all of them from an hour ahead."""
        for device in DEVICES:
            await self.hub.television(device)
        for key in (self.hub.keys.desk, self.hub.keys.night):
            for command in (
                self.hub.command(POWER, device=DEVICES, issued=_AHEAD, on=True),
                self.hub.command(VOLUME, device=DEVICES, issued=_AHEAD, level=7),
                self.hub.command(INPUT, device=DEVICES, issued=_AHEAD, name="HDMI 2"),
            ):
                await self.hub.admits(self.hub.signed(command, key))
        self._stand("held")

    async def begin(self) -> None:
        """Their hour has come, and all are judged again."""
        self._passes(_AHEAD)
        await self._look()
        self._stand("queued")

    async def end(self) -> None:
        """Nobody has worked them, and their time is over."""
        self._passes(_GOOD_FOR + timedelta(minutes=1))
        await self._look()
        self._stand("expired")

    async def go(self) -> None:
        """Nothing that was signed before them can be good any more: they are forgotten, but for the last one.

        Raises:
            RuntimeError: they are not.
        """
        self._passes(KEPT + timedelta(hours=1))
        self.hub.time_is_known()
        now = self.hub.now
        forgotten = await Forgetting(now.store, now.trust, now.around).look()
        if forgotten < COMMANDS - len(DEVICES):
            raise RuntimeError(f"{forgotten} of {COMMANDS} commands are forgotten")

    def _passes(self, length: timedelta) -> None:
        self.hub.passes(length)
        self.hub.time_is_known()

    async def _look(self) -> None:
        """Have upkeep look until nothing more is due."""
        while await self.hub.now.upkeep.look() == timedelta(0):
            pass

    def _stand(self, state: str) -> None:
        """Make sure of where they stand.

        Raises:
            RuntimeError: somewhere else.
        """
        found = self.hub.rows("SELECT state, count(*) FROM inbox GROUP BY state")
        if found != [(state, COMMANDS)]:
            raise RuntimeError(f"not all are {state}: {found}")
