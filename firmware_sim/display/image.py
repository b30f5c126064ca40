"""A display's image.

    offset   bytes
    0        4    "DISP"
    4        32   SHA-256 of all that follows
    36       …    the label and its filling (``firmware_sim.image``)

Running firmware and boot look at the SHA-256, the model and the hardware revision. There is no signature.
"""

import hashlib
from typing import Final

from firmware_sim.image import BadImageError, Label, Order, filling, harmed, read

MODEL: Final = "display"
_MAGIC: Final = b"DISP"
_HEAD: Final = len(_MAGIC) + 32


def made(order: Order) -> bytes:
    """Make an image."""
    body = filling(order.label, order.size - _HEAD)
    return harmed(_MAGIC + hashlib.sha256(body).digest() + body, order.damage)


def whole(raw: bytes, hardware: str) -> Label:
    """What running firmware and boot find.

    Raises:
        BadImageError: it is not taken, and does not boot.
    """
    if raw[: len(_MAGIC)] != _MAGIC:
        raise BadImageError("not an image")
    if hashlib.sha256(memoryview(raw)[_HEAD:]).digest() != bytes(raw[len(_MAGIC) : _HEAD]):
        raise BadImageError("damaged")
    label = read(bytes(raw[_HEAD:]))
    if (label.model, label.hardware) != (MODEL, hardware):
        raise BadImageError(f"made for {label.model} {label.hardware}")
    return label
