"""A hub that holds drills, and parts of a drill that are broken in one way each.

async with drilled_hub(tmp_path) as hub:
    report = await hub.drills(appliance=Thrice).drill(DrillKind.DUPLICATE, ROOT)
    assert not report.passed
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import JsonValue
from typing_extensions import override

from edgeagent.agent.drills import start
from edgeagent.contracts.event import EventType, Stream
from edgeagent.flows.drills.appliance import Appliance
from edgeagent.flows.drills.drilling import Drills
from edgeagent.flows.drills.engine import Engine, Outside, Start
from edgeagent.flows.drills.timepiece import Timepiece
from edgeagent.store.side import ROOM
from tests.flows.building import Hub, new_hub

ROOT: Final = "uid:0 root"
"""Who has drills held here."""

MakeAppliance = Callable[[Timepiece], Appliance]


@dataclass(frozen=True, slots=True)
class DrilledHub:
    """A hub with its drills.

    Attributes:
        hub: the hub.
        folder: where scratch files are made.
    """

    hub: Hub
    folder: Path

    def drills(
        self, *, begin: Start = start, appliance: MakeAppliance = Appliance, room: int = ROOM
    ) -> Drills:
        """What holds drills, of these parts."""
        return Drills(self.hub.store, self.hub.around, self.folder, begin, appliance, room=room)

    def rows(self) -> list[tuple[object, ...]]:
        """What the audit trail has of drills: which, by whom."""
        return self.hub.rows("SELECT subject, actor FROM audit WHERE kind = 'drilled' ORDER BY number")

    async def told(self) -> list[tuple[JsonValue, JsonValue]]:
        """What the cloud is told of drills: which, how it ended."""
        events = await self.hub.told(Stream.RECORD, EventType.DRILLED)
        return [(each.data["drill"], each.data["outcome"]) for each in events]


@asynccontextmanager
async def drilled_hub(folder: Path, *devices: str) -> AsyncIterator[DrilledHub]:
    """A hub that has just started, with these devices."""
    folder.mkdir(exist_ok=True)  # noqa: ASYNC240 - nothing else runs yet
    async with new_hub(folder, *devices) as hub:
        yield DrilledHub(hub, folder / "drill")


class Thrice(Appliance):
    """Does everything three times: also a toggle is seen to have worked."""

    @override
    def act(self, name: str, value: JsonValue) -> None:
        for _ in range(3):
            super().act(name, value)


class Incurable(Appliance):
    """Once it is deaf it stays so."""

    @override
    def is_well(self) -> None:
        pass


class Forgetful(Appliance):
    """Is as new whenever it connects."""

    @override
    def connects(self, say: Callable[[str, bytes], None]) -> None:
        self.shows = {"power": False, "volume": 10, "input": "HDMI 1"}
        super().connects(say)


class Frozen(Appliance):
    """Never shows that it has acted."""

    @override
    async def acts(self) -> None:
        await asyncio.Event().wait()


async def forgets_everything(outside: Outside) -> Engine:
    """Start the engine on a file that has lost all that was in it."""
    for name in ("hub.db", "hub.db-wal", "hub.db-shm"):
        outside.file.with_name(name).unlink(missing_ok=True)
    return await start(outside)


_STUCK_FENCE: Final = """
CREATE TRIGGER stuck_fence AFTER UPDATE OF token ON locks WHEN NEW.token IS NOT NULL
BEGIN UPDATE locks SET fence = OLD.fence WHERE device = NEW.device; END
"""


async def keeps_its_fence(outside: Outside) -> Engine:
    """Start the engine on a file in which the fence of a lock does not grow."""
    engine = await start(outside)
    await engine.store.write(lambda tx: tx.execute(_STUCK_FENCE))
    return engine


async def is_wrong(_: Outside) -> Engine:
    """Have a mistake of ours in the way."""
    raise ZeroDivisionError
