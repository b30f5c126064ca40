"""A Tasmota's image, in the shape of an ESP8266 one.

    offset   bytes
    0        4    E9 04 02 40: magic, segments, flash mode, flash size and frequency
    4        4    entry point
    8        4    length of the whole file, little endian
    12       256  the label (``firmware_sim.image``)
    268      …    filling
    end - 4  4    CRC-32 of all before it, little endian

The running firmware looks at the first byte and the length alone (Updater.cpp of the ESP8266 core): it has no
signature, and an image of another model is taken. The CRC and the chip are looked at by the boot (*assumed*:
in the manner of the ESP32's ``esp_image_verify``).
"""

import struct
import zlib
from typing import Final

from firmware_sim.image import LABEL, BadImageError, Label, Order, filling, harmed, read

MAGIC: Final = 0xE9
_HEAD: Final = struct.Struct("<4sII")
_TAIL: Final = struct.Struct("<I")
_BEGIN: Final = b"\xe9\x04\x02\x40"
_ENTRY: Final = 0x40100000


def made(order: Order) -> bytes:
    """Make an image."""
    body = filling(order.label, max(order.size - _HEAD.size - _TAIL.size, LABEL))
    length = _HEAD.size + len(body) + _TAIL.size
    raw = _HEAD.pack(_BEGIN, _ENTRY, length) + body
    return harmed(raw + _TAIL.pack(zlib.crc32(raw)), order.damage)


def taken(raw: bytes) -> Label:
    """What the running firmware finds when it has all of it.

    Raises:
        BadImageError: in the words of its library.
    """
    if raw[:1] != _BEGIN[:1]:
        raise BadImageError("Magic byte is wrong, not 0xE9")
    if len(raw) < _HEAD.size + LABEL + _TAIL.size or _HEAD.unpack_from(raw)[2] != len(raw):
        raise BadImageError("Not Enough Data")
    return read(bytes(raw[_HEAD.size : _HEAD.size + LABEL]))


def whole(raw: bytes, chip: str) -> Label:
    """What the boot finds.

    Raises:
        BadImageError: it cannot be booted.
    """
    label = taken(raw)
    if _TAIL.unpack(raw[-_TAIL.size :])[0] != zlib.crc32(memoryview(raw)[: -_TAIL.size]):
        raise BadImageError("CRC")
    if label.hardware != chip:
        raise BadImageError(f"built for {label.hardware}")
    return label
