"""How a bridge is set up by its owner, and which devices are paired with it."""

import re
from dataclasses import dataclass, field
from typing import Final

from firmware_sim.fields import Fields, InputError
from firmware_sim.zigbee2mqtt.models import ZigbeeModel

_IEEE: Final = re.compile(r"0x[0-9a-f]{16}", re.ASCII)
_HIGHEST_VERSION: Final = 2**32 - 1
_HIGHEST_HARDWARE: Final = 2**16 - 1
_LONGEST_NAME: Final = 200
_FULL: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """A device that is paired with the bridge.

    Attributes:
        ieee: its address, ``0x`` and sixteen hexadecimal digits.
        model: which.
        name: the friendly name; the address when it is empty. May hold slashes and spaces.
        version: the file version of its firmware.
        hardware: its hardware version.
        image: where its maker's newest image lies; empty for none.
        battery: per cent that are left, of one that has a battery.
    """

    ieee: str
    model: ZigbeeModel
    name: str = ""
    version: int = 100
    hardware: int = 1
    image: str = ""
    battery: int = 87

    @property
    def friendly(self) -> str:
        """What it is called."""
        return self.name or self.ieee


@dataclass(frozen=True, slots=True, kw_only=True)
class ZigbeeSettings:
    """The owner's choices.

    Attributes:
        base: the base topic.
        devices: which are paired; empty for one of each model.
        availability: whether it is told who is there.
    """

    base: str = "zigbee2mqtt"
    devices: tuple[Paired, ...] = field(default=())
    availability: bool = True


def one_of_each(mac: str) -> tuple[Paired, ...]:
    """One device of each model, with addresses that follow from the bridge's."""
    return tuple(
        Paired(ieee=f"0x{mac.lower()}{place:04x}", model=model, name=model.value.removeprefix("zigbee-"))
        for place, model in enumerate(ZigbeeModel, 1)
    )


def zigbee_settings(fields: Fields) -> ZigbeeSettings:
    """Read settings.

    Raises:
        InputError: names the field; two devices with one address or name are wrong too.
    """
    settings = ZigbeeSettings(
        base=fields.text("base", "zigbee2mqtt"),
        devices=tuple(_paired(entry) for entry in fields.items("devices")),
        availability=fields.flag("availability", default=True),
    )
    fields.done()
    if not settings.base or not _sayable(settings.base):
        raise InputError(f"{fields.where}.base: {settings.base!r:.60} is no topic")
    for taken in ([one.ieee for one in settings.devices], [one.friendly for one in settings.devices]):
        if len(set(taken)) != len(taken):
            raise InputError(f"{fields.where}.devices: two have one address or name")
    return settings


def nameable(name: str) -> bool:
    """Whether a device can be called so: it becomes a part of topics."""
    sayable = _sayable(name) and name.isprintable()
    return 0 < len(name) <= _LONGEST_NAME and sayable and not name.startswith("bridge")


def _paired(fields: Fields) -> Paired:
    device = Paired(
        ieee=fields.text("ieee"),
        model=fields.choice("model", ZigbeeModel),
        name=fields.text("name", ""),
        version=fields.whole("version", 100),
        hardware=fields.whole("hardware", 1),
        image=fields.text("image", ""),
        battery=fields.whole("battery", 87),
    )
    fields.done()
    if _IEEE.fullmatch(device.ieee) is None:
        raise InputError(f"{fields.where}.ieee: {device.ieee!r:.60} is no address")
    if not nameable(device.friendly):
        raise InputError(f"{fields.where}.name: {device.name!r:.60} cannot be a part of topics")
    if device.version > _HIGHEST_VERSION or device.hardware > _HIGHEST_HARDWARE:
        raise InputError(f"{fields.where}: version or hardware is too high")
    if not 0 < device.battery <= _FULL:
        raise InputError(f"{fields.where}.battery: 1 to {_FULL}")
    return device


def _sayable(text: str) -> bool:
    return not set(text) & set("+#\0") and not text.startswith(("/", "$")) and not text.endswith("/")
