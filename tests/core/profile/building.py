"""Profiles and devices for tests, with boring defaults."""

from functools import cache
from pathlib import Path

from edgeagent.contracts.profile import DeviceProfile
from edgeagent.core.profile.compile import CompiledDevice, Gateway, compile_device
from edgeagent.core.profile.decode import Decoded
from edgeagent.core.profile.load import load
from edgeagent.ids import device_id, hub_id
from edgeagent.profiles import shipped

GATEWAY = Gateway(hub_id("hub-1"))
FAMILIES = Path(__file__).parent / "families"
SHIPPED = Path(shipped.__file__).parent

PLUG = "AABBCCDDEEFF"
SHELLY = "shellyplus1pm-a8032abe54dc"
HEAD = """
format = 1
id = "thing"
version = "1.0.0"
title = "A thing"
transport = "hub"

[parameter.topic]
type = "segment"
"""


@cache
def family(name: str) -> DeviceProfile:
    """A shipped profile, or one of the small ones of the tests."""
    shipped_file, own = SHIPPED / f"{name}.toml", FAMILIES / f"{name}.toml"
    return load((shipped_file if shipped_file.exists() else own).read_bytes())


def thing(body: str) -> DeviceProfile:
    """A profile with one parameter, ``topic``, and what ``body`` adds."""
    return load((HEAD + body).encode())


def made(profile: DeviceProfile, device: str = "dev-1", /, **parameters: object) -> CompiledDevice:
    """A device of a profile; its ``topic`` is its id where nothing else is said."""
    if "topic" in profile.parameters:
        parameters = {"topic": device, **parameters}
    return compile_device(profile, device_id(device), parameters, gateway=GATEWAY)


def tasmota(**parameters: object) -> CompiledDevice:
    """A Tasmota plug whose topic is ``plug-a``."""
    return made(family("tasmota"), PLUG, **{"topic": "plug-a", **parameters})


def shelly(**parameters: object) -> CompiledDevice:
    """A Shelly with one switch, its prefix as it was delivered."""
    return made(family("shelly-gen2"), SHELLY, **{"switches": [0], **parameters})


def live(device: CompiledDevice, topic: str, payload: bytes | str) -> Decoded:
    """What a live message says."""
    raw = payload.encode() if isinstance(payload, str) else payload
    return device.decode(topic, raw, retained=False)


def readings(decoded: Decoded) -> dict[str, object]:
    """The readings of a message by name."""
    return dict(decoded.readings)
