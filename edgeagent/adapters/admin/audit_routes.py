"""The audit trail: look at it, verify it, hand it out."""

from edgeagent.adapters.admin.route import Asked, Role, Route
from edgeagent.contracts.door import Contract
from edgeagent.contracts.reports.audit import ExportWanted, RowsWanted, VerifyWanted
from edgeagent.errors import MalformedError
from edgeagent.ports.audit_desk import AuditDesk

_DIGITS = 15


def audit_routes(desk: AuditDesk) -> list[Route]:
    """Everything that an ``AuditDesk`` answers."""
    door = _AuditDoor(desk)
    return [
        # What is asked for is more than fits a path: asked by POST, it changes nothing all the same.
        Route("POST", "/v1/audit/rows", Role.VIEW, door.rows),
        Route("GET", "/v1/audit/rows/{number}", Role.VIEW, door.row),
        Route("POST", "/v1/audit/verify", Role.VIEW, door.verify),
        Route("POST", "/v1/audit/exports", Role.OPERATE, door.begin_export),
        Route("GET", "/v1/audit/exports/{upto}/after/{after}", Role.OPERATE, door.export_page),
        Route("POST", "/v1/audit/exports/{upto}/done", Role.OPERATE, door.end_export),
    ]


class _AuditDoor:
    def __init__(self, desk: AuditDesk) -> None:
        self._desk = desk

    async def rows(self, asked: Asked) -> Contract:
        return await self._desk.rows(asked.read(RowsWanted))

    async def row(self, asked: Asked) -> Contract:
        return await self._desk.row(_number(asked.names["number"]))

    async def verify(self, asked: Asked) -> Contract:
        return await self._desk.verify(asked.read(VerifyWanted))

    async def begin_export(self, asked: Asked) -> Contract:
        return await self._desk.begin_export(asked.read(ExportWanted), asked.actor)

    async def export_page(self, asked: Asked) -> Contract:
        return await self._desk.export_page(_number(asked.names["after"]), _number(asked.names["upto"]))

    async def end_export(self, asked: Asked) -> None:
        await self._desk.end_export(_number(asked.names["upto"]))


def _number(text: str) -> int:
    """Read a row's number.

    Raises:
        MalformedError: it is none.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise MalformedError("not the number of a row")
    return int(text)
