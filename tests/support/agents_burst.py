"""Numbered telemetry while something else happens, and what became of each number.

A burst is sent by the appliances themselves (``firmware_sim.burst``). What the broker acknowledged to them
stands in their journal, what the cloud has is asked there; in between lies everything that is tested.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from firmware_sim.fields import Json
from firmware_sim.journal import Line, What
from tests.firmware_sim.process import FleetProcess
from tests.support.agents_cloud import FIRST


@dataclass(frozen=True, slots=True)
class Judgement:
    """What went wrong with numbered messages; empty when nothing did.

    Attributes:
        lost: the broker had acknowledged them to their plug, and the cloud does not have them.
        doubled: stored under more than one event id.
        invented: stored, and never sent.
    """

    lost: frozenset[int] = frozenset()
    doubled: frozenset[int] = frozenset()
    invented: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of a burst, as the appliances tell it."""

    sent: int
    acknowledged: int
    lost: int


class Burst:
    """A burst that goes on while the test does. Nothing else may be asked of the fleet meanwhile."""

    def __init__(self, fleet: FleetProcess, count: int, rate: float, first: int = FIRST) -> None:
        self._fleet = fleet
        stdin = fleet.process.stdin
        assert stdin is not None
        stdin.write(json.dumps({"do": "burst", "count": count, "rate": rate, "first": first}) + "\n")
        stdin.flush()

    def finish(self) -> Tally:
        """Wait until everything was sent, and acknowledged or lost."""
        answer = self._fleet.line()
        assert answer["ok"] is True, answer
        sent, acknowledged, lost = (int(str(answer[name])) for name in ("sent", "acknowledged", "lost"))
        return Tally(sent, acknowledged, lost)


def judged(lines: Sequence[Line], stored: Iterable[int]) -> Judgement:
    """Hold what is stored, once for each event, against what the appliances wrote down."""
    times = Counter(stored)
    acknowledged, maybe = numbers(lines, What.ACKNOWLEDGED), numbers(lines, What.LOST)
    return Judgement(
        lost=acknowledged.difference(times),
        doubled=frozenset(number for number, count in times.items() if count > 1),
        invented=frozenset(times) - acknowledged - maybe,
    )


def numbers(lines: Sequence[Line], what: What) -> frozenset[int]:
    """The numbers in the journal's lines of a kind."""
    return frozenset(
        number for line in lines if line.what is what for number in _expanded(line.details["ranges"])
    )


def _expanded(ranges: Json) -> Iterator[int]:
    assert isinstance(ranges, list)
    for entry in ranges:
        assert isinstance(entry, list)
        first, last = (int(str(end)) for end in entry)
        yield from range(first, last + 1)
