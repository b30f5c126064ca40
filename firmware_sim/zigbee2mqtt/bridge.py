"""A Zigbee2MQTT bridge, as its MQTT client shows it (zigbee2mqtt.io, MQTT topics and messages).

    <base>/bridge/state            {"state":"online"}, retained; the will says offline
    <base>/bridge/info, devices    retained; the coordinator is in the list, with no definition
    <base>/bridge/logging          {"level":"error","message":…}: the only place where a failed set is told
    <base>/bridge/request/…   in, /response/…   see ``api``, ``ota``
    <base>/<name>                  all that is known of a device, whole, each time
    <base>/<name>/availability     {"state":"online"}, retained
    <base>/<name>/set         in   {"state":"ON"}, also /set/<attribute> with the bare value
    <base>/<name>/get         in   {"state":""}: asks the device and tells it

What bites:

*   After a ``set`` the new value is told at once, out of the bridge's memory (``optimistic``).
*   A ``set`` that fails says nothing on the device's topic.
*   After a restart everything is told again out of memory: nothing in it says how old it is.
*   One connection speaks for many devices; a friendly name may hold slashes, and can be changed by anybody
    who may publish ``bridge/request/device/rename``.

*Assumed*: it subscribes to the topics it needs, where the real one takes everything below ``<base>`` and
picks; ``bridge/info`` has only what others look at.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

from firmware_sim.fields import InputError, Json
from firmware_sim.firmware import Board, Heard, Piece, Said, Subscription, Timing, Will
from firmware_sim.zigbee2mqtt.api import Request, RequestError, answer, request
from firmware_sim.zigbee2mqtt.end_device import EndDevice, NotSetError
from firmware_sim.zigbee2mqtt.models import exposes
from firmware_sim.zigbee2mqtt.ota import PREFIX, Ota
from firmware_sim.zigbee2mqtt.settings import ZigbeeSettings, nameable

VERSION: Final = "2.1.3"
# What a set may be without JSON.
_WORDS: Final = frozenset({"on", "off", "toggle", "open", "close", "stop"})
# The answer's topic is longer than the request's.
_LONGEST_REQUEST: Final = 1000
_ONLINE: Final = {"state": "online"}
_OFFLINE: Final = {"state": "offline"}


class Bridge:
    """See the module's docstring.

    Args:
        board: the hardware.
        mac: twelve capital hexadecimal digits.
        settings: the owner's.
        devices: those that are paired.
        timing: how long things take.
    """

    keepalive = timedelta(seconds=60)

    def __init__(
        self, board: Board, mac: str, settings: ZigbeeSettings, devices: Sequence[EndDevice], timing: Timing
    ) -> None:
        self._board = board
        self._settings = settings
        self._timing = timing
        self._base = settings.base
        self._devices = list(devices)
        self._ieee = f"0x{mac.lower()}0000"
        self._ota = Ota(board, timing, self)
        self.native_id = f"zigbee2mqtt-{mac.lower()}"
        self.client_id = f"mqttjs_{mac.lower()}"
        self.will = Will(f"{self._base}/bridge/state", _json(_OFFLINE).decode(), 1, retain=True)

    def boot(self, usual: timedelta, *, cold: bool) -> timedelta | None:  # noqa: ARG002 - it makes no difference
        """The devices live on; what the bridge was doing for them is forgotten."""
        self._ota.boot()
        for device in self._devices:
            device.while_away(usual)
        return usual

    def chips(self) -> Mapping[str, Json]:
        """One for each device, and what it is called."""
        return {
            device.ieee: {**device.flash.describe(), "name": device.name, "gone": device.gone}
            for device in self._devices
        }

    def greet(self, *, fresh: bool) -> None:  # noqa: ARG002 - it says the same after a boot as after a gap
        """Subscribe, say that it is there, which devices there are, and all that is known of them."""
        self._subscribe()
        self._say("bridge/state", _ONLINE, qos=1, retain=True)
        self._say("bridge/info", self._info(), retain=True)
        self._tell_devices()
        for device in self._devices:
            self.tell(device)

    def hear(self, message: Heard) -> None:
        """Take a request, a set or a get."""
        topic = message.topic.removeprefix(f"{self._base}/")
        if topic.startswith("bridge/request/"):
            if len(topic) > _LONGEST_REQUEST:
                return
            self._requested(request(topic.removeprefix("bridge/request/"), message.payload))
            return
        for device in self._devices:
            if topic.startswith(f"{device.name}/"):
                verb, _, attribute = topic.removeprefix(f"{device.name}/").partition("/")
                if verb in {"set", "get"} and "/" not in attribute:
                    self._spoken_to(device, verb, attribute, message.payload)
                    return

    def report(self) -> None:
        """Each device measures, tells, and asks for updates."""
        for device in self._devices:
            if device.reachable:
                device.measure()
                self.tell(device)
                with suppress(RequestError):  # the image of a schedule is gone meanwhile
                    self._ota.asks(device)

    def press(self, button: int) -> None:
        """Somebody uses a device by hand; they count from 1."""
        if not 1 <= button <= len(self._devices):
            raise InputError(f"{self.native_id} has no device {button}")
        device = self._devices[button - 1]
        device.press()
        if device.reachable:
            self.tell(device)

    def counted(self, number: int) -> Said | None:
        """What the first plug tells, with an ``energy`` of ``number``."""
        for device in self._devices:
            if "energy" in device.born.measures:
                told = {**device.told(), "energy": number}
                return Said(f"{self._base}/{device.name}", _json(told), 1)
        return None

    def describe(self) -> Mapping[str, Json]:
        """What a visitor is told."""
        return {
            "family": "zigbee2mqtt",
            "model": "Zigbee2MQTT",
            "base": self._base,
            "devices": {device.ieee: device.name for device in self._devices},
            "can": {device.ieee: list(device.born.settable) for device in self._devices},
        }

    def pieces(self) -> Sequence[Piece]:
        """One for each device."""
        return [device.piece for device in self._devices]

    # What the updates call: ``ota.Network``.

    def device(self, name: str) -> EndDevice:
        """The device of that name or address.

        Raises:
            RequestError: there is none.
        """
        for device in self._devices:
            if name in {device.name, device.ieee}:
                return device
        raise RequestError(f"Device '{name:.200}' does not exist")

    def tell(self, device: EndDevice) -> None:
        """Publish all that is known of a device, and whether it can be reached."""
        if device not in self._devices:
            return  # removed meanwhile
        self._say(device.name, {**device.told(), "update": self._ota.told(device)})
        if self._settings.availability:
            there = _ONLINE if device.reachable else _OFFLINE
            self._say(f"{device.name}/availability", there, qos=1, retain=True)

    def respond(self, asked: Request, data: Mapping[str, Json], error: str | None = None) -> None:
        """Answer a request; an error is logged besides."""
        if error is not None:
            self._log(error)
        self._say(f"bridge/response/{asked.name}", answer(asked, data, error))

    def _requested(self, asked: Request) -> None:
        try:
            if asked.name.startswith(PREFIX):
                self._ota.take(asked)
            else:
                self.respond(asked, self._carried_out(asked))
        except RequestError as why:
            self.respond(asked, {}, str(why))

    def _carried_out(self, asked: Request) -> Mapping[str, Json]:
        match asked.name:
            case "restart":
                self._board.restart(self._timing.restart)
                return {}
            case "health_check":
                return {"healthy": True}
            case "device/rename":
                return self._rename(asked)
            case "device/remove":
                device = self.device(asked.text("id"))
                self._devices.remove(device)
                for topic in (device.name, f"{device.name}/availability"):
                    self._board.say(Said(f"{self._base}/{topic}", b"", 1, retain=True))
                self._tell_devices()
                return {"id": asked.text("id"), "block": False, "force": False}
            case _:
                raise RequestError(f"Unknown request '{asked.name:.200}'")

    def _rename(self, asked: Request) -> Mapping[str, Json]:
        device, name = self.device(asked.text("from")), asked.text("to")
        if not nameable(name):
            raise RequestError(f"friendly_name is not allowed: '{name:.200}'")
        if any(name in {other.name, other.ieee} for other in self._devices):
            raise RequestError(f"friendly_name '{name}' is already in use")
        before = device.name
        self._board.say(Said(f"{self._base}/{before}/availability", b"", 1, retain=True))
        device.name = name
        self._subscribe()
        self._tell_devices()
        self.tell(device)
        return {"from": before, "to": name, "homeassistant_rename": False}

    def _spoken_to(self, device: EndDevice, verb: str, attribute: str, payload: bytes) -> None:
        wanted = _wanted(attribute, payload)
        if wanted is None:
            self._log(f"Invalid message '{payload.decode('utf-8', 'replace'):.200}', skipping...")
            return
        done = False
        for name, value in wanted.items():
            try:
                if verb == "set":
                    device.set(name, value)
                elif not device.reachable:
                    raise NotSetError("Data request failed with error: 'No network route' (205)")  # noqa: TRY301 - as a set fails
                done = True
            except NotSetError as why:
                self._log(f"Publish '{verb}' '{name:.100}' to '{device.name}' failed: '{why}'")
        if done:
            self.tell(device)

    def _subscribe(self) -> None:
        wanted = [f"{self._base}/bridge/request/#"]
        for device in self._devices:
            wanted += [f"{self._base}/{device.name}/{verb}" for verb in ("set", "set/+", "get", "get/+")]
        self._board.subscribe([Subscription(entry, 1) for entry in wanted])

    def _tell_devices(self) -> None:
        coordinator: dict[str, Json] = {
            "ieee_address": self._ieee,
            "type": "Coordinator",
            "friendly_name": "Coordinator",
            "supported": True,
            "disabled": False,
            "definition": None,
            "interview_completed": True,
        }
        listed: list[Json] = [coordinator, *(_entry(device) for device in self._devices)]
        self._say("bridge/devices", listed, retain=True)

    def _info(self) -> dict[str, Json]:
        return {
            "version": VERSION,
            "commit": "simulated",
            "coordinator": {"ieee_address": self._ieee, "type": "zStack3x0"},
            "network": {"channel": 15, "pan_id": 6754},
            "log_level": "info",
            "permit_join": False,
            "restart_required": False,
            "config": {
                "mqtt": {"base_topic": self._base},
                "availability": {"enabled": self._settings.availability},
                "advanced": {"cache_state": True, "output": "json"},
            },
        }

    def _log(self, message: str) -> None:
        self._say("bridge/logging", {"level": "error", "message": f"z2m: {message}", "namespace": "z2m"})

    def _say(self, topic: str, body: Json, *, qos: int = 0, retain: bool = False) -> None:
        self._board.say(Said(f"{self._base}/{topic}", _json(body), qos, retain))


def _entry(device: EndDevice) -> Json:
    born = device.born
    return {
        "ieee_address": device.ieee,
        "type": "Router" if born.mains else "EndDevice",
        "friendly_name": device.name,
        "supported": True,
        "disabled": False,
        "definition": {
            "model": born.model,
            "vendor": born.vendor,
            "description": device.paired.model.value,
            "exposes": exposes(born),
            "options": [],
            "supports_ota": True,
        },
        "power_source": "Mains (single phase)" if born.mains else "Battery",
        "software_build_id": f"1.{device.version}",
        "date_code": "20260101",
        "model_id": born.model,
        "manufacturer": born.vendor,
        "interview_completed": True,
        "interviewing": False,
    }


def _wanted(attribute: str, payload: bytes) -> Mapping[str, Json] | None:
    """What a message wants set or told, by attribute; None when it is none."""
    try:
        text = payload.decode()
        value: Json = json.loads(text)
    except (ValueError, RecursionError):
        text = payload.decode("utf-8", "replace")
        if not attribute and text.lower() not in _WORDS:
            return None
        value = text
    if attribute:
        return {attribute: value}
    if isinstance(value, Mapping):
        return value
    return {"state": value} if isinstance(value, str) else None


def _json(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
