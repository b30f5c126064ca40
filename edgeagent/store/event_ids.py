"""Where an event lies in the outbox: the place of its stream and its number, in one integer.

What comes last has the largest id of its stream, and telemetry, of which there is most, that of the table:
its pages are filled one after the other, and a commit writes the fewest.
"""

from typing import Final

from edgeagent.contracts.event import Stream

_BITS: Final = 56
_FIRST: Final = {stream: place << _BITS for place, stream in enumerate(Stream)}
_SPAN: Final = (1 << _BITS) - 1


def event_id(stream: Stream, number: int) -> int:
    """Where an event lies; for the number 0 one less than where the first of its stream does."""
    return _FIRST[stream] + number


def within(stream: Stream) -> dict[str, str | int]:
    """A stream, and the ids between which its events are, as a statement's ``stream, first, last``."""
    first = _FIRST[stream]
    return {"stream": stream, "first": first, "last": first + _SPAN}
