"""The one file that may be installed in the venue: firmware for its Tasmota appliances."""

import hashlib
from functools import cache
from typing import Final

from firmware_sim.image import SECTOR, Family, Label, Order
from firmware_sim.tasmota.image import made

FAMILY: Final = "tasmota"
OLD: Final = "14.1.0"
"""What the appliances are delivered with."""
NEW: Final = "14.2.0"
VERSION: Final = f"{NEW}(release-tasmota)"
"""What an appliance tells that runs it."""
ARTIFACT: Final = f"{FAMILY}-{NEW}"
"""The artifact's id."""
_SIZE: Final = 40 * SECTOR


@cache
def image() -> bytes:
    """Its bytes; the same each time."""
    label = Label(family=Family.TASMOTA, model="tasmota-plug", hardware="esp8266", version=NEW)
    return made(Order(label=label, size=_SIZE))


def sha256() -> str:
    """Of its bytes."""
    return hashlib.sha256(image()).hexdigest()
