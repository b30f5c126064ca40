"""Which appliances there are: written down, or invented from a seed.

A file of appliances, in JSON or TOML:

    [[appliance]]
    model = "tasmota-light"        # see the catalogues of the families
    mac = "02A1B2C3D4E5"
    username = "lamp-1"            # optional; the fleet's otherwise
    password = "…"
    [appliance.settings]           # ShellySettings or TasmotaSettings
    light = "rgbcct"
    state_words = ["AUS", "AN", "UM", "HALT"]

    [[appliance]]
    model = "zigbee2mqtt"          # a bridge; see ZigbeeSettings and ZigbeeModel
    mac = "02A1B2C3D4E6"
    [[appliance.settings.devices]]
    ieee = "0x00158d0001020304"
    model = "zigbee-lamp"
    name = "bar/lamp"
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from firmware_sim.display.device import Display, display_id
from firmware_sim.display.image import MODEL as DISPLAY
from firmware_sim.display.settings import DisplaySettings, display_settings
from firmware_sim.fields import Fields, InputError, Json, parse_file
from firmware_sim.firmware import Board, Firmware, Timing
from firmware_sim.shelly.catalogue import ShellyModel, identity, shelly
from firmware_sim.shelly.settings import ShellySettings, shelly_settings
from firmware_sim.tasmota.catalogue import TasmotaModel, tasmota
from firmware_sim.tasmota.settings import TasmotaSettings, tasmota_settings
from firmware_sim.television.device import Television, television_id
from firmware_sim.television.settings import TelevisionSettings, television_settings
from firmware_sim.zigbee2mqtt.catalogue import BridgeModel, bridge, bridge_id
from firmware_sim.zigbee2mqtt.settings import ZigbeeSettings, zigbee_settings

MODELS: Final = (*ShellyModel, *TasmotaModel)
"""Those that are invented; bridges, displays and hostile televisions are written down."""
HOSTILE: Final = "hostile-television"
"""The model of a hostile television."""
_MAC: Final = re.compile(r"[0-9A-F]{12}", re.ASCII)
MOST: Final = 1000
"""As many appliances as one fleet has at most."""


@dataclass(frozen=True, slots=True)
class Account:
    """How an appliance logs in; empty for not at all."""

    username: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellySpecification:
    """A Shelly."""

    model: ShellyModel
    mac: str
    settings: ShellySettings = field(default_factory=ShellySettings)
    account: Account = field(default_factory=Account)

    @property
    def id(self) -> str:
        """The id it has by birth."""
        return identity(self.model, self.mac).id


@dataclass(frozen=True, slots=True, kw_only=True)
class TasmotaSpecification:
    """A Tasmota."""

    model: TasmotaModel
    mac: str
    settings: TasmotaSettings = field(default_factory=TasmotaSettings)
    account: Account = field(default_factory=Account)

    @property
    def id(self) -> str:
        """The id it has by birth: its MAC address."""
        return self.mac


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeSpecification:
    """A Zigbee2MQTT bridge with the devices behind it."""

    mac: str
    settings: ZigbeeSettings = field(default_factory=ZigbeeSettings)
    account: Account = field(default_factory=Account)

    @property
    def id(self) -> str:
        """What it is called here."""
        return bridge_id(self.mac)


@dataclass(frozen=True, slots=True, kw_only=True)
class TelevisionSpecification:
    """A hostile television."""

    mac: str
    settings: TelevisionSettings = field(default_factory=TelevisionSettings)
    account: Account = field(default_factory=Account)

    @property
    def id(self) -> str:
        """The id it has by birth."""
        return television_id(self.mac)


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplaySpecification:
    """A display of no particular make."""

    mac: str
    settings: DisplaySettings = field(default_factory=DisplaySettings)
    account: Account = field(default_factory=Account)

    @property
    def id(self) -> str:
        """The id it has by birth."""
        return display_id(self.mac)


Specification = (
    ShellySpecification
    | TasmotaSpecification
    | BridgeSpecification
    | TelevisionSpecification
    | DisplaySpecification
)
"""One appliance."""


def build(specification: Specification, board: Board, timing: Timing, seed: str) -> Firmware:
    """The firmware of an appliance, on its board."""
    match specification:
        case ShellySpecification(model=model, mac=mac, settings=settings):
            return shelly(model, mac, settings, board, timing, seed)
        case TasmotaSpecification(model=model, mac=mac, settings=settings):
            return tasmota(model, mac, settings, board, timing, seed)
        case BridgeSpecification(mac=mac, settings=settings):
            return bridge(mac, settings, board, timing, seed)
        case TelevisionSpecification(mac=mac, settings=settings):
            return Television(board, mac, settings, seed)
        case DisplaySpecification(mac=mac, settings=settings):
            return Display(board, mac, settings, timing)


def invented(seed: str, count: int) -> list[Specification]:
    """As many appliances as asked for, all models in turn, with MAC addresses of the seed's own.

    Raises:
        InputError: none, or more than ``MOST``.
    """
    if not 0 < count <= MOST:
        raise InputError(f"{count} appliances, where 1 to {MOST} are possible")
    chance = Random(f"{seed}/macs")
    # Locally administered, and unlike in the half that names and topics are made of.
    halves = chance.sample(range(2**24), count)
    macs = [f"02{chance.randrange(2**16):04X}{half:06X}" for half in halves]
    return [_boring(MODELS[place % len(MODELS)], mac) for place, mac in enumerate(macs)]


def from_file(path: Path) -> list[Specification]:
    """Read a file of appliances.

    Raises:
        InputError: says what is wrong, and where.
    """
    return specifications(parse_file(path), path.name)


def specifications(value: Json, where: str = "appliances") -> list[Specification]:
    """Read appliances: an object with a list ``appliance``, or the list alone.

    Raises:
        InputError: says what is wrong, and where; none at all is wrong too.
    """
    fields = Fields({"appliance": value} if isinstance(value, list) else value, where)
    found = [_specification(entry) for entry in fields.items("appliance")]
    fields.done()
    if not 0 < len(found) <= MOST:
        raise InputError(f"{where}: {len(found)} appliances, where 1 to {MOST} are possible")
    if len({entry.id for entry in found}) != len(found):
        raise InputError(f"{where}: two appliances have one id")
    return found


def _boring(model: ShellyModel | TasmotaModel, mac: str) -> Specification:
    if isinstance(model, ShellyModel):
        return ShellySpecification(model=model, mac=mac)
    return TasmotaSpecification(model=model, mac=mac)


def _specification(fields: Fields) -> Specification:
    named, mac = fields.text("model"), fields.text("mac")
    if _MAC.fullmatch(mac) is None:
        raise InputError(f"{fields.where}.mac: {mac!r:.60} is not twelve capital hexadecimal digits")
    account = Account(fields.text("username", ""), fields.text("password", ""))
    settings = fields.nested("settings")
    fields.done()
    if named in set(ShellyModel):
        owned = shelly_settings(settings)
        return ShellySpecification(model=ShellyModel(named), mac=mac, settings=owned, account=account)
    if named in set(TasmotaModel):
        set_up = tasmota_settings(settings)
        return TasmotaSpecification(model=TasmotaModel(named), mac=mac, settings=set_up, account=account)
    if named == BridgeModel.BRIDGE:
        return BridgeSpecification(mac=mac, settings=zigbee_settings(settings), account=account)
    if named == HOSTILE:
        return TelevisionSpecification(mac=mac, settings=television_settings(settings), account=account)
    if named == DISPLAY:
        return DisplaySpecification(mac=mac, settings=display_settings(settings), account=account)
    possible = ", ".join((*MODELS, *BridgeModel, HOSTILE, DISPLAY))
    raise InputError(f"{fields.where}.model: {named!r:.60} is none of {possible}")
