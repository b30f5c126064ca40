"""How a Tasmota is set up by its owner, and the topics that follow from it."""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from firmware_sim.fields import Fields, InputError

LONGEST_FULL_TOPIC: Final = 100
_VERSION: Final = re.compile(r"\d{1,4}(\.\d{1,4}){1,3}", re.ASCII)
# SetOption0 to 163 are switches, but for 32 to 49, which are numbers.
OPTIONS: Final = frozenset({*range(32), *range(50, 164)})


class LightKind(StrEnum):
    """What a lamp can do; ``subtype`` is what discovery and source call it."""

    DIMMER = "dimmer"
    """One channel."""
    CT = "ct"
    """Cold and warm white."""
    RGB = "rgb"
    """Three colours."""
    RGBCCT = "rgbcct"
    """Three colours, and cold and warm white."""

    @property
    def subtype(self) -> int:
        """``LST_…``: how many channels there are."""
        return {"dimmer": 1, "ct": 2, "rgb": 3, "rgbcct": 5}[self.value]


class FlashKind(StrEnum):
    """How much flash there is."""

    TWIN = "twin"
    """Two slots, each large enough for any image."""
    ONE_MEGABYTE = "1m"
    """One megabyte in one piece: a full image does not fit beside a full one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TasmotaSettings:
    """The owner's choices; the defaults are those of delivery.

    Attributes:
        name: ``DeviceName``.
        topic: None for ``tasmota_`` and the last half of the MAC address.
        full_topic: with ``%prefix%``, ``%topic%``, ``%hostname%``, ``%id%``.
        prefixes: of commands, answers, telemetry (``Prefix1`` to ``3``).
        group_topic: a second topic that many devices obey at once.
        state_words: what it says for off, on, toggle, hold (``StateText``). It never *understands* them:
            commands are taken in English or as digits, whatever is set here.
        lwt_words: what it says for offline and online; fixed when the firmware is built.
        power_retain: whether ``stat/…/POWER`` is retained (``PowerRetain``).
        sensor_retain: whether telemetry is retained (``SensorRetain``).
        options: the ``SetOption`` switches that are on. Those with an effect here: 4 answers on the
            command's own topic, 8 Fahrenheit, 17 colours as decimals, 20 a dimmer command does not switch
            on, 26 ``POWER1`` even for one relay, 59 ``tele/…/STATE`` after each command, 90 JSON only,
            104 nothing retained.
        light: of a lamp.
        version: of the firmware of delivery.
        chip: which images it can boot: ``esp8266``, ``esp32``.
        flash: ``twin`` for two slots, ``1m`` for one megabyte in one piece.
        ota_url: ``OtaUrl`` of delivery.
        address: what it tells as its address; empty for its own.
    """

    name: str = "Tasmota"
    topic: str | None = None
    full_topic: str = "%prefix%/%topic%/"
    prefixes: tuple[str, ...] = ("cmnd", "stat", "tele")
    group_topic: str = "tasmotas"
    state_words: tuple[str, ...] = ("OFF", "ON", "TOGGLE", "HOLD")
    lwt_words: tuple[str, ...] = ("Offline", "Online")
    power_retain: bool = False
    sensor_retain: bool = False
    options: frozenset[int] = field(default=frozenset())
    light: LightKind = LightKind.RGBCCT
    version: str = "14.1.0"
    chip: str = "esp8266"
    flash: FlashKind = FlashKind.TWIN
    ota_url: str = "http://ota.tasmota.com/tasmota/release/tasmota.bin.gz"
    address: str = ""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a device is by birth.

    Attributes:
        mac: twelve capital hexadecimal digits.
        module: the name of the hardware.
    """

    mac: str
    module: str


