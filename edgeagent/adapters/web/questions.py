"""What the page may ask: functions that look.

The page is handed these and never a desk, so that nothing which it can reach changes anything.
"""

from collections.abc import Awaitable, Callable

from edgeagent.contracts.reports.breakers import BreakersReport
from edgeagent.contracts.reports.commands import CommandsReport
from edgeagent.contracts.reports.dead_letters import LettersReport
from edgeagent.contracts.reports.devices import DevicesReport
from edgeagent.contracts.reports.health import HealthReport
from edgeagent.contracts.reports.history import HistoryReport, HistorySample
from edgeagent.contracts.reports.locks import LocksReport
from edgeagent.contracts.reports.status import StatusReport
from edgeagent.contracts.reports.switch import StopsReport
from edgeagent.contracts.reports.trace import TraceReport
from edgeagent.ids import CommandId
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """Each raises a ``TransientError`` while the store cannot be read.

    Attributes:
        status: the hub at a glance.
        health: all checks.
        devices: devices and proposals.
        commands: those that came last.
        command: one on each of its devices; an ``UnknownError`` for none.
        trace: the way of one; an ``UnknownError`` for none.
        letters: the dead letters that nobody has dealt with, without what is in them.
        breakers: those that there is something to say of.
        stops: the last word on each kind of command.
        locks: who works which device.
        history: how much has waited.
        latest: how much waits; None while that is not known.
        mark: grows with each row of the audit trail: what is on record is as it was while it stays.
    """

    status: Callable[[], Awaitable[StatusReport]]
    health: Callable[[], Awaitable[HealthReport]]
    devices: Callable[[], Awaitable[DevicesReport]]
    commands: Callable[[], Awaitable[CommandsReport]]
    command: Callable[[CommandId], Awaitable[CommandsReport]]
    trace: Callable[[CommandId], Awaitable[TraceReport]]
    letters: Callable[[], Awaitable[LettersReport]]
    breakers: Callable[[], Awaitable[BreakersReport]]
    stops: Callable[[], StopsReport]
    locks: Callable[[], Awaitable[LocksReport]]
    history: Callable[[], HistoryReport]
    latest: Callable[[], HistorySample | None]
    mark: Callable[[], Awaitable[int]]
