"""What the appliances heard and did, as JSON lines for an outside verdict.

One line per happening, flushed at once, so that a reader beside a running fleet misses nothing and a
killed fleet loses nothing. Every line has ``at`` (UTC), ``n`` (rising by one), ``appliance`` and
``what``; the members of ``What`` tell the rest. A verdict counts effects per appliance and action:

    {"at": "2026-11-29T20:00:01.250000Z", "n": 41, "appliance": "shellyplus2pm-08b61f000001",
     "what": "effect", "action": "power", "part": "switch:0", "before": {"power": false},
     "after": {"power": true}, "changed": true, "count": 3, "changes": 2, "cause": "command", "command": 7}

``count`` is how often this appliance has carried out this action, ``changes`` how often that changed
anything; ``command`` is the number of the ``heard`` line that caused it. A command that came and was
not acted upon is still ``heard``, with the faults that kept it from acting.
"""

import base64
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TextIO

from firmware_sim.fields import Fields, InputError, Json, parse


class What(StrEnum):
    """The kinds of lines."""

    STARTED = "started"
    """Plugged in: ``description``, ``state``."""
    ONLINE = "online"
    """The broker took the connection: ``fresh`` is true after a boot."""
    LISTENING = "listening"
    """The subscriptions stand: ``refused`` lists those that the broker did not grant."""
    OFFLINE = "offline"
    """The connection is gone: ``why``."""
    HEARD = "heard"
    """A message came: ``command`` (its number), ``topic``, ``payload`` or ``payload_base64``, ``qos``,
    ``retain``, ``dup``, ``expiry`` (seconds, MQTT 5 only), ``faults``."""
    EFFECT = "effect"
    """Something was carried out; see the module's docstring."""
    FAULT = "fault"
    """A fault struck something else than a command: ``fault``, ``way``, ``topic``."""
    STATE = "state"
    """The true state of all parts, told at the end: ``state``."""
    DOWNLOAD = "download"
    """A download has ended: ``part``, ``url``, ``begin`` (the first byte asked for), ``bytes`` (that came),
    ``why`` (empty when all came)."""
    BOOTED = "booted"
    """The boot has tried what is in flash: ``part``, ``slot``, ``version``, ``sha256``, ``outcome`` (``up``,
    ``crashed``, ``damaged``), ``trial``."""
    GONE = "gone"
    """It is off for good: ``part``, ``why``."""
    ABUSED = "abused"
    """A hostile appliance has done something: ``deed``, and what came of it."""
    ACKNOWLEDGED = "acknowledged"
    """The broker sent PUBACKs for these messages of a burst: ``ranges``, ends included."""
    LOST = "lost"
    """These messages of a burst will never be acknowledged, since their connection went: ``ranges``."""
    STOPPED = "stopped"
    """Unplugged."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a journal, read back.

    Attributes:
        at: when.
        number: rising by one in a journal.
        appliance: whose.
        what: its kind.
        details: the other fields.
    """

    at: datetime
    number: int
    appliance: str
    what: What
    details: Mapping[str, Json]


class Journal:
    """Writes the lines and keeps the counts. Not thread-safe: it lives on the event loop.

    Args:
        out: where the lines go; None keeps only the counts.
    """

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out
        self._number = 0
        self._counts: Counter[tuple[str, str]] = Counter()
        self._changes: Counter[tuple[str, str]] = Counter()

    def note(self, appliance: str, what: What, details: Mapping[str, Json]) -> None:
        """Write one line."""
        self._number += 1
        if self._out is None:
            return
        at = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        line = {"at": at, "n": self._number, "appliance": appliance, "what": what.value, **details}
        self._out.write(json.dumps(line, separators=(",", ":")) + "\n")
        self._out.flush()

    def note_effect(self, appliance: str, action: str, details: Mapping[str, Json], *, changed: bool) -> None:
        """Write that something was carried out, and count it."""
        key = (appliance, action)
        self._counts[key] += 1
        self._changes[key] += changed
        totals = {"changed": changed, "count": self._counts[key], "changes": self._changes[key]}
        self.note(appliance, What.EFFECT, {"action": action, **details, **totals})

    def count(self, appliance: str, action: str) -> int:
        """How often an appliance has carried out an action."""
        return self._counts[appliance, action]

    def changes(self, appliance: str, action: str) -> int:
        """How often carrying out an action changed something."""
        return self._changes[appliance, action]


def as_json(payload: bytes) -> dict[str, Json]:
    """A payload as a field of a line: text where it is text, otherwise base64."""
    try:
        return {"payload": payload.decode()}
    except UnicodeDecodeError:
        return {"payload_base64": base64.b64encode(payload).decode()}


@contextmanager
def opened(path: Path | None) -> Iterator[Journal]:
    """A journal that appends to a file, closed at the end; without a path, one that only counts.

    Raises:
        InputError: the file cannot be opened.
    """
    if path is None:
        yield Journal()
        return
    try:
        out = path.open("a", encoding="utf-8")
    except OSError as why:
        raise InputError(f"{path}: {why.strerror}") from why
    with out:
        yield Journal(out)


def read(path: Path) -> list[Line]:
    """Read a journal back; a last line that is still being written is left out.

    Raises:
        InputError: a line is not one of ours.
    """
    text = path.read_text("utf-8")
    whole = text[: text.rfind("\n") + 1]
    return [_line(raw, f"{path.name}:{place}") for place, raw in enumerate(whole.splitlines(), 1)]


def _line(raw: str, where: str) -> Line:
    fields = Fields(parse(raw, where), where)
    at, number = fields.text("at"), fields.whole("n", least=1)
    appliance, what = fields.text("appliance"), fields.choice("what", What)
    try:
        moment = datetime.fromisoformat(at)
    except ValueError as why:
        raise InputError(f"{where}.at: {at!r} is no time") from why
    details = {name: fields.take(name) for name in fields.names()}
    return Line(at=moment, number=number, appliance=appliance, what=what, details=details)
