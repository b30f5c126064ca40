"""What a hub has written down, as an outsider sees it."""

import json
from functools import partial
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from edgeagent.contracts.command import Command
from edgeagent.contracts.door import decode
from edgeagent.contracts.event import EventType, Stream
from edgeagent.contracts.receipt import Receipt
from edgeagent.core.audit_chain import AuditKind
from edgeagent.ids import CommandId, DeviceId
from edgeagent.store import audit, checkpoints, inbox, outbox, receipts
from edgeagent.store.database import Database
from edgeagent.store.inbox_row import Row
from tests.support.stores import query

_EVERYTHING: Final = (
    "SELECT * FROM inbox ORDER BY run",
    "SELECT * FROM locks",
    "SELECT * FROM operations",
    "SELECT * FROM receipts",
    "SELECT * FROM outbox",
    "SELECT * FROM streams",
    "SELECT * FROM audit ORDER BY number",
    "SELECT * FROM approvals",
    "SELECT * FROM stops",
    "SELECT * FROM steps ORDER BY run, part",
    "SELECT * FROM orders",
)


class Recorded:
    """The records of a hub.

    Attributes:
        path: its database.
    """

    path: Path

    @property
    def store(self) -> Database:
        """Its database, open."""
        raise NotImplementedError

    async def row(self, command: Command | CommandId, device: DeviceId | None = None) -> Row:
        """A command as it stands in the inbox; of one for several devices, on which."""
        name = command.id if isinstance(command, Command) else command
        rows = await self.store.read(partial(inbox.by_command, command=name))
        [row] = [each for each in rows if device in {None, each.device}]
        return row

    async def receipt(self, command: Command | CommandId, device: DeviceId | None = None) -> Receipt | None:
        """A command's result, if it has one; of one for several devices, on which."""
        name = command.id if isinstance(command, Command) else command
        rows = await self.store.read(partial(inbox.by_command, command=name))
        [name_of] = [each.device for each in rows if device in {None, each.device}] or [DeviceId("none")]
        raw = await self.store.read(partial(receipts.load, command=name, device=name_of))
        return None if raw is None else decode(Receipt, raw, limit=8192)

    async def ended(self, command: Command | CommandId) -> Receipt:
        """The result of a command that has ended."""
        receipt = await self.receipt(command)
        assert receipt is not None, f"it stands at {(await self.row(command)).state}"
        return receipt

    async def records(self, kind: EventType) -> list[tuple[int, dict[str, JsonValue]]]:
        """The events of a kind in the stream of records, with their numbers."""
        read = partial(outbox.batch, stream=Stream.RECORD, most=10_000, most_bytes=2**30)
        events = await self.store.read(read)
        return [(each.number, json.loads(each.data)) for each in events if each.type is kind]

    async def audited(self, *kinds: AuditKind) -> list[dict[str, JsonValue]]:
        """What is on record of some kinds, oldest first; the chain is whole."""
        basis = await self.store.read(checkpoints.basis)
        assert basis is not None
        assert await self.store.read(partial(audit.verify, basis=basis)) is None
        rows = await self.store.read(partial(audit.rows, after=0, most=100_000))
        return [
            {"subject": row.subject, "actor": row.actor} | json.loads(row.detail)
            for row, _ in rows
            if row.kind in kinds
        ]

    def contents(self) -> list[list[tuple[object, ...]]]:
        """All that is stored of commands and events: to see that something has changed nothing."""
        return [query(self.path, sql) for sql in _EVERYTHING]

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """What the database holds, as another program sees it."""
        return query(self.path, sql)
