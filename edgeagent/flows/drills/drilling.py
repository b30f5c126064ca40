"""Drills on request: held one at a time, on a scratch file of their own, and put on record (SPEC O6).

Of a drill nothing is left but its record: the last result of its kind, a row of the audit trail, an event.
The scratch file lies in a folder of its own in the state directory; what a killed agent has left there is
removed at its next start, and before each drill.
"""

import asyncio
import logging
import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from edgeagent.clock import EPOCH
from edgeagent.contracts.event import EventType, Stream, data_text
from edgeagent.contracts.reports.drills import DrillKind, DrillReport, DrillsReport
from edgeagent.core.audit_chain import AuditKind
from edgeagent.errors import AgentError, RejectedError, StorageError
from edgeagent.flows.drills.engine import Start
from edgeagent.flows.drills.marking import HELD
from edgeagent.flows.drills.standing import standing
from edgeagent.flows.drills.story import Story, UnmetError
from edgeagent.flows.drills.timepiece import Timepiece
from edgeagent.flows.surroundings import Surroundings
from edgeagent.ports.drill_desk import DrillDesk
from edgeagent.store import audit, drills, outbox
from edgeagent.store.audit import Act
from edgeagent.store.database import Database, Transaction
from edgeagent.store.drills import Held
from edgeagent.store.outbox import NewEvent
from edgeagent.store.side import ROOM

if TYPE_CHECKING:
    from edgeagent.flows.drills.appliance import Appliance

log = logging.getLogger(__name__)

LONGEST: Final = timedelta(minutes=1)
"""How long a drill may take."""
_SOON: Final = timedelta(seconds=10)

_WHY: Final = 500
_MEBIBYTE: Final = 1024 * 1024
_MICROSECOND: Final = timedelta(microseconds=1)
_MILLISECOND: Final = timedelta(milliseconds=1)


class Drills(DrillDesk):
    """Holds drills.

    Args:
        store: where they are recorded.
        around: time, and whose hub it is.
        folder: where scratch files are made; nothing else may be there.
        start: starts the engine of a drill.
        appliance: makes the virtual appliance, where that is to be another one.
        room: how many bytes have to be free on the disk.
    """

    def __init__(
        self,
        store: Database,
        around: Surroundings,
        folder: Path,
        start: Start,
        appliance: "Callable[[Timepiece], Appliance] | None" = None,
        *,
        room: int = ROOM,
    ) -> None:
        self._store = store
        self._around = around
        self._folder = folder
        self._start = start
        self._appliance = appliance
        self._room = room
        self._turn = asyncio.Lock()

    @override
    async def drill(self, kind: DrillKind, actor: str) -> DrillReport:
        if self._turn.locked():
            raise RejectedError("another drill is being held: try again when it is over")
        async with self._turn:
            return await self._hold(kind, actor)

    @override
    async def drills(self) -> DrillsReport:
        return DrillsReport(drills=[standing(held) for held in await self._store.read(drills.load)])

    async def close(self) -> None:
        """Let a drill that is being held come to its end, if that is soon; the agent stops."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_SOON.total_seconds()), self._turn:
                pass

    def clear(self) -> None:
        """Remove what a drill has left; blocks. What cannot be removed is told to the log only."""
        try:
            shutil.rmtree(self._folder)
        except FileNotFoundError:
            pass
        except OSError as why:
            log.warning("a drill's files are left", extra={"folder": str(self._folder), "why": str(why)})

    async def _hold(self, kind: DrillKind, actor: str) -> DrillReport:
        clock, story = self._around.clock, Story()
        at, began = clock.wall().best, clock.boot()
        log.info("drill begins", extra={"drill": kind, "actor": actor})
        before = HELD.set(kind)
        try:
            why = (await self._why_failed(kind, story))[:_WHY]
        finally:
            HELD.reset(before)
        took = clock.boot() - began
        held = Held(
            kind=kind,
            at=(at - EPOCH) // _MICROSECOND,
            passed=not why,
            milliseconds=took // _MILLISECOND,
            why=why,
            actor=actor,
        )
        try:
            await self._record(held, len(story.lines))
        except StorageError as unwritten:
            # One that nobody can find in the trail does not count.
            why, recorded = why or f"it is not on record: {unwritten}", False
        else:
            recorded = True
        log.log(
            logging.WARNING if why else logging.INFO,
            "drill is over",
            extra={"drill": kind, "passed": not why, "why": why, "recorded": recorded},
        )
        return DrillReport(
            kind=kind,
            passed=not why,
            why=why,
            at=at,
            seconds=held.milliseconds / 1000,
            recorded=recorded,
            lines=story.lines,
        )

    async def _why_failed(self, kind: DrillKind, story: Story) -> str:
        """Hold a drill on new files; empty when it has passed."""
        making = asyncio.create_task(asyncio.to_thread(self._make_room))
        try:
            await asyncio.shield(making)
            async with asyncio.timeout(LONGEST.total_seconds()):
                await self._tell(kind, story)
        except UnmetError as why:
            return str(why)
        except TimeoutError:
            return f"not over within {LONGEST.total_seconds():.0f} s"
        except (AgentError, OSError) as why:
            return f"it was stopped: {why}"
        except Exception as why:
            # Whatever else goes wrong in the engine is what a drill is for; the agent goes on.
            log.exception("drill failed", extra={"drill": kind})
            return f"the engine failed: {type(why).__name__}; the log has it all"
        finally:
            # A thread goes on whoever has lost patience: what it makes is removed when it has been made.
            await asyncio.gather(making, return_exceptions=True)
            await asyncio.to_thread(self.clear)
        return ""

    async def _tell(self, kind: DrillKind, story: Story) -> None:
        # Eight modules that an agent which holds no drill has no need of.
        from edgeagent.flows.drills.appliance import Appliance
        from edgeagent.flows.drills.kinds import DRILLS
        from edgeagent.flows.drills.rig import Rig

        clock = self._around.clock
        time = Timepiece(clock.boot_id, clock.boot(), clock.wall().best)
        rig = Rig(self._folder / "hub.db", self._start, time, (self._appliance or Appliance)(time))
        try:

            async def held() -> None:
                await rig.starts()
                await DRILLS[kind](rig, story)

            await rig.must_run(held())
        finally:
            await rig.ends()

    def _make_room(self) -> None:
        """Make the folder anew, where the disk has room for it; blocks."""
        self.clear()
        free = shutil.disk_usage(self._folder.parent).free
        if free < self._room:
            # The hub's own commits need what is left.
            wanted = f"a drill wants {self._room // _MEBIBYTE} MiB"
            raise StorageError(f"the disk is nearly full: {free // _MEBIBYTE} MiB are free, {wanted}")
        self._folder.mkdir(mode=0o700)

    async def _record(self, held: Held, lines: int) -> None:
        """Put a drill on record, in one commit."""
        told = {
            "drill": held.kind,
            "outcome": "passed" if held.passed else "failed",
            "milliseconds": held.milliseconds,
            "checks": lines,
            "why": held.why,
        }
        act = Act(kind=AuditKind.DRILLED, subject=held.kind, actor=held.actor, detail={**told})
        event = NewEvent(Stream.RECORD, EventType.DRILLED, None, self._around.event_time(), data_text(told))
        stamp = self._around.stamp()

        def record(tx: Transaction) -> None:
            drills.save(tx, held)
            outbox.append(tx, [event], incarnation=self._around.origin.incarnation)
            audit.append(tx, [act], stamp)

        await self._store.write(record)
        self._around.outbox.stored({Stream.RECORD}, 1)
