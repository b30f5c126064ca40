"""Commands and orders that are long over are forgotten, and how far back is remembered (SPEC T4).

A final command is the memory that answers its replay. It is kept until its expiry and the longest validity
that the policy allows have certainly passed: then nothing that was signed before it can still be good, and
its order counts for nothing. What is kept in its place is one moment, the latest expiry that was forgotten:
whatever expires by then is refused as expired, also when the clock is not sure or was set back.

An order to the hub is kept for as long, and the last word on each kind of command for ever. An operation is
kept for much longer, since an intent may be said again in a new command. Fences of locks are never forgotten.
Looks at most once an hour, and writes only if there is something to forget (SPEC Q9).
"""

import asyncio
import logging
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from edgeagent.clock import EPOCH
from edgeagent.errors import TransientError
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.trust import Trust
from edgeagent.store import inbox_over, meta, operations, stops
from edgeagent.store.database import Database, Transaction
from edgeagent.store.inbox_row import Old, Over
from edgeagent.values import dataclass

log = logging.getLogger(__name__)

EVERY: Final = timedelta(hours=1)
"""How often is looked."""
KEPT: Final = timedelta(days=7)
"""For how long after its expiry a command is kept at least, for people to look at."""
OPERATIONS_KEPT: Final = timedelta(days=90)
"""For how long an operation is known after the expiry of the last command that said it."""
BATCH: Final = 100
"""How many are forgotten in one commit."""

# On a hub that never learns the time the commands typed there would stay for ever.
_LOCAL_KEPT: Final = 10_000
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Forgetting:
    """Forgets old commands.

    Attributes:
        store: where they are.
        trust: the policy, which says for how long a command may be good.
        around: the time.
    """

    store: Database
    trust: Trust
    around: Surroundings

    async def run(self) -> None:
        """Look once an hour; ends only by cancellation."""
        while True:
            try:
                await self.look()
            except TransientError as why:
                log.warning("nothing is forgotten", extra={"why": str(why)})
            await asyncio.sleep(EVERY.total_seconds())

    async def look(self) -> int:
        """Forget what is due, a batch in each commit.

        Returns:
            How many commands were forgotten.

        Raises:
            StorageError: the batches before it are forgotten, the rest is as it was.
        """
        policy = self.trust.policy
        if policy is None:
            return 0
        longest = max((rule.longest_validity for rule in policy.actions.values()), default=KEPT)
        clock = self.around.clock
        past = clock.wall().earliest
        limit = Over(
            before=_before(past, max(longest, KEPT)), kept=_LOCAL_KEPT, boot=clock.boot_id, most=BATCH
        )
        while await self.store.read(partial(stops.has_over, before=limit.before)):
            await self.store.write(partial(_forget_orders, limit=limit))
        total = 0
        while await self.store.read(partial(inbox_over.over, limit=replace(limit, most=1))):
            total += await self.store.write(partial(_forget, limit=limit))
        if total:
            before = _before(past, OPERATIONS_KEPT)
            while await self.store.write(partial(operations.forget, before=before, most=BATCH)) == BATCH:
                pass
            log.info("commands forgotten", extra={"count": total})
        return total


def _forget(tx: Transaction, limit: Over) -> int:
    old: list[Old] = inbox_over.over(tx, limit)
    # The time at which a command was typed here may have been a guess, and nobody can send it again.
    latest = max((each.expires_at for each in old if not each.is_local), default=None)
    if latest is not None:
        meta.raise_forgotten(tx, EPOCH + latest * _MICROSECOND)
    inbox_over.forget(tx, old)
    return len(old)


def _forget_orders(tx: Transaction, limit: Over) -> None:
    latest = max(stops.forget(tx, limit.before, limit.most), default=None)
    if latest is not None:
        meta.raise_forgotten(tx, EPOCH + latest * _MICROSECOND)


def _before(moment: datetime, length: timedelta) -> int:
    """Microseconds from 1970 until so long before a moment; a policy may name more than that was."""
    return max(0, (moment - EPOCH - length) // _MICROSECOND)
