"""What a device is, for the choice of its firmware: as the ``[firmware]`` of its profile says."""

from edgeagent.contracts.firmware import Told
from edgeagent.core.gate.world import Appliance
from edgeagent.flows.devices import Device
from edgeagent.ids import ReadingName


def appliance_of(device: Device) -> Appliance:
    """What a device tells of itself; no more than its family where that is not updated over the air."""
    recipe = device.compiled.profile.firmware
    if recipe is None:
        return Appliance(family=device.admitted.profile)
    return Appliance(
        family=device.admitted.profile,
        model=_told(device, recipe.model),
        hardware=_told(device, recipe.hardware),
        version=_reading(device, recipe.running),
    )


def _told(device: Device, where: Told | None) -> str | None:
    if where is None:
        return None
    if where.reading is not None:
        return _reading(device, where.reading)
    value = None if where.parameter is None else device.compiled.parameters.get(where.parameter)
    return None if value is None else str(value)


def _reading(device: Device, name: str) -> str | None:
    held = device.shadow.state.get(ReadingName(name))
    return None if held is None or held.value is None else str(held.value)
