"""Lists of devices that are updated, at the operator's door."""

from edgeagent.adapters.admin.route import Asked, Role, Route
from edgeagent.contracts.door import Contract
from edgeagent.contracts.reports.rollouts import CancelRequest, PlanRequest, SteerRequest
from edgeagent.ids import command_id
from edgeagent.ports.rollout_desk import RolloutDesk


def rollout_routes(desk: RolloutDesk) -> list[Route]:
    """Everything that a ``RolloutDesk`` answers."""
    door = _RolloutDoor(desk)
    return [
        Route("GET", "/v1/rollouts", Role.VIEW, door.report),
        Route("GET", "/v1/rollouts/{command}", Role.VIEW, door.one),
        Route("GET", "/v1/rollouts/{command}/plan", Role.VIEW, door.plan_of),
        Route("POST", "/v1/plans", Role.VIEW, door.plan),
        Route("POST", "/v1/rollouts/{command}/pause", Role.OPERATE, door.pause),
        Route("POST", "/v1/rollouts/{command}/resume", Role.OPERATE, door.resume),
        Route("POST", "/v1/rollouts/{command}/abort", Role.OPERATE, door.abort),
        Route("POST", "/v1/rollouts/{command}/cancel", Role.OPERATE, door.cancel),
    ]


class _RolloutDoor:
    def __init__(self, desk: RolloutDesk) -> None:
        self._desk = desk

    async def report(self, _asked: Asked) -> Contract:
        return await self._desk.report()

    async def one(self, asked: Asked) -> Contract:
        return await self._desk.one(command_id(asked.names["command"]))

    async def plan_of(self, asked: Asked) -> Contract:
        return await self._desk.plan_of(command_id(asked.names["command"]))

    async def plan(self, asked: Asked) -> Contract:
        return await self._desk.plan(asked.read(PlanRequest))

    async def pause(self, asked: Asked) -> Contract:
        return await self._desk.pause(
            command_id(asked.names["command"]), asked.read(SteerRequest), asked.actor
        )

    async def resume(self, asked: Asked) -> Contract:
        return await self._desk.resume(
            command_id(asked.names["command"]), asked.read(SteerRequest), asked.actor
        )

    async def abort(self, asked: Asked) -> Contract:
        return await self._desk.abort(
            command_id(asked.names["command"]), asked.read(SteerRequest), asked.actor
        )

    async def cancel(self, asked: Asked) -> Contract:
        return await self._desk.cancel(
            command_id(asked.names["command"]), asked.read(CancelRequest), asked.actor
        )
