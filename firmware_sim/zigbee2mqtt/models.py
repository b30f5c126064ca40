"""Which devices stand behind a bridge, and what each can do, in the words of its ``exposes``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from firmware_sim.fields import Json
from firmware_sim.zigbee2mqtt.image import Kind


class ZigbeeModel(StrEnum):
    """The devices."""

    PLUG = "zigbee-plug"
    """A plug with a power meter."""
    LAMP = "zigbee-lamp"
    """A lamp: brightness and colour temperature."""
    BLIND = "zigbee-blind"
    """A blind: a position."""
    THERMOSTAT = "zigbee-thermostat"
    """A radiator valve with a battery."""
    SENSOR = "zigbee-sensor"
    """Temperature and humidity, with a battery; nothing can be set."""


@dataclass(frozen=True, slots=True)
class Word:
    """An attribute that is one of some words.

    Attributes:
        words: that it takes.
        moves: what a word that is no state makes of the state before, such as ``TOGGLE``.
    """

    words: Sequence[str]
    moves: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Amount:
    """An attribute that is a number.

    Attributes:
        least: the least.
        most: the greatest.
        whole: whether it is rounded.
    """

    least: float
    most: float
    whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Born:
    """What a model is by birth.

    Attributes:
        kind: what its images are made for.
        model: as its maker calls it.
        vendor: its maker.
        mains: whether it has mains power, and passes on what others say.
        settable: what can be set.
        first: what is so at first.
        measures: what it measures besides: start, step, least and greatest of each.
    """

    kind: Kind
    model: str
    vendor: str
    mains: bool
    settable: Mapping[str, Word | Amount]
    first: Mapping[str, Json]
    measures: Mapping[str, tuple[float, float, float, float]]


_SWITCH: Final = Word(("ON", "OFF"), ("TOGGLE",))
# Of a manufacturer that is nobody's.
_MAKER: Final = 0x7E51
_BATTERY: Final = (87.0, 0.0, 1.0, 100.0)

BORN: Final[Mapping[ZigbeeModel, Born]] = {
    ZigbeeModel.PLUG: Born(
        kind=Kind(_MAKER, 0x0101),
        model="SIM-PLUG",
        vendor="Simulated",
        mains=True,
        settable={"state": _SWITCH},
        first={"state": "OFF"},
        measures={"power": (42.0, 3.0, 1.0, 200.0), "energy": (1.2, 0.0, 0.0, 1e6)},
    ),
    ZigbeeModel.LAMP: Born(
        kind=Kind(_MAKER, 0x0102),
        model="SIM-LAMP",
        vendor="Simulated",
        mains=True,
        settable={"state": _SWITCH, "brightness": Amount(0, 254), "color_temp": Amount(153, 500)},
        first={"state": "OFF", "brightness": 254, "color_temp": 370},
        measures={},
    ),
    ZigbeeModel.BLIND: Born(
        kind=Kind(_MAKER, 0x0103),
        model="SIM-BLIND",
        vendor="Simulated",
        mains=True,
        settable={"state": Word(("OPEN", "CLOSE"), ("STOP",)), "position": Amount(0, 100)},
        first={"state": "CLOSE", "position": 0},
        measures={},
    ),
    ZigbeeModel.THERMOSTAT: Born(
        kind=Kind(_MAKER, 0x0104),
        model="SIM-TRV",
        vendor="Simulated",
        mains=False,
        settable={
            "current_heating_setpoint": Amount(5, 35, whole=False),
            "system_mode": Word(("off", "heat", "auto")),
        },
        first={"current_heating_setpoint": 20.0, "system_mode": "heat"},
        measures={"local_temperature": (20.5, 0.2, 12.0, 28.0), "battery": _BATTERY},
    ),
    ZigbeeModel.SENSOR: Born(
        kind=Kind(_MAKER, 0x0105),
        model="SIM-CLIMATE",
        vendor="Simulated",
        mains=False,
        settable={},
        first={},
        measures={
            "temperature": (21.0, 0.2, 12.0, 30.0),
            "humidity": (45.0, 1.0, 20.0, 80.0),
            "battery": _BATTERY,
        },
    ),
}
"""The models."""


# What is set of a device stands together, under what it is; the first that it has says which.
_KINDS: Final[Mapping[str, str]] = {
    "brightness": "light",
    "position": "cover",
    "current_heating_setpoint": "climate",
    "state": "switch",
}


def exposes(born: Born) -> list[Json]:
    """What ``bridge/devices`` says that a model has; access 7 is told, set and asked for, 1 told only.

    Of a thermostat the temperature that it measures stands with what is set.
    """
    features = [_feature(name, kind) for name, kind in born.settable.items()]
    measured = [_measured(name) for name in born.measures]
    if not features:
        return [*measured]
    kind = next(word for name, word in _KINDS.items() if name in born.settable)
    own = [each for each in measured if each["name"] == "local_temperature"]
    group: Json = {"type": kind, "features": [*features, *own]}
    return [group, *(each for each in measured if each not in own)]


def _feature(name: str, kind: Word | Amount) -> dict[str, Json]:
    entry: dict[str, Json] = {"name": name, "property": name, "access": 7}
    match kind:
        case Amount(least=least, most=most):
            return entry | {"type": "numeric", "value_min": least, "value_max": most}
        case Word(words=(on, off), moves=("TOGGLE",)):
            return entry | {"type": "binary", "value_on": on, "value_off": off, "value_toggle": "TOGGLE"}
        case Word(words=words, moves=moves):
            return entry | {"type": "enum", "values": [*words, *moves]}


def _measured(name: str) -> dict[str, Json]:
    return {"name": name, "property": name, "access": 1, "type": "numeric"}
