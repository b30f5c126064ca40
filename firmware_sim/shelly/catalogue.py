"""The four devices of the family that are simulated."""

from datetime import timedelta
from enum import StrEnum
from typing import Final

from firmware_sim.firmware import Board, Timing
from firmware_sim.flash import Flash, Layout
from firmware_sim.image import Family, Label, Order
from firmware_sim.shelly.component import Component
from firmware_sim.shelly.cover import Cover
from firmware_sim.shelly.device import Shelly
from firmware_sim.shelly.image import made, whole
from firmware_sim.shelly.light import Light
from firmware_sim.shelly.settings import Identity, ShellySettings
from firmware_sim.shelly.switch import Switch


class ShellyModel(StrEnum):
    """The devices."""

    PLUG = "shelly-plug"
    """Plug S Gen3: ``switch:0`` with a meter, no input."""
    TWO_RELAYS = "shelly-two-relays"
    """Plus 2PM as two relays: ``switch:0`` and ``switch:1`` with meters and inputs."""
    DIMMER = "shelly-dimmer"
    """Dimmer Gen3: ``light:0`` with a meter and an input."""
    COVER = "shelly-cover"
    """Plus 2PM as a cover: ``cover:0`` with a meter and an input. Same id prefix as with two relays."""


_BORN: Final = {
    ShellyModel.PLUG: ("shellyplugsg3", "PlugSG3", "S3PL-00112EU", 3, None),
    ShellyModel.TWO_RELAYS: ("shellyplus2pm", "Plus2PM", "SNSW-102P16EU", 2, "switch"),
    ShellyModel.DIMMER: ("shellydimmerg3", "DimmerG3", "S3DM-0A101WWL", 3, None),
    ShellyModel.COVER: ("shellyplus2pm", "Plus2PM", "SNSW-102P16EU", 2, "cover"),
}


def identity(model: ShellyModel, mac: str) -> Identity:
    """Who a device is.

    Args:
        model: which.
        mac: twelve capital hexadecimal digits.
    """
    prefix, app, order, generation, profile = _BORN[model]
    return Identity(
        id=f"{prefix}-{mac.lower()}",
        mac=mac,
        app=app,
        model=order,
        generation=generation,
        profile=profile,
        buttons=model is not ShellyModel.PLUG,
    )


def shelly(
    model: ShellyModel, mac: str, settings: ShellySettings, board: Board, timing: Timing, seed: str
) -> Shelly:
    """Build a device.

    Args:
        model: which.
        mac: twelve capital hexadecimal digits.
        settings: how it is set up.
        board: the hardware.
        timing: how long things take.
        seed: the run's.
    """
    who = identity(model, mac)
    named = f"{seed}/{who.id}"
    components = _components(model, settings, board, timing.travel, named)
    label = Label(family=Family.SHELLY, model=who.app, hardware=settings.hardware, version=settings.version)
    flash = Flash(board, "flash", Layout(), whole, made(Order(label=label), maker=None))
    return Shelly(board, who, settings, components, timing, named, flash)


def _components(
    model: ShellyModel, settings: ShellySettings, board: Board, travel: timedelta, named: str
) -> list[Component]:
    match model:
        case ShellyModel.PLUG:
            return [Switch(board, 0, named)]
        case ShellyModel.TWO_RELAYS:
            return [Switch(board, 0, named), Switch(board, 1, named)]
        case ShellyModel.DIMMER:
            return [Light(board, 0, named)]
        case ShellyModel.COVER:
            return [Cover(board, 0, named, travel=travel, calibrated=settings.calibrated)]
