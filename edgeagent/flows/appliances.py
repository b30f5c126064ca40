"""What a device is, for the choice of its firmware: as the ``[firmware]`` of its profile says."""

from ipaddress import IPv4Address, IPv6Address, ip_address

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


def address_of(device: Device) -> IPv4Address | IPv6Address | None:
    """Where the device says that it stands in the LAN; None where it does not, or says nothing that can be.

    An address that a device tells of itself is no reason to let it have something: it narrows who else may.
    """
    recipe = device.compiled.profile.firmware
    told = None if recipe is None else _told(device, recipe.address)
    try:
        address = ip_address("" if told is None else told.strip().partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    address = mapped or address
    return None if address.is_unspecified or address.is_multicast else address


def _told(device: Device, where: Told | None) -> str | None:
    if where is None:
        return None
    if where.reading is not None:
        return _reading(device, where.reading)
    value = None if where.parameter is None else device.compiled.parameters.get(where.parameter)
    return None if value is None else str(value)


def _reading(device: Device, name: str) -> str | None:
    value = device.shadow.value(ReadingName(name))
    return None if value is None else str(value)
