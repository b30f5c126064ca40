"""How Tasmota reads a command (support_command.ino).

Only the last level of the topic counts, in any case, and digits at its end are an index. The payload is text
up to the first NUL. It is also tried as a number in the way of C's ``strtol``, and as one of a few words, so:

*   ``40 %`` is 40, ``0x28`` is 40, ``050`` is 40 (octal).
*   ``ON``, ``TRUE``, ``START`` are 1 wherever a number is wanted: ``Dimmer ON`` dims to 1 %.
*   What is neither is -99, which most commands take for a query: ``POWER FOO`` answers with the state.
*   An empty payload or ``?`` is a query.
"""

import re
from dataclasses import dataclass
from typing import Final

NO_NUMBER: Final = -99
_NUMBER: Final = re.compile(r"\s*([+-]?)(0[xX][0-9a-fA-F]+|[0-9]+)", re.ASCII)
_MOST: Final = 2**31 - 1
# More digits than any command means, and fewer than int() minds.
_DIGITS: Final = 12

TOGGLE: Final = 2
BLINK: Final = 3
BLINK_OFF: Final = 4
_WORDS: Final = {
    "OFF": 0,
    "FALSE": 0,
    "STOP": 0,
    "ON": 1,
    "TRUE": 1,
    "START": 1,
    "TOGGLE": TOGGLE,
    "BLINK": BLINK,
    "BLINKOFF": BLINK_OFF,
}


@dataclass(frozen=True, slots=True)
class Command:
    """A command as read.

    Attributes:
        name: in capitals, without its index.
        index: 1 when there was none.
        data: the payload without leading space; empty for a query.
        number: the payload as a number, or ``NO_NUMBER``.
    """

    name: str
    index: int
    data: str
    number: int


def command(topic: str, payload: bytes) -> Command:
    """Read a command."""
    last = topic.rpartition("/")[2].upper()
    name = last.rstrip("0123456789")
    digits = last[len(name) :]
    data = payload.partition(b"\0")[0].decode("utf-8", "replace").lstrip()
    if data == "?":
        data = ""
    return Command(name, int(digits[-_DIGITS:]) if digits else 1, data, number(data))


def number(text: str) -> int:
    """A payload as a number: a word first, then what ``strtol`` with base 0 makes of it."""
    word = _WORDS.get(text.upper())
    if word is not None:
        return word
    match = _NUMBER.match(text)
    if match is None:
        return NO_NUMBER
    sign, digits = -1 if match[1] == "-" else 1, match[2]
    if len(digits) > _DIGITS:
        return sign * _MOST
    return sign * min(_base_0(digits), _MOST)


def _base_0(digits: str) -> int:
    if digits[:2] in {"0x", "0X"}:
        return int(digits, 16)
    if digits[0] == "0":
        octal = re.match(r"[0-7]+", digits)
        return int(octal[0], 8) if octal else 0
    return int(digits)
