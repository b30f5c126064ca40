"""A Shelly's image. The real one is a ZIP archive with a manifest; this is the same in one piece.

    offset   bytes
    0        4    "SHFW"
    4        4    length of the manifest, little endian
    8        64   Ed25519 signature of the manifest, by the maker
    72       …    the manifest: JSON with app, hardware, version, length and sha256 of the body
    …        …    the body: the label and its filling (``firmware_sim.image``)

The running firmware takes only what its maker has signed, for its own model (``app``) and hardware revision,
and answers ``ota_error`` otherwise. The boot looks at the SHA-256 alone. The maker's key is made at run time
and lies beside the images.
"""

import hashlib
import json
import struct
from collections.abc import Mapping
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from firmware_sim.fields import InputError, Json, parse
from firmware_sim.image import BadImageError, Damage, Label, Order, filling, harmed, read

_HEAD: Final = struct.Struct("<4sI64s")
_MAGIC: Final = b"SHFW"
_LONGEST_MANIFEST: Final = 4096


def made(order: Order, maker: Ed25519PrivateKey | None) -> bytes:
    """Make an image.

    Args:
        order: what kind of.
        maker: who signs; None leaves the place empty, which only a factory does.
    """
    label, body = order.label, filling(order.label, order.size)
    told = {
        "app": label.model,
        "hardware": label.hardware,
        "version": label.version,
        "length": len(body),
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    manifest = json.dumps(told, separators=(",", ":")).encode()
    signature = bytes(64) if maker is None else maker.sign(manifest)
    if order.damage is Damage.SIGNATURE:
        stranger = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(manifest).digest())
        signature = stranger.sign(manifest)
    return harmed(_HEAD.pack(_MAGIC, len(manifest), signature) + manifest + body, order.damage)


def taken(raw: bytes, maker: bytes, app: str, hardware: str) -> Label:
    """What the running firmware finds when it has all of it.

    Args:
        raw: the image.
        maker: the public key that the device was born with; empty for one that trusts nobody.
        app: its model.
        hardware: its revision.

    Raises:
        BadImageError: it is not taken.
    """
    label = whole(raw)
    manifest, signature, _ = _parts(raw)
    try:
        Ed25519PublicKey.from_public_bytes(maker).verify(signature, manifest)
    except (InvalidSignature, ValueError) as why:
        raise BadImageError("Signature verification failed") from why
    if label.model != app:
        raise BadImageError(f"Wrong app: {label.model}, expected {app}")
    if label.hardware != hardware:
        raise BadImageError(f"Wrong hardware: {label.hardware}, expected {hardware}")
    return label


def whole(raw: bytes) -> Label:
    """What the boot finds.

    Raises:
        BadImageError: it cannot be booted.
    """
    manifest, _, body = _parts(raw)
    try:
        told = parse(manifest, "manifest")
    except InputError as why:
        raise BadImageError("Invalid manifest") from why
    if not isinstance(told, Mapping) or told.get("sha256") != hashlib.sha256(body).hexdigest():
        raise BadImageError("Checksum mismatch")
    label = read(bytes(body))
    _agree(told, label)
    return label


def _parts(raw: bytes) -> tuple[bytes, bytes, memoryview]:
    if len(raw) < _HEAD.size or raw[: len(_MAGIC)] != _MAGIC:
        raise BadImageError("Invalid firmware file")
    _, length, signature = _HEAD.unpack_from(raw)
    if length > _LONGEST_MANIFEST or _HEAD.size + length > len(raw):
        raise BadImageError("Invalid manifest")
    end = _HEAD.size + length
    return bytes(raw[_HEAD.size : end]), signature, memoryview(raw)[end:]


def _agree(told: Mapping[str, Json], label: Label) -> None:
    """The label is under the manifest's hash, so the two differ only in an image that nobody made here."""
    if (told.get("app"), told.get("hardware"), told.get("version")) != (
        label.model,
        label.hardware,
        label.version,
    ):
        raise BadImageError("Invalid manifest")
