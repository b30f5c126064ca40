"""Giving a command back that is as it was: queued again at once, in one commit, without a loss.

    claimed for somebody who has gone by then      nothing was done with it: it stands as it stood
    left by whoever could not go on with it        its device is read before anything is sent

A loss is counted against a command and its issuer (``losing``); that the hub's own disk fails is no fault of
theirs. Where not even this can be written its run is excused: its lease lapses, and is not counted.
"""

from functools import partial

from edgeagent.contracts.reasons import Reason
from edgeagent.core.lifecycle import State
from edgeagent.core.work import Claim, Later
from edgeagent.errors import StorageError
from edgeagent.flows import claims
from edgeagent.flows.claims import Found, Taker, key_of, running
from edgeagent.flows.losing import Losing, taken_over
from edgeagent.flows.surroundings import Surroundings
from edgeagent.store import audit, inbox, locks
from edgeagent.store.audit import Stamp
from edgeagent.store.database import Database, Transaction
from edgeagent.store.inbox_row import Moved
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True)
class GivingBack:
    """Queues commands again.

    Attributes:
        store: where they are.
        around: time.
        losing: is told of those that cannot be given back for want of a disk.
    """

    store: Database
    around: Surroundings
    losing: Losing

    async def unbegun(self, taker: Taker, found: Found) -> None:
        """Queue a command that was claimed for somebody who has gone.

        Raises:
            StorageError: it is not; its lease lapses.
        """
        await self.store.write(partial(_unbegun, taker, found, self.around.stamp()))

    async def left(self, claim: Claim, later: Later) -> None:
        """Queue a command that its holder could not go on with.

        Raises:
            LostRaceError: it is somebody else's by now.
            StorageError: it is not queued; try again.
        """
        try:
            await self.store.write(partial(_left, claim, later.error, self.around.stamp()))
        except StorageError:
            self.losing.excused.add(claim.run)
            raise
        self.losing.excused.discard(claim.run)


def _unbegun(taker: Taker, found: Found, stamp: Stamp, tx: Transaction) -> None:
    row = found.row
    locks.release(tx, locks.Key(row.device, taker.token))
    inbox.move(tx, running(tx, row.run), Moved(State.QUEUED, row.reason, force_refresh=row.force_refresh))
    audit.append(tx, [claims.queued(row)], stamp)


def _left(claim: Claim, error: str, stamp: Stamp, tx: Transaction) -> None:
    locks.release(tx, key_of(claim))
    row = running(tx, claim.run)
    moved = Moved(State.QUEUED, Reason.TAKEN_OVER, force_refresh=True, error=error or None)
    inbox.move(tx, row, moved)
    audit.append(tx, [taken_over(row, "agent")], stamp)
