"""What waits for a person, or was stopped by one: checks of ``edgeagent health`` (SPEC O5)."""

from edgeagent.contracts.order import Verb
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.reports.health import Check, Level
from edgeagent.flows.breaker_health import breaker_checks
from edgeagent.flows.rollout_health import rollout_check
from edgeagent.store import inbox, stops
from edgeagent.store.database import Snapshot


def standing_checks(db: Snapshot) -> list[Check]:
    """Whether commands are stopped by anybody, and whether some wait for a person."""
    return [_stopped(db), _approvals(db), *breaker_checks(db), rollout_check(db)]


def _stopped(db: Snapshot) -> Check:
    stopped = [word for word in stops.standings(db) if word.verb is Verb.STOP]
    if not stopped:
        return Check(name="stops", level=Level.OK, summary="no kind of command is stopped")
    told = [f"{word.kind} by {word.by}{f' ({word.why})' if word.why else ''}" for word in stopped]
    return Check(
        name="stops",
        level=Level.CRITICAL if any(word.kind == "all" for word in stopped) else Level.WARNING,
        summary=f"commands are refused: {'; '.join(told)}",
        advice="edgeagent hub stops; edgeagent hub resume KIND",
    )


def _approvals(db: Snapshot) -> Check:
    count = inbox.waiting_for(db, Reason.NEEDS_APPROVAL)
    if not count:
        return Check(name="approvals", level=Level.OK, summary="no command waits for approval")
    return Check(
        name="approvals",
        level=Level.WARNING,
        summary=f"{count} commands wait for approval",
        advice="edgeagent commands list; edgeagent commands approve ID",
    )
