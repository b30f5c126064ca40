"""A Shelly of the second generation or later, as its MQTT client shows it (shelly-api-docs, Mqtt).

    <prefix>/online                   true, false          will with QoS 0, not retained
    <prefix>/rpc                  in  request frames       enable_rpc
    <src>/rpc                         response frames
    <prefix>/events/rpc               notifications        rpc_ntf, on
    <prefix>/status/<component>       whole statuses       status_ntf, off
    <prefix>/command[/<component>] in words                enable_control

What bites:

*   The will that was captured on the wire is *not* retained (ioBroker.shelly), so a controller that connects
    later finds nothing and has to ask. ``online_retained`` makes a device that an owner set up otherwise.
*   ``status_ntf`` is off as delivered: whoever reads only ``status/…`` sees nothing.
*   Everything is published with QoS 1, and subscribed with QoS 1.
*   The retain flag of a command is not looked at: a retained command is carried out at every connect.
*   The topic prefix is the owner's choice; ids in frames are always the device's own.

*Assumed*: that it subscribes before it says ``online``, that it tells ``NotifyFullStatus`` at each connect,
and that ``announce`` is answered on ``<prefix>/announce``.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Final

from firmware_sim.fields import InputError, Json
from firmware_sim.firmware import Board, Heard, Piece, Said, Subscription, Timing, Will
from firmware_sim.flash import Flash
from firmware_sim.shelly.component import Component
from firmware_sim.shelly.ota import Ota
from firmware_sim.shelly.rpc import Request, RpcError, challenge, no_handler, request
from firmware_sim.shelly.settings import Identity, ShellySettings
from firmware_sim.walk import Walk

_SHORTEST_DELAY: Final = 500
_LONGEST_DELAY: Final = 60_000
_OPEN_TO_ALL: Final = "shelly.getdeviceinfo"
# MQTT 3.1.1 section 1.5.3, less the "/rpc" that is added.
_LONGEST_SOURCE: Final = 65_531


class Shelly:
    """See the module's docstring.

    Args:
        board: the hardware.
        identity: what it is.
        settings: how it is set up.
        components: what it has, besides what every device has.
        timing: how long things take.
        seed: names its walks.
        flash: what it runs from.
    """

    keepalive = timedelta(seconds=60)

    def __init__(
        self,
        board: Board,
        identity: Identity,
        settings: ShellySettings,
        components: Sequence[Component],
        timing: Timing,
        seed: str,
        flash: Flash,
    ) -> None:
        self._board = board
        self._identity = identity
        self._settings = settings
        self._components = {f"{part.namespace}:{part.number}": part for part in components}
        for key, part in self._components.items():
            part.announce = partial(self._tell_news, key)
        self._timing = timing
        self._prefix = settings.topic_prefix or identity.id
        self._known: dict[str, dict[str, Json]] = {}
        self._rssi = Walk(f"{seed}/rssi", -58, step=2, low=-88, high=-35)
        self._flash = flash
        self._ota = Ota(board, flash, identity, settings, timing, self._tell_event)
        self._nonces = 1_700_000_000
        self.native_id = identity.id
        self.client_id = identity.id
        self.will = Will(f"{self._prefix}/online", "false", 0, settings.online_retained)

    def boot(self, usual: timedelta, *, cold: bool) -> timedelta | None:  # noqa: ARG002 - it makes no difference
        """Outputs are restored, timers are gone."""
        for part in self._components.values():
            part.boot()
        self._ota.boot()
        return self._flash.boot(usual)

    def chips(self) -> Mapping[str, Json]:
        """One."""
        return {self._flash.part: self._flash.describe()}

    def greet(self, *, fresh: bool) -> None:
        """Subscribe, then say that it is there and how everything stands: after a gap as after a boot."""
        wanted = [f"{self._prefix}/rpc"] if self._settings.enable_rpc else []
        if self._settings.enable_control:
            wanted += [f"{self._prefix}/command", f"{self._prefix}/command/+"]
        self._board.subscribe([Subscription(entry, 1) for entry in wanted])
        self._board.say(Said(f"{self._prefix}/online", b"true", 1, self._settings.online_retained))
        self._tell_all()
        if fresh:
            self._board.start_timer(self._timing.settle, self._came_up)

    def hear(self, message: Heard) -> None:
        """Take a request frame or a word."""
        verb, _, key = message.topic.removeprefix(f"{self._prefix}/").partition("/")
        match verb, key:
            case "rpc", "":
                asked = request(message.payload)
                if asked is not None:
                    self._answer(asked)
            case "command", "":
                self._word(message.payload)
            case "command", _ if key in self._components:
                words = message.payload.decode("ascii", "replace").split(",")
                self._components[key].control(words)
                self._tell_news(key)
            case _:
                pass

    def report(self) -> None:
        """Measure, and tell what has changed: never everything."""
        hours = self._timing.period / timedelta(hours=1)
        self._rssi.advance()
        for key, part in self._components.items():
            part.measure(hours)
            self._tell_news(key)

    def press(self, button: int) -> None:
        """The button of an output; a device with inputs tells the press besides what it did."""
        parts = list(self._components.items())
        if not 1 <= button <= len(parts):
            raise InputError(f"{self.native_id} has no button {button}")
        key, part = parts[button - 1]
        if self._identity.buttons:
            pushed: dict[str, Json] = {
                "component": f"input:{button - 1}",
                "id": button - 1,
                "event": "single_push",
                "ts": self._ts(),
            }
            self._notify("NotifyEvent", {"ts": self._ts(), "events": [pushed]})
        part.press()
        self._tell_news(key)

    def counted(self, number: int) -> Said | None:
        """``NotifyStatus`` of the first component, with an ``aenergy.total`` of ``number`` kWh."""
        key, part = next(iter(self._components.items()))
        frame = self._notification("NotifyStatus", {"ts": self._ts(), key: part.counted(number)})
        return Said(f"{self._prefix}/events/rpc", frame, 1)

    def describe(self) -> Mapping[str, Json]:
        """What a visitor is told."""
        return {
            "family": "shelly",
            "model": self._identity.app,
            "prefix": self._prefix,
            "can": {**{key: list(part.can) for key, part in self._components.items()}, "device": ["reboot"]},
        }

    def pieces(self) -> Sequence[Piece]:
        """One for each component."""
        return [part.piece for part in self._components.values()]

    def _came_up(self) -> None:
        again = self._flash.came_up(self._timing.boot)
        if again is not None:
            self._board.restart(again)

    def _answer(self, asked: Request) -> None:
        head: dict[str, Json] = {"id": asked.id, "src": self.native_id, "dst": asked.src}
        told: list[str] = []
        try:
            answer: dict[str, Json] = {"result": self._call(asked, told)}
        except RpcError as why:
            answer = {"error": {"code": why.code, "message": why.message}}
        if asked.id is not None and asked.src is not None and _is_topic(asked.src):
            self._board.say(Said(f"{asked.src}/rpc", _json({**head, **answer}), 1))
        for key in told:
            self._tell_news(key)

    def _call(self, asked: Request, told: list[str]) -> Json:
        method = asked.method.lower()
        if self._settings.auth and method != _OPEN_TO_ALL:
            self._nonces += 1
            raise challenge(self.native_id, self._nonces)
        namespace, _, verb = method.partition(".")
        if namespace in {"shelly", "sys", "mqtt", "wifi"}:
            return self._call_system(method, asked)
        mine = [key for key, part in self._components.items() if part.namespace == namespace]
        if not mine:
            raise no_handler(asked.method)
        wanted = f"{namespace}:{asked.params.named()}"
        # For a number that there is not, the first one finds the words: no such method, no such number.
        key = wanted if wanted in self._components else mine[0]
        result = self._components[key].call(verb, asked)
        told.append(key)
        return result

    def _call_system(self, method: str, asked: Request) -> Json:
        match method:
            case "shelly.getdeviceinfo":
                return self._device_info()
            case "shelly.getstatus":
                return self._status()
            case "sys.getstatus" | "mqtt.getstatus" | "wifi.getstatus":
                return self._status()[method.partition(".")[0]]
            case "shelly.update":
                return self._ota.update(asked.params)
            case "shelly.checkforupdate":
                return self._ota.check()
            case "shelly.reboot":
                asked_for = asked.params.number("delay_ms", least=_SHORTEST_DELAY, most=_LONGEST_DELAY)
                delay = self._timing.restart if asked_for is None else timedelta(milliseconds=asked_for)
                self._board.restart(delay)
                return None
            case _:
                raise no_handler(asked.method)

    def _word(self, payload: bytes) -> None:
        match payload:
            case b"status_update":
                for key in self._components:
                    self._tell_status(key)
            case b"announce":
                self._board.say(Said(f"{self._prefix}/announce", _json(self._device_info()), 1))
            case _:
                pass

    def _tell_all(self) -> None:
        status = self._status()
        for key in self._components:
            self._known[key] = dict(self._components[key].status())
            if self._settings.status_ntf:
                self._tell_status(key)
        self._notify("NotifyFullStatus", {"ts": self._ts(), **status})

    def _tell_news(self, key: str) -> None:
        news = self._news(key)
        if news:
            self._notify(
                "NotifyStatus", {"ts": self._ts(), key: {"id": self._components[key].number, **news}}
            )
            if self._settings.status_ntf:
                self._tell_status(key)

    def _news(self, key: str) -> dict[str, Json]:
        """What has changed since it was last told, with ``null`` for what has gone."""
        known, now = self._known.get(key, {}), self._components[key].status()
        self._known[key] = now
        news: dict[str, Json] = {name: value for name, value in now.items() if known.get(name, ...) != value}
        news.update(dict.fromkeys(set(known) - set(now)))
        news.update({name: now[name] for name in self._components[key].denied()})
        return news

    def _tell_status(self, key: str) -> None:
        self._board.say(Said(f"{self._prefix}/status/{key}", _json(self._components[key].status()), 1))

    def _notify(self, method: str, params: Mapping[str, Json]) -> None:
        if self._settings.rpc_ntf:
            frame = self._notification(method, params)
            self._board.say(Said(f"{self._prefix}/events/rpc", frame, 1))

    def _tell_event(self, event: Mapping[str, Json]) -> None:
        """Something happened to the device as a whole."""
        told: dict[str, Json] = {"component": "sys", **event, "ts": self._ts()}
        self._notify("NotifyEvent", {"ts": self._ts(), "events": [told]})

    def _notification(self, method: str, params: Mapping[str, Json]) -> bytes:
        return _json(
            {"src": self.native_id, "dst": f"{self._prefix}/events", "method": method, "params": params}
        )

    def _status(self) -> dict[str, Json]:
        uptime = int(self._board.uptime().total_seconds())
        return {
            "ble": {},
            "cloud": {"connected": False},
            "mqtt": {"connected": True},
            **{key: part.status() for key, part in self._components.items()},
            "sys": {
                "mac": self._identity.mac,
                "restart_required": False,
                "time": self._board.wall().strftime("%H:%M"),
                "unixtime": int(self._board.wall().timestamp()),
                "uptime": uptime,
                "ram_size": 260216,
                "ram_free": 114640,
                "cfg_rev": 12,
                "available_updates": {},
                "reset_reason": 3,
            },
            "wifi": {
                "sta_ip": self._settings.address or self._board.address,
                "status": "got ip",
                "ssid": "venue",
                "rssi": round(self._rssi.value),
            },
        }

    def _device_info(self) -> dict[str, Json]:
        identity = self._identity
        info: dict[str, Json] = {
            "name": self._settings.name or None,
            "id": identity.id,
            "mac": identity.mac,
            "model": identity.model,
            "gen": identity.generation,
            "fw_id": f"20250924-062729/{self._flash.told.version}-gd336f31",
            "ver": self._flash.told.version,
            "app": identity.app,
            "auth_en": self._settings.auth,
            "auth_domain": identity.id if self._settings.auth else None,
        }
        return info if identity.profile is None else {**info, "profile": identity.profile}

    def _ts(self) -> float:
        return round(self._board.wall().timestamp(), 2)


def _json(value: Mapping[str, Json]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _is_topic(text: str) -> bool:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return False  # half a surrogate pair, which JSON can carry and MQTT cannot
    return size <= _LONGEST_SOURCE and not set(text) & set("+#\0")
