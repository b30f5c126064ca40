"""A hub that keeps a published policy fresh, and who publishes it.

    async with hub_of(store, repository) as hub:
        assert await hub.refreshes()

The repository is read where it lies, by the verification of the agent; what fetches it has tests of its own
(``tests/adapters/test_metadata_source.py``).
"""

import asyncio
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Final

from edgeagent.adapters.metadata.reading import FolderReader
from edgeagent.adapters.metadata.verifying import published, relisted, stands_behind
from edgeagent.clock import ProvenClock
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.policy import ActionRule, Policy, Role, RoleKind, Tier
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.catalogue import Listing
from edgeagent.flows.policy_end import PolicyEnd
from edgeagent.flows.refreshing import Refreshing, RefreshSettings
from edgeagent.flows.trust import Trust, TrustSettings
from edgeagent.ids import Digest
from edgeagent.ports.links import LinkError, Trouble
from edgeagent.ports.policy_source import Held, Published
from edgeagent.store import audit
from edgeagent.store.database import Database
from tests.flows.building import surroundings
from tests.support.clocks import NOON, ManualReadings
from tests.support.keys import MemoryKey
from tests.support.tuf_repository import Repository

DESK: Final = MemoryKey()
"""Whose commands count by the policies of these tests."""
_ERROR: Final = timedelta(milliseconds=20)


def policy(version: int = 1, **changes: object) -> Policy:
    """A policy that lets the desk switch things, issued at noon and good for a year."""
    fields: dict[str, object] = {
        "version": version,
        "issued_at": NOON,
        "expires_at": NOON + timedelta(days=365),
        "keys": {"desk": DESK.public.hex()},
        "roles": {"desk": Role(kind=RoleKind.COMMAND, keys=frozenset({"desk"}), actions="*", devices="*")},
        "actions": {ActionName.POWER: ActionRule(tier=Tier.LOW)},
    }
    return Policy(**(fields | changes))  # type: ignore[arg-type]  # checked as it is built


class ReadSource:
    """A ``PolicySource`` that reads a repository where it lies.

    Args:
        folder: where that is.
        root: the first root.

    Attributes:
        is_away: whether it cannot be read now.
        asked: how often it was read.
        now: what the present was said to be, last.
    """

    def __init__(self, folder: Path, root: bytes) -> None:
        self._folder = folder
        self._root = root
        self.is_away = False
        self.asked = 0
        self.now: datetime | None = None

    def vouches(self, held: Held) -> bool:
        """See ``PolicySource``."""
        return held.pin == self._pin or stands_behind(self._root, held)

    def relisted(self, held: Held) -> Listing:
        """See ``PolicySource``."""
        return relisted(held)

    async def published(self, held: Held | None, now: datetime) -> Published:
        """See ``PolicySource``."""
        self.asked += 1
        self.now = now
        if self.is_away:
            raise LinkError(Trouble.UNREACHABLE, "no route to host")
        root = held.metadata.root if held is not None and held.pin == self._pin else self._root
        return await asyncio.to_thread(published, FolderReader(self._folder), root, held, now, self._pin)

    @property
    def _pin(self) -> Digest:
        return Digest(sha256(self._root).hexdigest())


@dataclass(slots=True)
class Hub:
    """One start of a hub.

    Attributes:
        store: its database.
        readings: the kernel's clocks.
        clock: what it makes of them.
        source: where its policy comes from.
        trust: what it believes.
        refreshing: keeps that fresh.
        end: looks for the end of the policy's time.
    """

    store: Database
    readings: ManualReadings
    clock: ProvenClock
    source: ReadSource
    trust: Trust
    refreshing: Refreshing
    end: PolicyEnd

    async def refreshes(self) -> bool:
        """Look once for what is published."""
        return await self.refreshing.refresh()

    async def records(self, kind: AuditKind) -> list[dict[str, object]]:
        """The details of the audit rows of a kind."""
        rows = await self.store.read(lambda db: audit.rows(db, after=0, most=1000))
        return [json.loads(row.detail) for row, _ in rows if row.kind == kind]

    async def row(self) -> tuple[object, ...]:
        """The policy's row as it is stored, but for what changes with each look."""
        found = await self.store.read(lambda db: db.row("SELECT * FROM policy"))
        return () if found is None else tuple(found)


async def started(
    store: Database, repository: Repository, *, root: bytes | None = None, is_sure: bool = True
) -> Hub:
    """Start a hub on a database.

    Args:
        store: the database.
        repository: where the policy is published; the hub's clock shows its present.
        root: the pinned root, if that is not the first.
        is_sure: whether the clock is.
    """
    readings = ManualReadings(repository.now)
    clock = ProvenClock(readings)
    if is_sure:
        readings.synchronises(repository.now, _ERROR)
        word = clock.kernels_word()
        assert word is not None
        assert clock.prove(word)
    around = surroundings(clock)
    trust = Trust(store, clock, around, TrustSettings(is_published=True))
    await trust.load(None)
    source = ReadSource(repository.folder, repository.first_root if root is None else root)
    refreshing = Refreshing(store, source, trust, around, RefreshSettings())
    await refreshing.load()
    return Hub(store, readings, clock, source, trust, refreshing, PolicyEnd(store, trust, around))
