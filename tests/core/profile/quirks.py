"""The recorded oddities of real devices: ``tests/vectors/quirks.jsonl``, one input a line."""

import json
from base64 import b64decode
from dataclasses import dataclass
from functools import cache
from pathlib import Path

VECTORS = Path(__file__).parents[2] / "vectors" / "quirks.jsonl"


@dataclass(frozen=True, slots=True)
class Quirk:
    """One message that some device sends.

    Attributes:
        id: of the line.
        expect: what is to come of it, for people.
        topic: where.
        payload: what.
        retain: whether it is the broker's stored copy.
    """

    id: str
    expect: str
    topic: str
    payload: bytes
    retain: bool


@cache
def quirks() -> dict[str, Quirk]:
    """All single messages by id; sequences are told by tests of their own."""
    lines = [json.loads(line) for line in VECTORS.read_text("utf-8").splitlines()]
    return {line["id"]: _quirk(line) for line in lines if "seq" not in line}


def _quirk(line: dict[str, str]) -> Quirk:
    payload = line.get("payload_b64")
    raw = b64decode(payload) if payload is not None else _generated(line["payload"]).encode()
    return Quirk(line["id"], line["expect"], _generated(line["topic"]), raw, bool(line.get("retain", False)))


def _generated(text: str) -> str:
    """A text, or what it tells to generate: ``wrap`` around so many of one character, or a JSON array."""
    if not text.startswith("GENERATE:"):
        return text
    kind, _, rest = text.removeprefix("GENERATE:").partition(":")
    if kind == "json-array":
        return "[" + ",".join(["0"] * (int(rest) // 2)) + "]"
    frame, _, many = rest.rpartition(":")
    character, _, times = many.partition("*")
    return frame % (character * int(times))
