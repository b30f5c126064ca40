"""What a broker's reason codes mean for us (MQTT 5 section 2.4)."""

from datetime import timedelta
from typing import Final

from edgeagent.ports.links import LinkError, Trouble

SUCCESS: Final = 0x00
GRANTED_QOS_1: Final = 0x01
NO_MATCHING_SUBSCRIBERS: Final = 0x10
FAILURE: Final = 0x80
"""Codes from here on are refusals."""
_TAKEN_OVER: Final = 0x8E
_MOVED: Final = frozenset({0x9C, 0x9D})

_LOGIN: Final = frozenset({0x85, 0x86, 0x87, 0x8A, 0x8C, 0x98, _TAKEN_OVER})
_BUSY: Final = frozenset({0x88, 0x89, 0x96, 0x97, 0x9F})
_AWAY: Final = frozenset({0x8B, *_MOVED})

# MQTT has no word for how long; a broker that is overrun is left alone for longer than a first retry.
_BUSY_WAIT: Final = timedelta(seconds=10)
_MOVED_WAIT: Final = timedelta(seconds=60)
_LONGEST_WORDS: Final = 200


def refusal(code: int, name: str, reason: str, *, client_id: str) -> LinkError:
    """What to make of a CONNACK or DISCONNECT.

    Args:
        code: its reason code.
        name: the standard's name of the code.
        reason: what the broker adds, if anything.
        client_id: ours.
    """
    words = f"{name.lower()} (0x{code:02x})"
    if reason:
        words += f": {cleaned(reason)}"
    if code == _TAKEN_OVER:
        words = f"another client has taken over as {client_id}: are there two agents with one identity?"
    if code in _MOVED:
        # Not followed: whoever answers here would choose where our password goes.
        return LinkError(Trouble.UNREACHABLE, f"the broker sends us elsewhere: {words}", _MOVED_WAIT)
    if code in _LOGIN:
        return LinkError(Trouble.LOGIN, words)
    if code in _BUSY:
        return LinkError(Trouble.BUSY, words, _BUSY_WAIT)
    if code in _AWAY:
        return LinkError(Trouble.UNREACHABLE, words)
    return LinkError(Trouble.BROKEN_ANSWER, words)


def cleaned(text: str) -> str:
    """What a stranger wrote, fit for a log and a terminal."""
    return "".join(char if char.isprintable() else "?" for char in text[:_LONGEST_WORDS])
