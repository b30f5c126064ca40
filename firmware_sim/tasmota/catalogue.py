"""The four devices of the family that are simulated."""

from enum import StrEnum
from functools import partial
from typing import Final

from firmware_sim.firmware import Board, Timing
from firmware_sim.flash import Flash, Layout
from firmware_sim.image import SECTOR, Family, Label, Order
from firmware_sim.tasmota.device import Tasmota
from firmware_sim.tasmota.image import made, whole
from firmware_sim.tasmota.lamp import Lamp
from firmware_sim.tasmota.outputs import Output, Relay
from firmware_sim.tasmota.sensors import Climate, Energy, Sensor, Sensors
from firmware_sim.tasmota.settings import FlashKind, Identity, TasmotaSettings

_NUMBERED = 26
_MEGABYTE: Final = 1_000_000
# What a full build takes of it, so that no other fits beside it.
_FULL: Final = 600_000


class TasmotaModel(StrEnum):
    """The devices."""

    PLUG = "tasmota-plug"
    """A plug with an energy meter."""
    TWO_RELAYS = "tasmota-two-relays"
    """Two relays, and nothing that measures."""
    LIGHT = "tasmota-light"
    """A lamp; the setting ``light`` says of which kind."""
    SENSOR = "tasmota-sensor"
    """Temperature and humidity, and no output: ``POWER`` is answered with an error."""


def tasmota(
    model: TasmotaModel, mac: str, settings: TasmotaSettings, board: Board, timing: Timing, seed: str
) -> Tasmota:
    """Build a device.

    Args:
        model: which.
        mac: twelve capital hexadecimal digits.
        settings: how it is set up.
        board: the hardware.
        timing: how long things take.
        seed: the run's.
    """
    outputs, drivers, module = _hardware(model, settings, board, f"{seed}/{mac}")
    flash = _delivered(model, settings, board)
    return Tasmota(board, Identity(mac, module), settings, outputs, Sensors(drivers), timing, flash)


def _delivered(model: TasmotaModel, settings: TasmotaSettings, board: Board) -> Flash:
    label = Label(family=Family.TASMOTA, model=model.value, hardware=settings.chip, version=settings.version)
    small = settings.flash is FlashKind.ONE_MEGABYTE
    layout = Layout(_MEGABYTE, twin=False) if small else Layout()
    factory = made(Order(label=label, size=_FULL if small else 16 * SECTOR))
    return Flash(board, "flash", layout, partial(whole, chip=settings.chip), factory)


def _hardware(
    model: TasmotaModel, settings: TasmotaSettings, board: Board, named: str
) -> tuple[list[Output], list[Sensor], str]:
    alone = "POWER1" if _NUMBERED in settings.options else "POWER"
    match model:
        case TasmotaModel.PLUG:
            return [Relay(board, alone)], [Energy(named)], "Nous A1T"
        case TasmotaModel.TWO_RELAYS:
            return [Relay(board, "POWER1"), Relay(board, "POWER2")], [], "Sonoff Dual R3"
        case TasmotaModel.LIGHT:
            return [Lamp(board, alone, settings.light)], [], "Generic Lamp"
        case TasmotaModel.SENSOR:
            return [], [Climate(named)], "Wemos D1 mini"
