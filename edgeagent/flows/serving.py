"""What devices fetch from the hub, and who tries to: on record, counted by the minute.

The first fetch of a file by a device is written at once, what follows within a minute as one row, and so are
all who are turned away, with how often and why and the first few addresses. However hard a television hammers
at the door, it costs a row a minute. A kill loses the counts of the minute at most.
"""

import logging
from collections import Counter
from dataclasses import field
from datetime import timedelta
from typing import Final

from pydantic import JsonValue

from edgeagent.contracts.serving import Turned
from edgeagent.core.audit_chain import AuditKind
from edgeagent.errors import StorageError
from edgeagent.flows.bells import Bell, write_when_due
from edgeagent.flows.surroundings import Surroundings
from edgeagent.ids import Digest
from edgeagent.ports.artifact_site import Fetch
from edgeagent.store import audit
from edgeagent.store.audit import Act
from edgeagent.store.database import Database, Transaction
from edgeagent.values import dataclass

log = logging.getLogger(__name__)

MINUTE: Final = timedelta(minutes=1)
"""For how long what happens is counted together."""
MOST_ADDRESSES: Final = 3
"""How many addresses of a count are told."""
_NOBODYS: Final = "artifacts"


@dataclass(frozen=True, slots=True)
class Topic:
    """What is counted together.

    Attributes:
        kind: of the row.
        subject: the device that fetched; ``artifacts`` for those who were turned away.
        digest: of the file; None for those.
    """

    kind: AuditKind
    subject: str
    digest: Digest | None = None


@dataclass(slots=True)
class Count:
    """What has come of it since its last row.

    Attributes:
        ends: boot time at which it is written, or forgotten when nothing more has come.
        ways: how often, by how it ended or why it was turned away.
        sent: bytes.
        addresses: the first few who came.
    """

    ends: timedelta
    ways: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    addresses: list[str] = field(default_factory=list)

    def add(self, way: str, address: str, sent: int) -> None:
        """Count one."""
        self.ways[way] += 1
        self.sent += sent
        if address not in self.addresses and len(self.addresses) < MOST_ADDRESSES:
            self.addresses.append(address)

    def act(self, topic: Topic) -> Act:
        """The row that tells it."""
        detail: dict[str, JsonValue] = {"count": self.ways.total(), "ways": dict(sorted(self.ways.items()))}
        detail["addresses"] = list(self.addresses)
        if topic.digest is not None:
            detail |= {"sha256": topic.digest, "bytes": self.sent}
        return Act(kind=topic.kind, subject=topic.subject, actor="lan", detail=detail)


class Serving:
    """The ``SiteWitness`` of the running agent."""

    def __init__(self, store: Database, around: Surroundings) -> None:
        self._store = store
        self._around = around
        self._counts: dict[Topic, Count] = {}
        self._bell = Bell()

    def served(self, fetch: Fetch) -> None:
        """Note a fetch that is over."""
        metrics = self._around.metrics
        metrics.site_requests.labels(fetch.ended).inc()
        metrics.site_bytes.inc(fetch.sent)
        topic = Topic(AuditKind.ARTIFACT_SERVED, fetch.device, fetch.digest)
        self._note(topic, fetch.ended, fetch.address, fetch.sent)

    def turned_away(self, why: Turned, address: str) -> None:
        """Note that somebody was turned away."""
        self._around.metrics.site_requests.labels(why).inc()
        self._note(Topic(AuditKind.ARTIFACT_NOT_SERVED, _NOBODYS), why, address, 0)

    def standing(self, offers: int) -> None:
        """Note how many offers there are now."""
        self._around.metrics.site_offers.set(offers)

    async def run(self) -> None:
        """Write what is due; ends only by cancellation."""
        await write_when_due(self.close_due, self._bell, log)

    async def close_due(self) -> timedelta | None:
        """Write what is due.

        Returns:
            When the next is; None while there is none.

        Raises:
            StorageError: nothing is written and nothing is lost.
        """
        now = self._around.clock.boot()
        due = {topic: count for topic, count in self._counts.items() if count.ends <= now}
        taken = {topic: count for topic, count in due.items() if count.ways}
        for topic in due:
            del self._counts[topic]
        # Whatever comes from now on, the writing itself included, is of the next minute.
        self._counts |= {topic: Count(now + MINUTE) for topic in taken}
        try:
            if taken:
                await self._store.write(lambda tx: self._write(tx, taken))
        except StorageError:
            for topic, count in taken.items():
                self._give_back(topic, count)
            raise
        return min((count.ends - now for count in self._counts.values()), default=None)

    def last_words(self, tx: Transaction) -> None:
        """Write everything that is not written yet: the agent stops."""
        self._write(tx, {topic: count for topic, count in self._counts.items() if count.ways})

    def _write(self, tx: Transaction, counts: dict[Topic, Count]) -> None:
        audit.append(tx, [count.act(topic) for topic, count in counts.items()], self._around.stamp())

    def _note(self, topic: Topic, way: str, address: str, sent: int) -> None:
        if topic not in self._counts:
            self._counts[topic] = Count(self._around.clock.boot())
            self._bell.ring()
        self._counts[topic].add(way, address, sent)

    def _give_back(self, topic: Topic, count: Count) -> None:
        """Take a count that was not written together with what has come since."""
        since = self._counts.get(topic)
        if since is not None:
            count.ways.update(since.ways)
            count.sent += since.sent
            count.addresses = [*dict.fromkeys([*count.addresses, *since.addresses])][:MOST_ADDRESSES]
        self._counts[topic] = count
