"""The long answers of a Tasmota: ``STATE``, ``STATUS<n>``, discovery (support_command.ino, xdrv_12).

Times are local and carry no zone; here the zone is UTC. ``Uptime`` is days, ``T``, and a time of day, which
looks like ISO 8601 and is none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from firmware_sim.fields import Json
from firmware_sim.image import Label
from firmware_sim.tasmota.settings import TasmotaSettings, Topics
from firmware_sim.tasmota.upgrade import full_version

_RELAYS: Final = 32
_NAMES: Final = 8
_SWITCHES: Final = 28
_TOLD_OPTIONS: Final = (4, 11, 13, 17, 20, 30, 68, 73, 82, 114, 117)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the long answers are made of.

    Attributes:
        settings: the owner's.
        topics: that follow from them.
        options: the ``SetOption`` switches that are on at the moment.
        mac: twelve capital hexadecimal digits.
        address: in its network.
        module: the name of the hardware.
        period: between two telemetry messages.
        boots: how often it has booted.
        connects: how often it has connected since.
        uptime: since the last boot.
        now: the time of day.
        powers: what it says of each output.
        lamp: which output is a lamp, from 0, and its subtype; None for none.
        light: what the lamp adds to ``STATE``.
        firmware: what it says that it runs.
        used: how long its image is, in bytes.
        room: how long a new one may be.
    """

    settings: TasmotaSettings
    topics: Topics
    options: frozenset[int]
    mac: str
    address: str
    module: str
    period: timedelta
    boots: int
    connects: int
    uptime: timedelta
    now: datetime
    powers: Sequence[bool]
    lamp: tuple[int, int] | None
    light: Mapping[str, Json]
    firmware: Label
    used: int
    room: int

    @property
    def time(self) -> str:
        """As every long answer has it."""
        return self.now.strftime("%Y-%m-%dT%H:%M:%S")

    @property
    def uptime_text(self) -> str:
        """Days, ``T``, hours, minutes, seconds."""
        days, rest = divmod(int(self.uptime.total_seconds()), 86400)
        return f"{days}T{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"


def state(facts: Facts, powers: Mapping[str, str]) -> dict[str, Json]:
    """``tele/…/STATE``; ``powers`` are the ``POWER…`` keys of the relays."""
    return {
        "Time": facts.time,
        "Uptime": facts.uptime_text,
        "UptimeSec": int(facts.uptime.total_seconds()),
        "Heap": 25,
        "SleepMode": "Dynamic",
        "Sleep": 50,
        "LoadAvg": 19,
        "MqttCount": facts.connects,
        **powers,
        **facts.light,
        "Wifi": {
            "AP": 1,
            "SSId": "venue",
            "BSSId": "02:00:00:00:00:01",
            "Channel": 6,
            "Mode": "11n",
            "RSSI": 78,
            "Signal": -61,
            "LinkCount": 1,
            "Downtime": "0T00:00:03",
        },
    }


def statuses(facts: Facts) -> dict[int, tuple[str, dict[str, Json]]]:
    """``STATUS<n>`` but for 8 to 11: the name of each, and its object."""
    topics, connects = facts.topics, facts.connects
    client = topics.fallback.removesuffix("_fb")
    return {
        0: ("Status", _settings(facts)),
        1: ("StatusPRM", _parameters(facts)),
        2: (
            "StatusFWR",
            {
                "Version": full_version(facts.firmware),
                "BuildDateTime": "2024-06-02T15:30:00",
                "Core": "2_7_6",
            },
        ),
        3: ("StatusLOG", {"TelePeriod": int(facts.period.total_seconds()), "SSId": ["venue", ""]}),
        4: ("StatusMEM", {"ProgramSize": facts.used // 1024, "Free": facts.room // 1024, "Heap": 25}),
        5: (
            "StatusNET",
            {"Hostname": topics.hostname, "IPAddress": facts.address, "Mac": _colons(facts.mac)},
        ),
        6: ("StatusMQT", {"MqttClient": client, "MqttCount": connects, "KEEPALIVE": 30}),
        7: ("StatusTIM", {"UTC": f"{facts.time}Z", "Local": facts.time, "Timezone": "+00:00"}),
    }


def _settings(facts: Facts) -> dict[str, Json]:
    settings = facts.settings
    power = sum(1 << place for place, on in enumerate(facts.powers) if on)
    return {
        "Module": 0,
        "DeviceName": settings.name,
        "FriendlyName": [settings.name] * max(len(facts.powers), 1),
        "Topic": facts.topics.topic,
        "ButtonTopic": "0",
        "Power": f"{power:X}",
        "PowerOnState": 3,
        "PowerRetain": int(settings.power_retain),
        "SensorRetain": int(settings.sensor_retain),
    }


def _parameters(facts: Facts) -> dict[str, Json]:
    return {
        "GroupTopic": facts.settings.group_topic,
        "RestartReason": "Software/System restart",
        "Uptime": facts.uptime_text,
        "BootCount": facts.boots,
    }


def birth(facts: Facts) -> list[dict[str, Json]]:
    """``tele/…/INFO1`` to ``INFO3``, said once after each boot."""
    topics = facts.topics
    return [
        {
            "Info1": {
                "Module": facts.module,
                "Version": full_version(facts.firmware),
                "FallbackTopic": topics.fallback_command(),
                "GroupTopic": topics.group_command(),
            }
        },
        {"Info2": {"WebServerMode": "Admin", "Hostname": topics.hostname, "IPAddress": facts.address}},
        {"Info3": {"RestartReason": "Software/System restart", "BootCount": facts.boots}},
    ]


def discovery(facts: Facts) -> dict[str, Json]:
    """``tasmota/discovery/<mac>/config``; ``sw`` lacks the build's name that ``Version`` has."""
    settings, count = facts.settings, len(facts.powers)
    relays = [1 if place < count else 0 for place in range(_RELAYS)]
    if facts.lamp is not None:
        relays[facts.lamp[0]] = 2
    return {
        "ip": facts.address,
        "dn": settings.name,
        "fn": [settings.name if place < max(count, 1) else None for place in range(_NAMES)],
        "hn": facts.topics.hostname,
        "mac": facts.mac,
        "md": facts.module,
        "ty": 0,
        "if": 0,
        "ofln": settings.lwt_words[0],
        "onln": settings.lwt_words[1],
        "state": list(settings.state_words),
        "sw": facts.firmware.version,
        "t": facts.topics.topic,
        "ft": settings.full_topic,
        "tp": list(settings.prefixes),
        "rl": relays,
        "swc": [-1] * _SWITCHES,
        "swn": [None] * _SWITCHES,
        "btn": [0] * _RELAYS,
        "so": {str(number): int(number in facts.options) for number in _TOLD_OPTIONS},
        "lk": 1 if facts.lamp is not None else 0,
        "lt_st": 0 if facts.lamp is None else facts.lamp[1],
        "sho": [0, 0, 0, 0],
        "ver": 1,
    }


def _colons(mac: str) -> str:
    return ":".join(mac[place : place + 2] for place in range(0, len(mac), 2))
