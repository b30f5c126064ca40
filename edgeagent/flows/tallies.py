"""What anybody can cause without a key, and repeats: counted by the minute, not written one by one (SPEC T9).

A source is what is known of who sent it: whoever typed it or nobody, for what no known key has signed; the
key, for a command that has come before, that its breaker refuses or that is one too many to be held. The
first of a source is written in the commit of its arrival, so that a single refusal is seen at once. What
follows within a minute is counted in memory and written as one row and one record, with a few samples, when
the minute is over or the agent stops. A flood so costs a row a minute and source. A kill loses the counts
of the minute at most, never the first; and no sender learns anything from them.

A command for several devices counts for each of them.
"""

import logging
from collections.abc import Iterable
from dataclasses import field
from datetime import timedelta
from hashlib import sha256
from typing import Final

from pydantic import JsonValue

from edgeagent.contracts.event import EventType, Stream, data_text
from edgeagent.contracts.reasons import Reason
from edgeagent.core.audit_chain import AuditKind
from edgeagent.errors import StorageError
from edgeagent.flows.bells import Bell, write_when_due
from edgeagent.flows.surroundings import Surroundings
from edgeagent.ids import CommandId
from edgeagent.store import audit, outbox
from edgeagent.store.audit import Act
from edgeagent.store.database import Database, Transaction
from edgeagent.store.outbox import NewEvent
from edgeagent.values import dataclass

log = logging.getLogger(__name__)

MINUTE: Final = timedelta(minutes=1)
"""For how long what a source sends is counted together."""
MOST_SAMPLES: Final = 3
"""How many envelopes of a count are told by their digest."""
BURST: Final = 60
"""How many repeats within a minute are too many to be an answer that was lost."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where something that is counted came from.

    Attributes:
        kind: of the row that tells it: unverified, replayed, refused by a breaker, or one too many.
        actor: who typed it, ``unknown``, or the key that had signed it.
        reason: why it was refused.
    """

    kind: AuditKind
    actor: str
    reason: Reason


@dataclass(slots=True)
class Count:
    """How many came from a source, and the first few.

    Attributes:
        number: how many.
        samples: digest and size of the first envelopes, and the command where it is known.
    """

    number: int = 0
    samples: list[JsonValue] = field(default_factory=list)

    def add(self, other: "Count") -> None:
        """Count those of another."""
        self.number += other.number
        fresh = [each for each in other.samples if each not in self.samples]
        self.samples = [*self.samples, *fresh][:MOST_SAMPLES]


class Counts(dict[Source, Count]):
    """Counts by source."""

    def note(self, source: Source, envelope: bytes, command: CommandId | None = None) -> None:
        """Count one."""
        count = self.setdefault(source, Count())
        sample: dict[str, JsonValue] = {}
        if len(count.samples) < MOST_SAMPLES:
            sample = {"sha256": sha256(envelope).hexdigest(), "bytes": len(envelope)}
            sample |= {} if command is None else {"command": command}
        count.add(Count(1, [sample] if sample else []))

    def copied(self) -> "Counts":
        """The same, to be added to."""
        return Counts({source: Count(each.number, [*each.samples]) for source, each in self.items()})

    def without(self, sources: Iterable[Source]) -> "Counts":
        """Those of all other sources."""
        left = set(sources)
        return Counts({source: count for source, count in self.items() if source not in left})


@dataclass(frozen=True, slots=True)
class Burst:
    """A minute in which very many came.

    Attributes:
        actor: whose key had signed them.
        count: how many.
        at: boot time at which the minute was over.
    """

    actor: str
    count: int
    at: timedelta


@dataclass(slots=True)
class _Minute:
    """What has come since the last row of a source.

    Attributes:
        ends: boot time at which it is written, or the source is quiet again.
        count: what is not written yet.
    """

    ends: timedelta
    count: Count


class Tallies:
    """Counts what is not written one by one.

    Attributes:
        burst: the last minute in which very many known commands came again; None since the start.
    """

    def __init__(self, store: Database, around: Surroundings) -> None:
        self._store = store
        self._around = around
        self._minutes: dict[Source, _Minute] = {}
        self._bell = Bell()
        self.burst: Burst | None = None

    @property
    def open(self) -> frozenset[Source]:
        """The sources of which a first one has been written within the minute."""
        return frozenset(self._minutes)

    def write(self, tx: Transaction, counts: Counts) -> None:
        """Put counts on record: a row and a record event for each source."""
        for source, count in counts.items():
            detail: dict[str, JsonValue] = {"reason": source.reason, "count": count.number}
            act = Act(
                kind=source.kind,
                subject="commands",
                actor=source.actor,
                detail={**detail, "samples": list(count.samples)},
            )
            audit.append(tx, [act], self._around.stamp())
            told = {**detail, "samples": list(count.samples)}
            if source.kind is not AuditKind.COMMANDS_UNVERIFIED:
                told["issuer"] = source.actor
            event = NewEvent(
                Stream.RECORD, EventType.REFUSED, None, self._around.event_time(), data_text(told)
            )
            outbox.append(tx, [event], incarnation=self._around.origin.incarnation)

    def counted(self, counts: Counts, *, unwritten: Iterable[Source]) -> None:
        """Take over what came: of the sources named it is yet to be written, of the others it is."""
        left, now = set(unwritten), self._around.clock.boot()
        for source, count in counts.items():
            minute = self._minutes.setdefault(source, _Minute(now + MINUTE, Count()))
            if source in left:
                minute.count.add(count)
            else:
                self._say(source, count)
        if counts:
            self._bell.ring()

    async def run(self) -> None:
        """Write what is due whenever a minute is over; ends only by cancellation."""
        await write_when_due(self.close_due, self._bell, log)

    async def close_due(self) -> timedelta | None:
        """Write the counts of every minute that is over.

        Returns:
            When the next one is; None while there is none.

        Raises:
            StorageError: nothing is written and nothing is lost.
        """
        now = self._around.clock.boot()
        due = [source for source, minute in self._minutes.items() if minute.ends <= now]
        taken = Counts()
        for source in due:
            count = self._minutes.pop(source).count
            if count.number:
                taken[source] = count
                # Whoever goes on is counted on, so that there is one row a minute and no first one beside it.
                self._minutes[source] = _Minute(now + MINUTE, Count())
        try:
            await self._written(taken)
        except StorageError:
            for source, count in taken.items():
                self._minutes.setdefault(source, _Minute(now, Count())).count.add(count)
                self._minutes[source].ends = now
            raise
        return min((minute.ends - now for minute in self._minutes.values()), default=None)

    def last_words(self, tx: Transaction) -> None:
        """Write everything that is not written yet: the agent stops."""
        left = {source: minute.count for source, minute in self._minutes.items()}
        self.write(tx, Counts({source: count for source, count in left.items() if count.number}))

    async def _written(self, counts: Counts) -> None:
        if not counts:
            return
        await self._store.write(lambda tx: self.write(tx, counts))
        self._around.outbox.stored({Stream.RECORD}, len(counts))
        for source, count in counts.items():
            self._say(source, count)

    def _say(self, source: Source, count: Count) -> None:
        """Log what was written, and notice a burst."""
        fields = {"kind": source.kind, "actor": source.actor, "reason": source.reason, "count": count.number}
        log.warning("commands refused", extra=fields)
        if source.kind is AuditKind.COMMAND_REPLAYED and count.number >= BURST:
            self.burst = Burst(source.actor, count.number, self._around.clock.boot())
