"""The traces of commands."""

from collections.abc import Awaitable, Callable

from edgeagent.adapters.admin.route import Asked, Role, Route
from edgeagent.contracts.door import Contract
from edgeagent.contracts.reports.trace import TraceReport
from edgeagent.ids import CommandId, command_id


def trace_routes(trace: Callable[[CommandId], Awaitable[TraceReport]]) -> list[Route]:
    """The way of a command, as ``trace`` draws it."""

    async def answer(asked: Asked) -> Contract:
        return await trace(command_id(asked.names["command"]))

    return [Route("GET", "/v1/commands/{command}/trace", Role.VIEW, answer)]
