"""``python -m firmware_sim image``: makes an image of a firmware.

    python -m firmware_sim image --family tasmota --version 14.2.0 tasmota.bin
    python -m firmware_sim image --family tasmota --version 14.2.0 --minimal tasmota-minimal.bin
    python -m firmware_sim image --family shelly --model PlugSG3 --version 1.7.2 plug.fw
    python -m firmware_sim image --family display --version 1.1.0 display.img
    python -m firmware_sim image --family zigbee --model zigbee-lamp --version 192 lamp.ota

The same arguments make the same bytes, with the same maker. A Shelly's maker signs with ``maker.key`` beside
the image, which is made when it is not there, as is ``maker.pub``, the file that a fleet is given with
``--maker``. On stdout one JSON line: ``{"image": {"file", "bytes", "sha256", …}}``.

``--broken`` takes one word of ``image.Damage`` (what is wrong with the bytes) or of ``image.Flaw`` (what its
program does wrong).

Exit status: 0 made; 1 a file cannot be written; 2 the arguments are wrong.
"""

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from firmware_sim.display.image import MODEL
from firmware_sim.display.image import made as made_display
from firmware_sim.fields import InputError
from firmware_sim.image import SECTOR, Damage, Family, Flaw, Label, Order
from firmware_sim.shelly.image import made as made_shelly
from firmware_sim.tasmota.image import made as made_tasmota
from firmware_sim.zigbee2mqtt.image import made as made_zigbee
from firmware_sim.zigbee2mqtt.models import BORN, ZigbeeModel

_KEY: Final = 32
_LARGEST: Final = 2**30
_BROKEN: Final = [
    *(word.value for word in Damage if word.value != "none"),
    Flaw.CRASH.value,
    Flaw.UNSTABLE.value,
]
# When nothing else is asked for.
_MODELS: Final[Mapping[Family, str]] = {
    Family.TASMOTA: "tasmota-plug",
    Family.SHELLY: "PlugSG3",
    Family.ZIGBEE: ZigbeeModel.LAMP.value,
    Family.DISPLAY: MODEL,
}
_CHIP: Final = "esp8266"
_REVISION: Final = "1"


def main(arguments: Sequence[str]) -> int:
    """Make an image; see the module's docstring."""
    asked = _parser().parse_args(arguments)
    try:
        order = _order(asked)
        raw = _made(order, asked.out.parent if asked.key is None else asked.key)
        asked.out.write_bytes(raw)
    except InputError as why:
        sys.stderr.write(f"firmware_sim image: {why}\n")
        return 2
    except OSError as why:
        sys.stderr.write(f"firmware_sim image: {why}\n")
        return 1
    label = order.label
    told = {
        "file": str(asked.out),
        "family": label.family.value,
        "model": label.model,
        "hardware": label.hardware,
        "version": label.version,
        "bytes": len(raw),
        "sha256": hashlib.sha256(raw).hexdigest(),
    }
    sys.stdout.write(json.dumps({"image": told}) + "\n")
    return 0


def maker(folder: Path) -> Ed25519PrivateKey:
    """The maker whose key lies in a folder; a new one when there is none.

    Raises:
        InputError: what lies there is no key.
        OSError: it can be neither read nor written.
    """
    path = folder / "maker.key"
    if not path.exists():
        key = Ed25519PrivateKey.generate()
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(key.private_bytes_raw().hex() + "\n")
        (folder / "maker.pub").write_text(key.public_key().public_bytes_raw().hex() + "\n", "ascii")
        return key
    return Ed25519PrivateKey.from_private_bytes(_hexadecimal(path))


def public_key(path: Path) -> bytes:
    """The key in a ``maker.pub``.

    Raises:
        InputError: there is none.
    """
    try:
        return _hexadecimal(path)
    except OSError as why:
        raise InputError(f"{path}: {why.strerror}") from why


def _hexadecimal(path: Path) -> bytes:
    try:
        raw = bytes.fromhex(path.read_text("ascii").strip())
    except ValueError as why:
        raise InputError(f"{path}: no key in hexadecimal digits") from why
    if len(raw) != _KEY:
        raise InputError(f"{path}: {len(raw)} bytes, where a key has {_KEY}")
    return raw


def _order(asked: argparse.Namespace) -> Order:
    family = Family(asked.family)
    if not 0 < asked.size <= _LARGEST:
        raise InputError(f"--size: {asked.size}, where 1 to {_LARGEST} bytes are possible")
    if asked.minimal and family is not Family.TASMOTA:
        raise InputError("--minimal: only Tasmota has such a build")
    if asked.broken == Damage.SIGNATURE and family is not Family.SHELLY:
        raise InputError("--broken signature: only a Shelly has one")
    broken = asked.broken
    label = Label(
        family=family,
        model=asked.model or _MODELS[family],
        hardware=asked.hardware or (_CHIP if family is Family.TASMOTA else _REVISION),
        version=asked.version,
        minimal=asked.minimal,
        flaw=Flaw(broken) if broken in set(Flaw) else Flaw.NONE,
    )
    return Order(
        label=label, size=asked.size, damage=Damage(broken) if broken in set(Damage) else Damage.NONE
    )


def _made(order: Order, folder: Path) -> bytes:
    match order.label.family:
        case Family.TASMOTA:
            return made_tasmota(order)
        case Family.SHELLY:
            return made_shelly(order, maker(folder))
        case Family.DISPLAY:
            return made_display(order)
        case Family.ZIGBEE:
            if order.label.model not in set(ZigbeeModel):
                raise InputError(f"--model: {order.label.model!r:.60} is none of {', '.join(ZigbeeModel)}")
            return made_zigbee(order, BORN[ZigbeeModel(order.label.model)].kind)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="firmware_sim image", description="An image of a firmware.")
    parser.add_argument("--family", required=True, choices=[family.value for family in Family])
    parser.add_argument("--model", help="which it is for; for a Shelly its app, such as Plus2PM")
    parser.add_argument("--hardware", help="the hardware revision; for a Tasmota the chip")
    parser.add_argument("--version", required=True, help="as the family counts: 14.2.0, 1.7.2, 192")
    parser.add_argument("--size", type=int, default=16 * SECTOR, metavar="N", help="bytes (default 65536)")
    parser.add_argument("--minimal", action="store_true", help="Tasmota's small build")
    parser.add_argument("--broken", choices=_BROKEN, metavar="WORD", help=", ".join(_BROKEN))
    parser.add_argument("--key", type=Path, metavar="FOLDER", help="of maker.key (default: beside the image)")
    parser.add_argument("out", type=Path, metavar="OUT")
    return parser
