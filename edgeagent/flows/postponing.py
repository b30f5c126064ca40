"""Giving a claimed command back, to be taken up again later: one commit, with why and when.

A command that has been tried as often as the policy takes for normal is told as an alert, once; it goes on
being tried, and its device is worked on by others meanwhile (SPEC E3).
"""

import logging
from datetime import timedelta
from typing import Final

from edgeagent.contracts.event import EventType, Stream, data_text
from edgeagent.contracts.reasons import Reason
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.blame import blame_of
from edgeagent.core.lifecycle import State
from edgeagent.core.work import Claim, Later
from edgeagent.flows.breakers import Breakers
from edgeagent.flows.claims import about, fields_of, key_of, running
from edgeagent.flows.stepping import unsent
from edgeagent.flows.surroundings import Surroundings
from edgeagent.store import audit, inbox, locks, outbox
from edgeagent.store.database import Transaction
from edgeagent.store.inbox_row import Moved, Now
from edgeagent.store.outbox import NewEvent
from edgeagent.values import dataclass

log = logging.getLogger(__name__)

_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Postponing:
    """A command that is given back.

    Attributes:
        later: why, and for how long.
        now: the present.
        around: time, instruments, and whose hub it is.
        breakers: count what is tried again.
    """

    later: Later
    now: Now
    around: Surroundings
    breakers: Breakers

    def write(self, claim: Claim, tx: Transaction) -> bool:
        """Release the lock, and have the command wait.

        Returns:
            Whether it has been tried too often by now.

        Raises:
            LostRaceError: the lock is somebody else's; nothing is written.
        """
        later, now = self.later, self.now
        locks.release(tx, key_of(claim))
        if later.unsent:
            unsent(tx, claim.run)
        row = running(tx, claim.run)
        due = None if later.after is None else (now.milliseconds + later.after // _MILLISECOND, now.boot)
        error, refresh = later.error or None, claim.force_refresh
        inbox.move(tx, row, Moved(State.WAITING, later.reason, due, force_refresh=refresh, error=error))
        self.breakers.postponed(tx, row, later.reason)
        act = about(
            claim,
            AuditKind.COMMAND_WAITING,
            {
                "reason": later.reason,
                # Waiting for what is not there is no failure (SPEC E2).
                "blame": blame_of(later.reason) if later.reason is Reason.RETRYING else None,
                "error": later.error,
                "due_in": None if later.after is None else later.after.total_seconds(),
                "attempts": row.attempts,
            },
        )
        audit.append(tx, [act], self.around.stamp())
        if not self._is_too_often(claim, row.attempts):
            return False
        told = {"reason": Reason.RETRY_THRESHOLD, "command": row.command, "attempts": row.attempts}
        data = data_text(told | {"error": later.error})
        event = NewEvent(Stream.RECORD, EventType.ALERT, row.device, self.around.event_time(), data)
        outbox.append(tx, [event], incarnation=self.around.origin.incarnation)
        return True

    def tell(self, claim: Claim, *, too_often: bool) -> None:
        """Log and count what was written."""
        fields = fields_of(claim) | {"reason": self.later.reason, "why": self.later.error}
        log.info("command waits", extra=fields)
        if too_often:
            self.around.metrics.retry_alerts.labels(claim.rule.tier).inc()
            log.warning("command is tried too often", extra=fields)

    def _is_too_often(self, claim: Claim, attempts: int) -> bool:
        """Whether it is this try that has made them too many."""
        is_tried = attempts > claim.attempts and self.later.reason is Reason.RETRYING
        return is_tried and attempts == claim.tier.alert_after
