"""The bridge that is simulated, with the devices behind it."""

from enum import StrEnum

from firmware_sim.firmware import Board, Timing
from firmware_sim.zigbee2mqtt.bridge import Bridge
from firmware_sim.zigbee2mqtt.end_device import EndDevice
from firmware_sim.zigbee2mqtt.settings import ZigbeeSettings, one_of_each


class BridgeModel(StrEnum):
    """What connects to the broker."""

    BRIDGE = "zigbee2mqtt"
    """A bridge; the setting ``devices`` says what is behind it."""


def bridge_id(mac: str) -> str:
    """The id that a bridge has here; the real one has none."""
    return f"zigbee2mqtt-{mac.lower()}"


def bridge(mac: str, settings: ZigbeeSettings, board: Board, timing: Timing, seed: str) -> Bridge:
    """Build a bridge and its devices.

    Args:
        mac: twelve capital hexadecimal digits.
        settings: how it is set up.
        board: the hardware.
        timing: how long things take.
        seed: the run's.
    """
    paired = settings.devices or one_of_each(mac)
    devices = [EndDevice(board, one, f"{seed}/{mac}") for one in paired]
    return Bridge(board, mac, settings, devices, timing)
