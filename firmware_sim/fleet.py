"""Many appliances on one event loop: one connection and two tasks each, no thread of their own."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from fnmatch import fnmatchcase
from types import TracebackType
from typing import Self

from firmware_sim.appliance import Appliance
from firmware_sim.board import World
from firmware_sim.fields import InputError
from firmware_sim.specification import Specification


class Fleet:
    """All appliances of a run. ``async with`` plugs them in, waits until all listen, and unplugs them.

    Made on the event loop.

    Args:
        specifications: what they are; ``specification.invented`` makes some.
        world: where they live.
        within: how long they may take to listen.
    """

    def __init__(
        self, specifications: Sequence[Specification], world: World, within: timedelta = timedelta(seconds=30)
    ) -> None:
        self.world = world
        self._within = within
        self.appliances: Mapping[str, Appliance] = {
            entry.id: Appliance(entry, world) for entry in specifications
        }

    async def __aenter__(self) -> Self:
        """Plug all in, and wait until they listen.

        Raises:
            ExceptionGroup: of a TimeoutError for each that does not.
        """
        try:
            for appliance in self.appliances.values():
                appliance.start()
            async with asyncio.TaskGroup() as group:
                for appliance in self.appliances.values():
                    group.create_task(appliance.listening(self._within))
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Unplug all."""
        await self.stop()

    async def stop(self) -> None:
        """Unplug all; the broker publishes their wills."""
        await asyncio.gather(*(appliance.stop() for appliance in self.appliances.values()))

    async def finished(self) -> None:
        """Wait for ever, or until one breaks.

        Raises:
            ExceptionGroup: what broke it.
        """
        async with asyncio.TaskGroup() as group:
            for appliance in self.appliances.values():
                group.create_task(appliance.finished())

    def named(self, pattern: str) -> list[Appliance]:
        """The appliances whose ids match a shell pattern.

        Raises:
            InputError: none does.
        """
        found = [one for one in self.appliances.values() if fnmatchcase(one.id, pattern)]
        if not found:
            raise InputError(f"there is no appliance {pattern!r:.60}")
        return found
