"""What every image of a firmware has, whatever its family wraps around it.

An image is a label, which says what it is, and a filling, which is as long as was asked for and no more
than one sector repeated, so that megabytes cost nothing. The same label and size give the same bytes on any
machine. The families' wrappings are in the ``image`` of each family's room:

    family       what the running firmware looks at before it takes one       what the boot looks at
    tasmota      the first byte, the length, the room it needs                its CRC-32, the chip
    shelly       the maker's signature, the model, the hardware revision      its SHA-256
    display      the SHA-256, the model, the hardware revision                the same
    zigbee       manufacturer, image type, version, hardware, length          its integrity code

So a Tasmota takes what it cannot run, as the real one does, and it is the boot that finds out.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final

from firmware_sim.fields import Fields, InputError, parse

SECTOR: Final = 4096
"""Bytes that flash takes at once."""
LABEL: Final = 256
"""Bytes that a label takes."""


class Family(StrEnum):
    """Whose."""

    TASMOTA = "tasmota"
    SHELLY = "shelly"
    ZIGBEE = "zigbee"
    DISPLAY = "display"


class Flaw(StrEnum):
    """What is wrong with a program although its image is whole."""

    NONE = "none"
    """Nothing."""
    CRASH = "crash"
    """It never comes up."""
    UNSTABLE = "unstable"
    """It comes up, tells its version, and reboots a while later, for ever."""


class Damage(StrEnum):
    """What is wrong with an image."""

    NONE = "none"
    """Nothing."""
    MAGIC = "magic"
    """It does not begin as it should."""
    CHECKSUM = "checksum"
    """One bit of its filling is another one; signature and header are whole."""
    SIGNATURE = "signature"
    """Somebody else has signed it; a family without signatures does not notice."""
    TRUNCATED = "truncated"
    """Its second half is missing."""


class BadImageError(Exception):
    """What was read is no image for this device; the message says why, in the firmware's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What an image says of itself.

    Attributes:
        family: whose.
        model: of which model; Tasmota does not look at it.
        hardware: the hardware revision; for Tasmota the chip.
        version: as the family counts: ``14.2.0``, ``1.7.2``, ``192``.
        minimal: Tasmota's small build that only serves to install the large one.
        flaw: what its program does wrong.
    """

    family: Family
    model: str
    hardware: str
    version: str
    minimal: bool = False
    flaw: Flaw = Flaw.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """An image to be made.

    Attributes:
        label: what it says of itself.
        size: how many bytes it has at least, before any are cut off.
        damage: what is wrong with it.
    """

    label: Label
    size: int = 16 * SECTOR
    damage: Damage = Damage.NONE


def written(label: Label) -> bytes:
    """The label as it stands in an image: JSON, filled up with NUL.

    Raises:
        InputError: it is too long.
    """
    told = {
        "family": label.family.value,
        "model": label.model,
        "hardware": label.hardware,
        "version": label.version,
        "minimal": label.minimal,
        "flaw": label.flaw.value,
    }
    raw = json.dumps(told, separators=(",", ":")).encode()
    if len(raw) >= LABEL:
        raise InputError(f"label: {len(raw)} bytes, where {LABEL - 1} are possible")
    return raw.ljust(LABEL, b"\0")


def read(raw: bytes) -> Label:
    """A label as it stands in an image.

    Raises:
        BadImageError: there is none.
    """
    try:
        fields = Fields(parse(raw[:LABEL].rstrip(b"\0").decode(), "label"), "label")
        label = Label(
            family=fields.choice("family", Family),
            model=fields.text("model"),
            hardware=fields.text("hardware"),
            version=fields.text("version"),
            minimal=fields.flag("minimal", default=False),
            flaw=fields.choice("flaw", Flaw, Flaw.NONE),
        )
        fields.done()
    except (InputError, UnicodeDecodeError) as why:
        raise BadImageError("no label") from why
    return label


def filling(label: Label, size: int) -> bytes:
    """The label, and as much filling behind it as makes ``size`` bytes."""
    head = written(label)
    block = Random(head).randbytes(SECTOR)
    rest = max(size - len(head), 0)
    return head + (block * (rest // SECTOR + 1))[:rest]


def harmed(raw: bytes, damage: Damage) -> bytes:
    """An image with this damage, as far as it is one of bytes."""
    match damage:
        case Damage.MAGIC:
            return b"<htm" + raw[4:]
        case Damage.CHECKSUM:
            # In the filling: header and label stay as they are. The last bytes may be a check themselves.
            place = len(raw) - LABEL // 2
            return raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        case Damage.TRUNCATED:
            return raw[: len(raw) // 2]
        case Damage.NONE | Damage.SIGNATURE:
            return raw
