"""Completes the ids that people type at the hub: the ``Names`` port, answered from store and memory."""

from functools import partial

from edgeagent.core.short_names import meant
from edgeagent.flows.devices import Devices
from edgeagent.ids import CommandId, DeviceId, command_id, device_id
from edgeagent.store import inbox_names
from edgeagent.store.database import Database
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True)
class HubNames:
    """Knows what is called how at this hub."""

    store: Database
    devices: Devices

    async def command(self, typed: str) -> CommandId:
        """The id of a command that has come."""
        checked = command_id(typed)
        return command_id(meant(checked, await self.store.read(partial(inbox_names.begin_so, typed=checked))))

    async def device(self, typed: str) -> DeviceId:
        """The id of a device that is admitted."""
        checked = device_id(typed)
        known = sorted(device.id for device in self.devices.all() if device.id.startswith(checked))
        return device_id(meant(checked, known))
