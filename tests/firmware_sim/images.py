"""Images with boring defaults, and a maker who signs them."""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from firmware_sim.image import SECTOR, Damage, Family, Flaw, Label, Order
from firmware_sim.shelly.image import made as made_shelly
from firmware_sim.tasmota.image import made as made_tasmota
from firmware_sim.zigbee2mqtt.image import Kind
from firmware_sim.zigbee2mqtt.image import made as made_zigbee
from firmware_sim.zigbee2mqtt.models import BORN, ZigbeeModel

MAKER = Ed25519PrivateKey.generate()
PUBLIC = MAKER.public_key().public_bytes_raw()
APP = "PlugSG3"
LAMP = BORN[ZigbeeModel.LAMP].kind


def a_tasmota_image(
    version: str = "14.2.0",
    *,
    size: int = 8 * SECTOR,
    chip: str = "esp8266",
    minimal: bool = False,
    flaw: Flaw = Flaw.NONE,
    damage: Damage = Damage.NONE,
) -> bytes:
    """For any Tasmota."""
    label = Label(
        family=Family.TASMOTA,
        model="tasmota-plug",
        hardware=chip,
        version=version,
        minimal=minimal,
        flaw=flaw,
    )
    return made_tasmota(Order(label=label, size=size, damage=damage))


def a_shelly_image(
    version: str = "1.7.2",
    *,
    app: str = APP,
    hardware: str = "1",
    size: int = 8 * SECTOR,
    flaw: Flaw = Flaw.NONE,
    damage: Damage = Damage.NONE,
) -> bytes:
    """For a Shelly plug, signed by its maker."""
    label = Label(family=Family.SHELLY, model=app, hardware=hardware, version=version, flaw=flaw)
    return made_shelly(Order(label=label, size=size, damage=damage), MAKER)


def a_zigbee_image(
    version: int = 192,
    *,
    kind: Kind = LAMP,
    hardware: int = 1,
    size: int = 8 * SECTOR,
    flaw: Flaw = Flaw.NONE,
    damage: Damage = Damage.NONE,
) -> bytes:
    """For a lamp behind a bridge."""
    label = Label(
        family=Family.ZIGBEE, model="zigbee-lamp", hardware=str(hardware), version=str(version), flaw=flaw
    )
    return made_zigbee(Order(label=label, size=size, damage=damage), kind)
