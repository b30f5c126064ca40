"""``edgeagent commands trace``: the way of a command as a timeline, also while the agent is down."""

import argparse
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from edgeagent import config as configuration
from edgeagent.cli.asking import Agent
from edgeagent.cli.failing import AgentDownError
from edgeagent.cli.printing import safe, show_json
from edgeagent.contracts.reports.trace import SpanReport, TraceReport, WayReport
from edgeagent.core.short_names import meant
from edgeagent.ids import CommandId, command_id

if TYPE_CHECKING:
    from edgeagent.config import Config

_WIDTH: Final = 32
_INNER: Final = frozenset({"step", "confirmation"})


def trace(arguments: argparse.Namespace) -> int:
    """Draw a command's way."""
    config, name = configuration.load(arguments.config), command_id(arguments.command)
    try:
        report = Agent(config.admin_socket).get(f"/v1/commands/{name}/trace", TraceReport)
    except AgentDownError:
        report = _drawn_alone(config, name)
    if arguments.json:
        show_json(report)
        return 0
    for number, way in enumerate(report.ways):
        if number:
            print()
        print(f"{report.command}  {way.device}  run {way.run}  trace {way.trace}")
        for line in _lines(way):
            print(line)
    return 0


def _drawn_alone(config: "Config", name: CommandId) -> TraceReport:
    """Draw it without an agent, from its files."""
    from edgeagent.flows.traces import drawn
    from edgeagent.store.inbox_names import begin_so
    from edgeagent.store.reading import read_only

    with read_only(config.database) as db:
        return drawn(db, command_id(meant(name, begin_so(db, name))))


def _lines(way: WayReport) -> list[str]:
    """One line for each span: when it began, how long it took, where in the whole."""
    begin = way.spans[0].start
    last = max(span.end or span.start for span in way.spans)
    return [_line(span, begin, last) for span in way.spans]


def _line(span: SpanReport, begin: datetime, last: datetime) -> str:
    name = f"  {span.name}" if span.name in _INNER else span.name
    took = "open" if span.end is None else _seconds(span.end - span.start)
    says = "  ".join(f"{name}={value}" for name, value in span.says.items())
    bar = _bar(span.start - begin, (span.end or last) - begin, last - begin)
    return safe(f"{_seconds(span.start - begin):>11}  {name:<16} {took:>11}  |{bar}|  {says}").rstrip()


def _bar(start: timedelta, end: timedelta, whole: timedelta) -> str:
    """Where something lies in the whole; a moment is one stroke."""
    scale = whole.total_seconds() or 1.0
    first = min(_WIDTH - 1, int(start.total_seconds() / scale * _WIDTH))
    upto = min(_WIDTH, max(first + 1, round(end.total_seconds() / scale * _WIDTH)))
    sign = "#" if end > start else ":"
    return " " * first + sign * (upto - first) + " " * (_WIDTH - upto)


def _seconds(length: timedelta) -> str:
    return f"{length.total_seconds():.3f} s"
