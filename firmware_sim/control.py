"""What may be asked of a running fleet: one JSON object per line, answered by one line.

    {"do": "state", "appliance": "*"}
    {"do": "press", "appliance": "shellyplus2pm-02a1b2c3d4e5", "button": 2}
    {"do": "reboot", "appliance": "02A1B2C3D4E5", "lasting": "2s"}
    {"do": "disconnect", "appliance": "02A1*", "lasting": "2s"}
    {"do": "fault", "appliance": "*", "fault": {"fault": "drop", "probability": 0.1}}
    {"do": "heal", "appliance": "*"}
    {"do": "publish", "appliance": "02A1B2C3D4E5", "topic": "tele/x/LWT", "payload": "Online", "retain": true}
    {"do": "burst", "count": 10000, "rate": 500, "first": 1}
    {"do": "stop"}

``appliance`` is an id or a shell pattern over ids. ``publish`` takes ``payload_base64`` for bytes that are
no text, and ``qos`` 0 to 2. The answer is ``{"ok": true, "done": {"<id>": …}}`` with a word for each
appliance: its state, how many faults were set, whether the message was sent, otherwise null; or, for all or
nothing at all, ``{"ok": false, "error": "…"}``. A ``tag`` is repeated. A line that cannot be read changes
nothing.
"""

import asyncio
import base64
import binascii
from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import StrEnum
from sys import float_info

from firmware_sim.appliance import Appliance
from firmware_sim.burst import Burst, burst
from firmware_sim.faults import fault
from firmware_sim.fields import Fields, InputError, Json, parse
from firmware_sim.firmware import Said
from firmware_sim.fleet import Fleet

_HIGHEST_QOS = 2


class Verb(StrEnum):
    """What can be asked; see the module's docstring."""

    STATE = "state"
    PRESS = "press"
    REBOOT = "reboot"
    DISCONNECT = "disconnect"
    FAULT = "fault"
    HEAL = "heal"
    PUBLISH = "publish"
    BURST = "burst"
    STOP = "stop"


class Control:
    """Answers the lines.

    Args:
        fleet: whose.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.stopped = asyncio.Event()
        """Set when somebody has asked to stop."""

    async def answer(self, line: bytes) -> dict[str, Json]:
        """Do what a line asks, and say so."""
        tag: Mapping[str, Json] = {}
        try:
            fields = Fields(parse(line, "line"), "line")
            if fields.has("tag"):
                tag = {"tag": fields.take("tag")}
            verb = fields.choice("do", Verb)
            done = await self._do(verb, fields)
        except InputError as why:
            return {"ok": False, "error": str(why), **tag}
        return {"ok": True, **done, **tag}

    async def _do(self, verb: Verb, fields: Fields) -> Mapping[str, Json]:
        match verb:
            case Verb.STOP:
                fields.done()
                self.stopped.set()
                return {}
            case Verb.BURST:
                return await self._burst(fields)
            case _:
                chosen = self._fleet.named(fields.text("appliance"))
                act = _read(verb, fields)
                fields.done()
                return {"done": {one.id: act(one) for one in chosen}}

    async def _burst(self, fields: Fields) -> Mapping[str, Json]:
        wanted = Burst(
            count=fields.whole("count", least=1),
            rate=fields.number("rate", 0.0, least=0, most=float_info.max),
            first=fields.whole("first", 1),
        )
        fields.done()
        tally = await burst(self._fleet.appliances.values(), self._fleet.world.journal, wanted)
        return {
            "sent": tally.sent,
            "acknowledged": tally.acknowledged,
            "lost": tally.lost,
            "seconds": tally.seconds,
        }


def _read(verb: Verb, fields: Fields) -> Callable[[Appliance], Json]:
    """Read what to do to each appliance, before anything is done to one."""
    match verb:
        case Verb.STATE:
            return Appliance.state
        case Verb.PRESS:
            button = fields.whole("button", 1, least=1)
            return lambda one: one.press(button)
        case Verb.REBOOT | Verb.DISCONNECT:
            lasting = fields.duration("lasting", timedelta(0)) if fields.has("lasting") else None
            return lambda one: one.reboot(lasting) if verb is Verb.REBOOT else one.disconnect(lasting)
        case Verb.FAULT:
            wanted = fault(fields.take("fault"))
            return lambda one: one.set_faults([wanted])
        case Verb.HEAL:
            return Appliance.heal
        case Verb.PUBLISH:
            message = _message(fields)
            return lambda one: _published(one, message)
        case _:
            raise AssertionError(verb)


def _message(fields: Fields) -> Said:
    topic, retain = fields.text("topic"), fields.flag("retain", default=False)
    qos = fields.whole("qos", 0)
    if qos > _HIGHEST_QOS:
        raise InputError(f"{fields.where}.qos: 0 to {_HIGHEST_QOS}")
    if fields.has("payload_base64"):
        try:
            payload = base64.b64decode(fields.text("payload_base64"), validate=True)
        except binascii.Error as why:
            raise InputError(f"{fields.where}.payload_base64: {why}") from why
    else:
        payload = fields.text("payload").encode()
    return Said(topic, payload, qos, retain)


def _published(appliance: Appliance, message: Said) -> bool:
    try:
        return appliance.publish(message)
    except ValueError as why:
        raise InputError(f"the message cannot be sent: {why}") from why
