"""Agreeing to commands at the operator's door."""

from edgeagent.adapters.admin.route import Asked, Role, Route
from edgeagent.contracts.door import Contract
from edgeagent.contracts.reports.approvals import ApproveRequest
from edgeagent.ids import command_id
from edgeagent.ports.approver import Approver


def approval_routes(approver: Approver) -> list[Route]:
    """Everything that an ``Approver`` answers."""

    async def approve(asked: Asked) -> Contract:
        command = command_id(asked.names["command"])
        return await approver.approve(command, asked.read(ApproveRequest), asked.actor)

    return [Route("POST", "/v1/commands/{command}/approve", Role.OPERATE, approve)]
