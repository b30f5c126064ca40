"""Whether a device has been locked for very long (SPEC Q7).

An update of firmware may take hours. It has bounds of its own, to which the policy holds it.
"""

from datetime import timedelta
from typing import Final

from edgeagent.contracts.reports.health import Check, Level
from edgeagent.flows.watching.since import Since
from edgeagent.ids import DeviceId
from edgeagent.store import locks, updates
from edgeagent.store.database import Snapshot
from edgeagent.store.inbox_row import Now

LONG: Final = timedelta(minutes=15)
"""How long a device may be worked under one lock."""


class LockWatch:
    """Looks at the locks; remembers since when each has been held."""

    def __init__(self) -> None:
        self._held: Since[tuple[DeviceId, int]] = Since()

    def check(self, db: Snapshot, boot: timedelta, now: Now) -> Check:
        """Look at all locks that are held.

        Args:
            db: the database.
            boot: boot time.
            now: the same, as locks count it.
        """
        held = {(each.device, each.fence): each for each in locks.held(db, now)}
        lasted = self._held.look(held, boot)
        long = [held[key] for key, length in lasted.items() if length > LONG]
        if long:
            updating = updates.under_way(db)
            long = [each for each in long if each.run not in updating]
        if not long:
            return Check(name="locks", level=Level.OK, summary=f"{len(held)} devices are being worked")
        told = ", ".join(f"{each.device} by {each.holder} (run {each.run})" for each in long)
        return Check(
            name="locks",
            level=Level.WARNING,
            summary=f"locked for more than 15 min: {told}",
            advice="edgeagent commands list shows what is running; edgeagent commands trace ID",
        )
