"""A Zigbee OTA upgrade file (Zigbee Cluster Library, OTA Upgrade cluster, "OTA file format").

All numbers are little endian.

    offset   bytes
    0        4    0x0BEEF11E
    4        2    header version, 0x0100
    6        2    length of the header: 60 with the two hardware versions
    8        2    field control: bit 2 for the hardware versions
    10       2    manufacturer code
    12       2    image type
    14       4    file version
    18       2    stack version, 2
    20       32   header string
    52       4    total length of the file
    56       2    least hardware version     (field control, bit 2)
    58       2    greatest hardware version
    60       …    elements, each: tag 2, length 4, data. 0x0000 is the program: the label and its filling
                  (``firmware_sim.image``). 0xF000, of the manufacturer's own, is our integrity code: the
                  first sixteen bytes of the SHA-256 of all before this element

The bridge compares manufacturer, image type and version before it offers a file to a device; the device
looks at them again, at its hardware version and at the integrity code. There is no signature.
"""

import hashlib
import struct
from dataclasses import dataclass
from typing import Final

from firmware_sim.fields import InputError
from firmware_sim.image import LABEL, BadImageError, Label, Order, filling, harmed, read

MAGIC: Final = 0x0BEEF11E
_HEAD: Final = struct.Struct("<IHHHHHIH32sIHH")
_ELEMENT: Final = struct.Struct("<HI")
_HEADER_VERSION: Final = 0x0100
_HARDWARE_TOLD: Final = 0x0004
_STACK: Final = 2
_PROGRAM: Final = 0x0000
_INTEGRITY: Final = 0xF000
_CODE: Final = 16
_HIGHEST_VERSION: Final = 2**32 - 1
_HIGHEST_HARDWARE: Final = 2**16 - 1


@dataclass(frozen=True, slots=True)
class Kind:
    """What a Zigbee device is to its images.

    Attributes:
        manufacturer: the manufacturer code.
        image_type: the manufacturer's number of the model.
    """

    manufacturer: int
    image_type: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What the header says.

    Attributes:
        kind: which devices it is for.
        version: the file version.
        least: the least hardware version that it fits.
        greatest: the greatest.
        length: of the whole file.
    """

    kind: Kind
    version: int
    least: int
    greatest: int
    length: int


def made(order: Order, kind: Kind) -> bytes:
    """Make an image; the hardware revision and the version of its label are whole numbers.

    Raises:
        InputError: they are not.
    """
    hardware = _number(order.label.hardware, "hardware", _HIGHEST_HARDWARE)
    version = _number(order.label.version, "version", _HIGHEST_VERSION)
    over = _HEAD.size + 2 * _ELEMENT.size + _CODE
    body = filling(order.label, max(order.size - over, LABEL))
    head = _HEAD.pack(
        MAGIC,
        _HEADER_VERSION,
        _HEAD.size,
        _HARDWARE_TOLD,
        kind.manufacturer,
        kind.image_type,
        version,
        _STACK,
        order.label.model.encode()[:31],
        over + len(body),
        hardware,
        hardware,
    )
    raw = head + _ELEMENT.pack(_PROGRAM, len(body)) + body
    code = hashlib.sha256(raw).digest()[:_CODE]
    return harmed(raw + _ELEMENT.pack(_INTEGRITY, _CODE) + code, order.damage)


def header(raw: bytes) -> Header:
    """Read the header of a file, or of its beginning.

    Raises:
        BadImageError: it is no such file.
    """
    if len(raw) < _HEAD.size:
        raise BadImageError("Not a valid OTA file")
    magic, _, length, control, maker, image_type, version, _, _, total, least, most = _HEAD.unpack_from(raw)
    if magic != MAGIC or length != _HEAD.size or control != _HARDWARE_TOLD:
        raise BadImageError("Not a valid OTA file")
    return Header(kind=Kind(maker, image_type), version=version, least=least, greatest=most, length=total)


def whole(raw: bytes, kind: Kind, hardware: int) -> Label:
    """What the device finds when it has all of it, and again at each boot.

    Raises:
        BadImageError: it is not for this device, or not whole.
    """
    found = header(raw)
    if found.length != len(raw) or len(raw) < _HEAD.size + 2 * _ELEMENT.size + LABEL + _CODE:
        raise BadImageError("INVALID_IMAGE")
    if found.kind != kind or not found.least <= hardware <= found.greatest:
        raise BadImageError("INVALID_IMAGE")
    end = len(raw) - _CODE - _ELEMENT.size
    if hashlib.sha256(memoryview(raw)[:end]).digest()[:_CODE] != bytes(raw[-_CODE:]):
        raise BadImageError("INVALID_IMAGE")
    begin = _HEAD.size + _ELEMENT.size
    label = read(bytes(raw[begin : begin + LABEL]))
    if label.version != str(found.version):
        raise BadImageError("INVALID_IMAGE")
    return label


def _number(text: str, what: str, most: int) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) > most:
        raise InputError(f"{what}: {text!r:.60} is no whole number of at most {most}")
    return int(text)
