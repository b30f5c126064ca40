"""Who works which device, and taking a device from whoever does (SPEC Q5, L3).

A released command goes back into its lane, and its device is read before anything is sent: what its holder
may have sent is not known. Whatever the holder still tries is refused, since its token and fence are gone.
"""

import logging
from datetime import timedelta
from typing import Final

from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.reports.locks import LockReport, LocksReport, ReleaseRequest
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.lifecycle import State
from edgeagent.errors import BrokenInvariantError, UnknownError
from edgeagent.flows.desk import Desk
from edgeagent.flows.losing import taken_over
from edgeagent.flows.surroundings import Surroundings
from edgeagent.ids import DeviceId
from edgeagent.store import audit, inbox, locks
from edgeagent.store.audit import Act
from edgeagent.store.database import Database, Snapshot, Transaction
from edgeagent.store.inbox_row import Moved, Now
from edgeagent.store.locks import Held
from edgeagent.values import dataclass

log = logging.getLogger(__name__)

_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Locks:
    """Shows the locks and releases them."""

    store: Database
    desk: Desk
    around: Surroundings

    async def locks(self) -> LocksReport:
        """All locks that are held."""
        now = self.around.present()
        return LocksReport(
            locks=await self.store.read(lambda db: [_report(db, held, now) for held in locks.held(db, now)])
        )

    async def release(self, device: DeviceId, request: ReleaseRequest, actor: str) -> LockReport:
        """Take a device from whoever works it, and queue its command anew."""
        now, stamp = self.around.present(), self.around.stamp()

        def release(tx: Transaction) -> tuple[Held, LockReport]:
            held = locks.of_device(tx, device, now)
            if held is None:
                raise UnknownError(f"nobody works {device}")
            report = _report(tx, held, now)
            locks.release(tx, locks.Key(device, held.token))
            row = inbox.by_run(tx, held.run)
            act = Act(
                kind=AuditKind.LOCK_RELEASED,
                subject=device,
                actor=actor,
                detail={
                    "command": report.command,
                    "run": held.run,
                    "holder": held.holder,
                    "fence": held.fence,
                    "reason": request.reason,
                },
            )
            acts = [act]
            if row is not None and row.state is State.RUNNING:
                inbox.move(tx, row, Moved(State.QUEUED, Reason.TAKEN_OVER, force_refresh=True))
                acts.append(taken_over(row, actor))
            audit.append(tx, acts, stamp)
            return held, report

        held, report = await self.store.write(release)
        log.warning("lock released", extra={"device": device, "run": held.run, "holder": held.holder})
        self.desk.forget(held.token, device)
        return report


def _report(db: Snapshot, held: Held, now: Now) -> LockReport:
    row = inbox.by_run(db, held.run)
    if row is None:
        raise BrokenInvariantError(f"{held.device} is locked for run {held.run}, which is gone")
    return LockReport(
        device=held.device,
        command=row.command,
        run=held.run,
        action=row.action,
        lane=row.lane,
        holder=held.holder,
        fence=held.fence,
        held=(now.milliseconds - held.since) / 1000,
        left=(held.until - now.milliseconds) / 1000,
        parent=held.parent,
    )
