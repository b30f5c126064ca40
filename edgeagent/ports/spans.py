"""Whoever collects traces, as the flows need it."""

from collections.abc import Sequence
from typing import Protocol

from edgeagent.core.timeline import Span
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True)
class Traced:
    """The spans of a run, with the trace that they belong to: 32 hexadecimal digits."""

    trace: str
    spans: Sequence[Span]


class SpanSink(Protocol):
    """The collector's side."""

    async def send(self, traced: Sequence[Traced]) -> None:
        """Hand spans over; all of them have ended.

        Raises:
            LinkError: they are not known to have arrived.
        """
        ...