def tasmota_settings(fields: Fields) -> TasmotaSettings:
    """Read settings; ``options`` is an object such as ``{"4": true}``.

    Raises:
        InputError: names the field.
    """
    boring = TasmotaSettings()
    settings = TasmotaSettings(
        name=fields.text("name", boring.name),
        topic=fields.text("topic") if fields.has("topic") else None,
        full_topic=fields.text("full_topic", boring.full_topic),
        prefixes=fields.texts("prefixes", boring.prefixes),
        group_topic=fields.text("group_topic", boring.group_topic),
        state_words=fields.texts("state_words", boring.state_words),
        lwt_words=fields.texts("lwt_words", boring.lwt_words),
        power_retain=fields.flag("power_retain", default=False),
        sensor_retain=fields.flag("sensor_retain", default=False),
        options=_options(fields.nested("options")),
        light=fields.choice("light", LightKind, boring.light),
        version=fields.text("version", boring.version),
        chip=fields.text("chip", boring.chip),
        flash=fields.choice("flash", FlashKind, boring.flash),
        ota_url=fields.text("ota_url", boring.ota_url),
        address=fields.text("address", boring.address),
    )
    fields.done()
    if _VERSION.fullmatch(settings.version) is None:
        raise InputError(f"{fields.where}.version: {settings.version!r:.60} is no version such as 14.1.0")
    if len(settings.full_topic) > LONGEST_FULL_TOPIC:
        raise InputError(f"{fields.where}.full_topic: at most {LONGEST_FULL_TOPIC} characters")
    return settings


def _options(fields: Fields) -> frozenset[int]:
    chosen = set()
    for name in fields.names():
        if not name.isdecimal() or int(name) not in OPTIONS:
            raise InputError(f"{fields.where}: there is no switch SetOption{name}")
        if fields.flag(name, default=False):
            chosen.add(int(name))
    return frozenset(chosen)


class Topics:
    """The topics of one device (``GetTopic_P`` in support_tasmota.ino).

    Args:
        settings: the owner's.
        mac: twelve capital hexadecimal digits.
    """

    def __init__(self, settings: TasmotaSettings, mac: str) -> None:
        self._settings = settings
        self._mac = mac
        self.topic = settings.topic or f"tasmota_{mac[6:]}"
        self.hostname = f"{self.topic}-{int(mac[6:], 16) % 8192:04d}"
        self.fallback = f"DVES_{mac[6:]}_fb"

    def command(self, name: str) -> str:
        """Where a command is taken."""
        return self._full(0, self.topic) + name

    def answer(self, name: str, *, by_fallback: bool = False) -> str:
        """Where an answer goes; one to a command on the fallback topic goes to the fallback topic."""
        if by_fallback:
            return f"stat/{self.fallback}/{name}"
        return self._full(1, self.topic) + name

    def telemetry(self, name: str) -> str:
        """Where telemetry goes."""
        return self._full(2, self.topic) + name

    def fallback_command(self) -> str:
        """What a command on the fallback topic begins with, whatever full topic and prefixes are."""
        return f"cmnd/{self.fallback}/"

    def group_command(self) -> str:
        """What a command on the group topic begins with."""
        return self._full(0, self._settings.group_topic)

    def listened(self) -> list[str]:
        """The filters that are subscribed: guarding only the first leaves two doors open."""
        own = self.command("#")
        if "%topic%" not in self._settings.full_topic:
            return [own]
        return [own, self.group_command() + "#", self.fallback_command() + "#"]

    def _full(self, prefix: int, topic: str) -> str:
        tokens = {
            "%prefix%": self._settings.prefixes[prefix],
            "%topic%": topic,
            "%hostname%": self.hostname,
            "%id%": self._mac,
        }
        full = self._settings.full_topic
        if prefix == 0 and "%prefix%" not in full:
            full += "/%prefix%"  # commands keep theirs, or the device would obey its own answers
        for token, text in tokens.items():
            full = full.replace(token, text)
        full = full.replace("#", "").replace("//", "/")
        return full if full.endswith("/") else full + "/"
