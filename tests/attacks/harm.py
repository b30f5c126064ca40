"""Texts that mean harm, and how to tell that one of them has got through to a terminal or a log."""

import json
from typing import Final

from pydantic import JsonValue

TEXTS: Final = {
    "a new line": 'two\nlines"} {"level": "error"',
    "a return": "over\rwritten",
    "a terminal's command": "\x1b[2J\x1b]0;title\x07",
    "another control": "\x9b31m\x85\x7f\x08",
    "reads backwards": "\u202egnp.exe\u2066\u2069",
    "of no width": "a\u200bb\u200d\u2060",
    "a byte order mark": "\ufeffx",
    "other line ends": "a\u2028b\u2029c\x0b\x0c",
    "NUL": "a\0b",
    "tags": "\U000e0041\U000e0042",
    "a path": "../../../etc/passwd",
    "a format": "%s%n{0.__class__}",
    "markup": "<script>alert(1)</script>",
    "a shell's": "$(id)`id`;id|id&id",
    "an option": "--json",
    "SQL": "'; DROP TABLE inbox; --",
    "look-alikes": "\u0430dmin",
    "very long": "x" * 5000,
}
"""By what they are; every one is text that JSON can carry."""

TOPIC_LEVELS: Final = {
    "a separator": "a/b",
    "one level": "+",
    "all levels": "#",
    "NUL": "a\0b",
    "the broker's own": "$SYS",
    "nothing": "",
    "65,535 bytes": "x" * 65_535,
    "a control": "a\x1b[2J",
    "backwards": "a\u202eb",
    "a space before": " \n",
}
"""What stands for no one level of a topic."""

IDS: Final = {
    **TOPIC_LEVELS,
    "look-alikes": "\u0430dmin",
    "composed": "caf\u00e9",
    "decomposed": "cafe\u0301",
    "of no width": "a\u200bb",
    "a byte order mark": "\ufeffa",
    "a path": "../a",
    "a dot": "a.b",
    "a format": "%s",
    "a line's end": "tv-1\n",
    "too long": "x" * 65,
}
"""What is no device id."""


def marks(text: str) -> list[str]:
    """What of a program's output a terminal would act on, escaped."""
    return [ascii(sign) for sign in text if sign != "\n" and not sign.isprintable()]


def log_lines(log: str) -> list[dict[str, JsonValue]]:
    """The lines of a log, each of which is one JSON object of printable ASCII."""
    lines = log.split("\n")
    assert lines.pop() == "", "the last line is cut"
    for line in lines:
        assert line.isascii(), line
        assert line.isprintable(), line
    return [json.loads(line) for line in lines]
