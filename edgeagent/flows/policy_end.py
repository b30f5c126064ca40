"""The end of the policy's time, put on record once (SPEC C5).

The gate needs nobody to tell it; this is for whoever reads the trail.
"""

import asyncio
import logging
from datetime import timedelta
from typing import Final

from pydantic import JsonValue

from edgeagent.contracts.scalars import timestamp_text
from edgeagent.core.audit_chain import AuditKind
from edgeagent.errors import StorageError
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.trust import Trust
from edgeagent.store import audit
from edgeagent.store import policy as policies
from edgeagent.store.audit import Act
from edgeagent.store.database import Database, Transaction

log = logging.getLogger(__name__)

_EVERY: Final = timedelta(minutes=1)


class PolicyEnd:
    """Looks from time to time whether the policy's time is over."""

    def __init__(self, store: Database, trust: Trust, around: Surroundings) -> None:
        self._store = store
        self._trust = trust
        self._around = around

    async def run(self) -> None:
        """Look; ends only by cancellation."""
        while True:
            try:
                await self.look()
            except StorageError as why:
                log.warning("end of the policy not recorded", extra={"why": str(why)})
            await asyncio.sleep(_EVERY.total_seconds())

    async def look(self) -> bool:
        """Put it on record, if it is certain and not on record yet.

        Returns:
            Whether it was put there now.
        """
        policy, until = self._trust.policy, self._trust.until
        if policy is None or until is None or self._around.clock.wall().earliest < until:
            return False
        detail: dict[str, JsonValue] = {"version": policy.version, "until": timestamp_text(until)}
        act = Act(kind=AuditKind.POLICY_EXPIRED, subject="policy", actor="agent", detail=detail)
        stamp = self._around.stamp()

        def note(tx: Transaction) -> bool:
            is_news = policies.note_over(tx)
            if is_news:
                audit.append(tx, [act], stamp)
            return is_news

        is_news = await self._store.write(note)
        if is_news:
            log.warning("policy expired", extra=dict(detail))
        return is_news
