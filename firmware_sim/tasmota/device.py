"""A Tasmota, as its MQTT client shows it (xdrv_02_9_mqtt.ino, support_command.ino).

    cmnd/<topic>/<Command>       in  POWER ON, Dimmer 40, Status 2, …
    stat/<topic>/RESULT              {"POWER":"ON"}: the answer to every command
    stat/<topic>/POWER               ON: besides, when an output was switched or asked for
    stat/<topic>/STATUS<n>           the answers to Status
    tele/<topic>/LWT                 Online, Offline: retained; the will has QoS 1
    tele/<topic>/STATE, SENSOR       each period
    tele/<topic>/INFO1..3            once after each boot
    tasmota/discovery/<mac>/config, sensors    retained

What bites:

*   Everything is published and subscribed with QoS 0: a command sent while the device is away is lost.
*   No answer names what it answers. Two commands in flight cannot be told apart.
*   At each connect it publishes an *empty* message on its own ``cmnd/…/POWER``, before it subscribes: whoever
    watches command topics sees a query that nobody sent.
*   It also obeys a group topic and a fallback topic. What is asked on the fallback is answered there.
*   The retain flag of a command is not looked at: a retained ``POWER ON`` switches at every connect.
*   A message of about 1,200 bytes or more is dropped unread.
*   With one output the key is ``POWER``, with several ``POWER1`` and on; ``POWER`` then means the first.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from firmware_sim.fields import InputError, Json
from firmware_sim.firmware import Board, Heard, Piece, Said, Subscription, Timing, Will
from firmware_sim.flash import Flash
from firmware_sim.tasmota import answers
from firmware_sim.tasmota.command import BLINK, BLINK_OFF, TOGGLE, Command, command
from firmware_sim.tasmota.lamp import Lamp
from firmware_sim.tasmota.outputs import Output
from firmware_sim.tasmota.sensors import Sensors
from firmware_sim.tasmota.settings import OPTIONS, Identity, TasmotaSettings, Topics
from firmware_sim.tasmota.upgrade import Upgrade

_PACKET: Final = 1200
# From this index on the payload is taken for binary data.
_BINARY: Final = 200
_BLINKING: Final = timedelta(seconds=10)
_LAST_STATUS: Final = 13
# SetOption
_OWN_TOPIC, _FAHRENHEIT, _DECIMAL, _NOT_LINKED, _NUMBERED = 4, 8, 17, 20, 26
_STATE_TOO, _JSON_ONLY, _NO_RETAIN = 59, 90, 104
_UNKNOWN: Final = {"Command": "Unknown"}
_ERROR: Final = {"Command": "Error"}


class Tasmota:
    """See the module's docstring.

    Args:
        board: the hardware.
        identity: what it is.
        settings: how it is set up.
        outputs: what it switches; a lamp is the last.
        sensors: what it measures.
        timing: how long things take.
        flash: what it runs from.
    """

    keepalive = timedelta(seconds=30)

    def __init__(
        self,
        board: Board,
        identity: Identity,
        settings: TasmotaSettings,
        outputs: Sequence[Output],
        sensors: Sensors,
        timing: Timing,
        flash: Flash,
    ) -> None:
        self._board = board
        self._mac = mac = identity.mac
        self._module = identity.module
        self._settings = settings
        self._options = set(settings.options)
        self._topics = Topics(settings, mac)
        self._outputs = outputs
        self._lamp = next((output for output in outputs if isinstance(output, Lamp)), None)
        self._sensors = sensors
        self._timing = timing
        self._flash = flash
        self._upgrade = Upgrade(board, flash, timing, settings.ota_url, self._tell_upgrade)
        self._boots = 1
        self._connects = 0
        self._by_fallback = False
        self.native_id = mac
        self.client_id = f"DVES_{mac[6:]}"
        retain = _NO_RETAIN not in settings.options
        self.will = Will(self._topics.telemetry("LWT"), settings.lwt_words[0], 1, retain)

    def boot(self, usual: timedelta, *, cold: bool) -> timedelta | None:
        """Outputs are restored (``PowerOnState 3``), options are kept."""
        self._boots += 1
        self._connects = 0
        self._upgrade.boot(cold=cold)
        return self._flash.boot(usual)

    def chips(self) -> Mapping[str, Json]:
        """One."""
        return {self._flash.part: self._flash.describe()}

    def greet(self, *, fresh: bool) -> None:
        """Say ``Online``, talk to itself, subscribe; after a boot tell versions and outputs."""
        self._connects += 1
        self._say(self._topics.telemetry("LWT"), self._settings.lwt_words[1], retain=True)
        if _JSON_ONLY not in self._options:
            self._say(self._topics.command("POWER"), "")
        self._board.subscribe([Subscription(entry, 0) for entry in self._topics.listened()])
        if fresh:
            for number, info in enumerate(answers.birth(self._facts()), 1):
                self._say(self._topics.telemetry(f"INFO{number}"), _json(info))
            for place in range(len(self._outputs)):
                self._tell_power(place)
        self._board.start_timer(self._timing.settle, self._settle if fresh else self._discover)

    def hear(self, message: Heard) -> None:
        """Take a command."""
        if len(message.topic) + len(message.payload) >= _PACKET:
            return
        asked = command(message.topic, message.payload)
        if asked.index >= _BINARY:
            return
        self._by_fallback = message.topic.startswith(self._topics.fallback_command())
        try:
            self._obey(asked)
        finally:
            self._by_fallback = False

    def report(self) -> None:
        """``STATE``, and ``SENSOR`` if there is any."""
        self._sensors.measure(self._timing.period / timedelta(hours=1), self._load())
        self._tell_state()
        if self._sensors.names:
            sensed = _json(self._sensed(periodic=True))
            self._say(self._topics.telemetry("SENSOR"), sensed, retain=self._settings.sensor_retain)

    def press(self, button: int) -> None:
        """Toggles, and says what a command would have said."""
        if not 1 <= button <= len(self._outputs):
            raise InputError(f"{self.native_id} has no button {button}")
        self._switch(button - 1, TOGGLE)

    def counted(self, number: int) -> Said | None:
        """``SENSOR`` with an ``ENERGY.Total`` of ``number`` kWh."""
        if not self._sensors.metered:
            return None
        sensed = self._sensed(periodic=True)
        energy = sensed["ENERGY"]
        assert isinstance(energy, Mapping)  # noqa: S101 - for the type checker
        counted = {**sensed, "ENERGY": {**energy, "Total": number, "Today": number}}
        return Said(self._topics.telemetry("SENSOR"), _json(counted).encode(), 1)

    def describe(self) -> Mapping[str, Json]:
        """What a visitor is told."""
        return {
            "family": "tasmota",
            "model": self._module,
            "topic": self._topics.topic,
            "full_topic": self._settings.full_topic,
            "command": self._topics.command(""),
            "can": {
                **{self._key(place): list(output.can) for place, output in enumerate(self._outputs)},
                "device": ["reboot"],
            },
            "measures": self._sensors.names,
        }

    def pieces(self) -> Sequence[Piece]:
        """One for each output."""
        return [output.piece for output in self._outputs]

    def _obey(self, asked: Command) -> None:
        match asked.name:
            case "POWER":
                self._power(asked)
            case "STATUS":
                self._status(asked)
            case "STATE":
                self._answer("STATE", self._state())
            case "RESTART":
                self._restart(asked)
            case "SETOPTION":
                self._set_option(asked)
            case "TELEPERIOD":
                # Its rhythm is the simulation's; so every value is taken for one out of range.
                self._answer("TELEPERIOD", {"TelePeriod": int(self._timing.period.total_seconds())})
            case "OTAURL":
                self._upgrade.set_url(asked)
            case "UPGRADE":
                self._upgrade.upgrade(asked)
            case "DIMMER" | "CT" | "WHITE" | "COLOR" | "HSBCOLOR" if self._lamp is not None:
                self._light(self._lamp, asked)
            case _:
                self._answer("COMMAND", _UNKNOWN)

    def _power(self, asked: Command) -> None:
        if asked.index > len(self._outputs):
            self._answer("POWER", _ERROR)
            return
        wanted = range(len(self._outputs)) if asked.index == 0 else [asked.index - 1]
        for place in wanted:
            self._switch(place, asked.number)

    def _switch(self, place: int, number: int) -> None:
        """Off, on, toggle, blink; anything else asks."""
        output = self._outputs[place]
        match number:
            case 0 | 1:
                output.switch("power", power=bool(number))
            case _ if number == TOGGLE:
                output.switch("toggle", power=not output.power)
            case _ if number == BLINK:
                output.identify()
                self._answer("POWER", {self._key(place): f"Blink {self._settings.state_words[1]}"})
                self._board.start_timer(_BLINKING, lambda: self._switch(place, BLINK_OFF))
                return
            case _ if number == BLINK_OFF:
                self._answer("POWER", {self._key(place): f"Blink {self._settings.state_words[0]}"})
            case _:
                pass
        self._sensors.switched(self._load())
        self._tell_power(place)
        if _STATE_TOO in self._options:
            self._tell_state()

    def _tell_power(self, place: int) -> None:
        word = self._settings.state_words[self._outputs[place].told_power]
        self._answer(self._key(place), {self._key(place): word})
        if _JSON_ONLY not in self._options:
            topic = self._topics.answer(self._key(place), by_fallback=self._by_fallback)
            self._say(topic, word, retain=self._settings.power_retain)

    def _light(self, lamp: Lamp, asked: Command) -> None:
        said = lamp.obey(asked, linked=_NOT_LINKED not in self._options)
        if said is None:
            self._answer(asked.name, _ERROR)
            return
        self._sensors.switched(self._load())
        self._answer(asked.name, said or self._lamp_status(lamp))
        if not said and _STATE_TOO in self._options:
            self._tell_state()

    def _restart(self, asked: Command) -> None:
        match asked.number:
            case 1:
                self._answer("RESTART", {"Restart": "Restarting"})
                self._board.restart(self._timing.restart)
            case 99:
                self._board.restart(timedelta(0))  # at once, without a word
            case _:
                self._answer("RESTART", {"Restart": "1 to restart"})

    def _set_option(self, asked: Command) -> None:
        if asked.index not in OPTIONS:
            self._answer("SETOPTION", _ERROR)
            return
        match asked.number:
            case 0:
                self._options.discard(asked.index)
            case 1:
                self._options.add(asked.index)
            case _:
                pass
        word = self._settings.state_words[asked.index in self._options]
        self._answer("SETOPTION", {f"SetOption{asked.index}": word})

    def _status(self, asked: Command) -> None:
        every = self._statuses()
        if asked.index == 0:
            joined: dict[str, Json] = {name: body for number, (name, body) in every.items() if number != 8}  # noqa: PLR2004 - the same as 10
            self._say(self._topics.answer("STATUS0"), _json(joined))
            return
        if asked.number > _LAST_STATUS or (asked.number > 0 and asked.number not in every):
            self._answer("STATUS", _ERROR)
            return
        # No number asks for the first alone, 0 for all, and 8 is an older name of 10.
        wanted = {0: [number for number in every if number != 8]}.get(asked.number, [max(asked.number, 0)])  # noqa: PLR2004
        for number in wanted:
            name, body = every[number]
            topic = self._topics.answer(f"STATUS{number or ''}", by_fallback=self._by_fallback)
            self._say(topic, _json({name: body}))

    def _statuses(self) -> dict[int, tuple[str, dict[str, Json]]]:
        sensed = self._sensed(periodic=False)
        every = {
            **answers.statuses(self._facts()),
            8: ("StatusSNS", sensed),
            10: ("StatusSNS", sensed),
            11: ("StatusSTS", self._state()),
        }
        if self._sensors.metered:
            every[9] = ("StatusPTH", {"PowerDelta": [0, 0, 0], "PowerLow": 0, "PowerHigh": 0})
        return dict(sorted(every.items()))

    def _settle(self) -> None:
        self.report()
        self._discover()
        again = self._flash.came_up(self._timing.boot)
        if again is not None:
            self._board.restart(again)
        self._upgrade.settled()

    def _discover(self) -> None:
        topic = f"tasmota/discovery/{self._mac}"
        self._say(f"{topic}/config", _json(answers.discovery(self._facts())), retain=True)
        sensed = self._sensed(periodic=False)
        self._say(f"{topic}/sensors", _json({"sn": sensed, "ver": 1}), retain=True)

    def _load(self) -> float:
        on = sum(output.power for output in self._outputs)
        return on / len(self._outputs) if self._outputs else 0.0

    def _sensed(self, *, periodic: bool) -> dict[str, Json]:
        time = self._facts().time
        return self._sensors.read(time, fahrenheit=_FAHRENHEIT in self._options, periodic=periodic)

    def _tell_state(self) -> None:
        self._say(self._topics.telemetry("STATE"), _json(self._state()))

    def _state(self) -> dict[str, Json]:
        words = self._settings.state_words
        powers = {
            self._key(place): words[output.told_power]
            for place, output in enumerate(self._outputs)
            if output is not self._lamp
        }
        return answers.state(self._facts(), powers)

    def _lamp_status(self, lamp: Lamp) -> dict[str, Json]:
        key = self._key(len(self._outputs) - 1)
        return lamp.status(key, self._settings.state_words, decimal=_DECIMAL in self._options)

    def _facts(self) -> answers.Facts:
        light: Mapping[str, Json] = {}
        lamp = None
        if self._lamp is not None:
            lamp = (len(self._outputs) - 1, self._lamp.kind.subtype)
            light = {**self._lamp_status(self._lamp), "Fade": "OFF", "Speed": 1, "LedTable": "ON"}
        return answers.Facts(
            settings=self._settings,
            topics=self._topics,
            options=frozenset(self._options),
            mac=self._mac,
            address=self._settings.address or self._board.address,
            module=self._module,
            period=self._timing.period,
            boots=self._boots,
            connects=self._connects,
            uptime=self._board.uptime(),
            now=self._board.wall(),
            powers=[output.told_power for output in self._outputs],
            lamp=lamp,
            light=light,
            firmware=self._flash.told,
            used=self._flash.used,
            room=self._flash.room,
        )

    def _key(self, place: int) -> str:
        several = len(self._outputs) > 1 or _NUMBERED in self._options
        return f"POWER{place + 1}" if several else "POWER"

    def _answer(self, name: str, body: Mapping[str, Json]) -> None:
        """On ``RESULT``, or on the command's own topic (SetOption4)."""
        topic = name if _OWN_TOPIC in self._options else "RESULT"
        self._say(self._topics.answer(topic, by_fallback=self._by_fallback), _json(body))

    def _tell_upgrade(self, name: str, body: Mapping[str, Json]) -> None:
        """An answer; the outcome comes on a topic of its own, whatever SetOption4 says."""
        own = name.removeprefix("stat/")
        if own == name:
            self._answer(name, body)
        else:
            self._say(self._topics.answer(own), _json(body))

    def _say(self, topic: str, payload: str, *, retain: bool = False) -> None:
        kept = retain and _NO_RETAIN not in self._options
        self._board.say(Said(topic, payload.encode(), 0, kept))


def _json(value: Mapping[str, Json]) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
