"""Logging as JSON lines on standard error: one object a line, times in UTC, text escaped.

A line says what happened in constant words; everything that varies is a field, given as ``extra``.
Every line about a command carries its id and its device (SPEC O3), every line of a drill the drill's name.
Control characters are escaped by JSON, and what a terminal could act on beyond ASCII too, so that no name
or payload of a device can write a line of its own or repaint a screen (SPEC V5).
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final

from typing_extensions import override

from edgeagent.flows.drills.marking import HELD

# What a LogRecord has by itself; the rest are our fields.
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Writes a record as one JSON object."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
        }
        drill = HELD.get()
        if drill:
            fields["drill"] = drill
        fields.update({name: value for name, value in vars(record).items() if name not in _STANDARD})
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        # ASCII only: bidirectional overrides and their like leave as escapes.
        return json.dumps(fields, ensure_ascii=True, default=str)


def set_up(level: str) -> None:
    """Send all logging of the process to standard error as JSON lines.

    Args:
        level: ``debug``, ``info``, ``warning`` or ``error``, for our own; libraries speak from ``warning``.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    set_level(level)


def set_level(level: str) -> None:
    """Have our own lines written from a level on; see ``set_up``."""
    logging.getLogger("edgeagent").setLevel(level.upper())
