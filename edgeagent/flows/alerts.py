"""Calling for a person: alerts, raised once, told again once a day, cleared (SPEC O4, Q7).

    seen twice ──> raised ──a day──> standing ──not seen twice──> cleared
                     ^                                               │
                     └────── not sooner than after a while ──────────┘

What health finds is looked at each minute. Each turn is an event, an audit row and the row that remembers
it, in one commit: a restart tells nothing again. However fast something comes and goes, an alert is told a
bounded number of times.

Not seen is what was looked at and found well: what nobody could look at clears nothing. Some checks remember,
and are well after a start until they have seen enough again; what stood before it is not cleared until then.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import timedelta
from typing import Final

from edgeagent.clock import EPOCH
from edgeagent.contracts.alerts import Alert, AlertTurn
from edgeagent.contracts.event import EventType, Stream, data_text
from edgeagent.contracts.reports.health import Check, HealthReport, Level
from edgeagent.contracts.scalars import timestamp_text
from edgeagent.core.audit_chain import AuditKind
from edgeagent.errors import TransientError
from edgeagent.flows.surroundings import Surroundings
from edgeagent.ids import DeviceId
from edgeagent.store import alerts, audit, outbox
from edgeagent.store.alerts import Told
from edgeagent.store.audit import Act
from edgeagent.store.database import Database, Transaction
from edgeagent.store.outbox import NewEvent
from edgeagent.values import dataclass

log = logging.getLogger(__name__)

CHECKS: Final = {
    "stuck": Alert.WORK_STUCK,
    "workers": Alert.WORKER_UNHEALTHY,
    "worker": Alert.WORKER_UNHEALTHY,
    "lanes": Alert.LANE_BEHIND,
    "locks": Alert.LOCK_HELD,
    "draining": Alert.OUTBOX_STUCK,
    "replays": Alert.REPLAY_BURST,
    "dead_letters": Alert.DEAD_LETTERS,
    "certificates": Alert.CERTIFICATE_ENDING,
    "identity": Alert.CERTIFICATE_ENDING,
    "policy": Alert.POLICY_ENDING,
    "cloud-certificate": Alert.CERTIFICATE_ENDING,
    "disk": Alert.DISK_LOW,
    "pages": Alert.DATABASE_DAMAGED,
    "memory": Alert.MACHINE_STRAINED,
    "temperature": Alert.MACHINE_STRAINED,
    "writes": Alert.MACHINE_STRAINED,
    "broker-sends": Alert.BROKER_BROKEN,
}
"""Which check of health calls for which alert."""
EVERY: Final = timedelta(minutes=1)
"""How often health is looked at."""
AGAIN: Final = timedelta(days=1)
"""How often one that goes on is told."""
QUIET: Final = timedelta(minutes=30)
"""How long after it was told last one is not raised again."""
LOOKS: Final = 2
"""How often in a row something is to be seen, or not, before it counts."""
SURE: Final = timedelta(hours=1)
"""How long a start clears nothing that stood before it: no check takes longer to see it again."""

_BAD: Final = (Level.WARNING, Level.CRITICAL)
_MICROSECOND: Final = timedelta(microseconds=1)
_WORDS: Final = 500


@dataclass(slots=True)
class Alerts:
    """Raises and clears alerts.

    Attributes:
        store: the database.
        around: time, and whose hub it is.
        look: looks at the hub's health.
    """

    store: Database
    around: Surroundings
    look: Callable[[], Awaitable[HealthReport]]
    _seen: Counter[Alert] = field(default_factory=Counter)
    _gone: Counter[Alert] = field(default_factory=Counter)
    _before: frozenset[Alert] = frozenset()
    _sure_from: timedelta | None = None

    async def run(self) -> None:
        """Look each minute; ends only by cancellation."""
        while True:
            await asyncio.sleep(EVERY.total_seconds())
            try:
                await self.compare((await self.look()).checks)
            except TransientError as why:
                log.warning("alerts not stored", extra={"why": str(why)})

    async def compare(self, checks: Iterable[Check]) -> None:
        """Hold what was found against what was told.

        Raises:
            StorageError: nothing was told; it is the next time.
        """
        watched = [each for each in checks if each.name in CHECKS]
        bad = _found_bad(watched)
        self._count(bad, _found_well(watched))
        told = await self.store.read(alerts.load)
        self._inherit(told)
        turns = {alert: turn for alert in Alert if (turn := self._turn(alert, told.get(alert))) is not None}
        if not turns:
            return

        def tell(tx: Transaction) -> None:
            for alert, turn in turns.items():
                self._tell(tx, alert, turn, told.get(alert), bad.get(alert))

        await self.store.write(tell)
        self.around.outbox.stored({Stream.RECORD}, len(turns))
        for alert, turn in turns.items():
            metrics = self.around.metrics
            metrics.alerts.labels(alert).inc(int(turn is AlertTurn.RAISED))
            metrics.alerts_standing.labels(alert).set(int(turn is not AlertTurn.CLEARED))
            words = bad[alert].summary if alert in bad else ""
            log.warning("alert", extra={"alert": alert, "turn": turn, "words": words})

    def _count(self, seen: Container[Alert], gone: Container[Alert]) -> None:
        """Count how often in a row each was seen, and not."""
        for alert in Alert:
            self._seen[alert] = self._seen[alert] + 1 if alert in seen else 0
            self._gone[alert] = self._gone[alert] + 1 if alert in gone else 0

    def _inherit(self, told: Mapping[Alert, Told]) -> None:
        """Take over what stands, and for a while keep in mind what of it stood before this start."""
        standing = {alert for alert, each in told.items() if each.standing}
        for alert in Alert:
            self.around.metrics.alerts_standing.labels(alert).set(int(alert in standing))
        now = self.around.clock.boot()
        if self._sure_from is None:
            self._sure_from, self._before = now + SURE, frozenset(standing)
        elif now >= self._sure_from:
            self._before = frozenset()

    def _turn(self, alert: Alert, told: Told | None) -> AlertTurn | None:
        """What is to be told of an alert now."""
        # A clock that was set back does not keep anything quiet for longer.
        since = AGAIN if told is None else abs(self._now() - told.at) * _MICROSECOND
        if told is not None and told.standing:
            if self._gone[alert] >= LOOKS and alert not in self._before:
                return AlertTurn.CLEARED
            return AlertTurn.STANDING if self._seen[alert] and since >= AGAIN else None
        return AlertTurn.RAISED if self._seen[alert] >= LOOKS and since >= QUIET else None

    def _tell(
        self, tx: Transaction, alert: Alert, turn: AlertTurn, before: Told | None, check: Check | None
    ) -> None:
        """Put a turn on record, send it up, and remember it."""
        now = self._now()
        since = now if turn is AlertTurn.RAISED or before is None else before.since
        told = {
            "turn": turn,
            "since": timestamp_text(EPOCH + since * _MICROSECOND),
            "level": Level.OK if check is None else check.level,
            "words": "" if check is None else check.summary[:_WORDS],
        }
        _record(tx, self.around, alert, told)
        alerts.save(tx, alert, Told(turn is not AlertTurn.CLEARED, since, now))

    def _now(self) -> int:
        return self.around.event_time().at


def _found_bad(watched: Iterable[Check]) -> dict[Alert, Check]:
    """What is seen, by what it calls for; where two checks call for the same, the worse one speaks."""
    found = sorted((each for each in watched if each.level in _BAD), key=lambda each: _BAD.index(each.level))
    return {CHECKS[each.name]: each for each in found}


def _found_well(watched: Sequence[Check]) -> set[Alert]:
    """Of what is not seen, that of which it is known: every check that calls for it was made, and is well.

    Those that call for the same are made together or not at all; what a hub has no need of is never made.
    """
    unsure = {CHECKS[each.name] for each in watched if each.level is not Level.OK}
    return {CHECKS[each.name] for each in watched} - unsure


def tell_at_once(
    tx: Transaction, around: Surroundings, alert: Alert, words: str, device: DeviceId | None = None
) -> None:
    """Tell of something that has happened, in the commit that found it.

    Only for what cannot be made to happen often: nothing bounds it here.
    """
    around.metrics.alerts.labels(alert).inc()
    _record(tx, around, alert, {"turn": AlertTurn.RAISED, "words": words[:_WORDS]}, device)


def _record(
    tx: Transaction, around: Surroundings, alert: Alert, told: dict[str, str], device: DeviceId | None = None
) -> None:
    data = data_text({"reason": alert, **told})
    event = NewEvent(Stream.RECORD, EventType.ALERT, device, around.event_time(), data)
    outbox.append(tx, [event], incarnation=around.origin.incarnation)
    act = Act(
        kind=AuditKind.ALERT,
        subject=device or around.origin.hub,
        actor="agent",
        detail={"alert": alert, **told},
    )
    audit.append(tx, [act], around.stamp())
