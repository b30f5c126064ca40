"""A command's way as spans, drawn from what is on record of it.

    command ─┬─ cloud         issued > here
             ├─ gate          judged on arrival
             ├─ held, lane, wait
             ├─ work          the device's lock ─┬─ step          sent
             │                                   └─ confirmation  until its end is known
             ├─ receipt
             └─ upload        receipt > proven by the cloud

Nothing is measured for it: the rows of the audit trail and the moments of the inbox tell all, so that it
can be drawn long afterwards and without an agent (SPEC O2). Moments are by the clock of the one who wrote
them; a span that would end before it begins is of no length.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime

from pydantic import JsonValue

from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.tracing import trace_of, within
from edgeagent.ids import CommandId, DeviceId, Digest
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True)
class Noted:
    """A row of the audit trail about the run.

    Attributes:
        kind: what it tells.
        at: when.
        detail: the rest.
    """

    kind: str
    at: datetime
    detail: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """What is on record of a run of a command on a device.

    Attributes:
        command: which.
        device: where.
        run: the number of the run.
        payload: the digest of the command's payload.
        traceparent: what came beside it.
        issued_at: when its issuer signed it; None for one that was typed here.
        received_at: when it came.
        rows: in the order of the trail.
        replay_of: the run of which a person had this one made.
        uploaded_at: when the cloud had its receipt; None: not yet.
    """

    command: CommandId
    device: DeviceId
    run: int
    payload: Digest
    traceparent: str | None
    issued_at: datetime | None
    received_at: datetime
    rows: Sequence[Noted]
    uploaded_at: datetime | None
    replay_of: int | None = None


@dataclass(slots=True)
class Span:
    """A stretch of a command's way.

    Attributes:
        name: one of those in the picture above, or the kind of a row that has no other place.
        id: 16 hexadecimal digits.
        parent: the id of the span that it is a part of; empty for a trace that begins here.
        start: when it began.
        end: when it ended; None while it goes on.
        says: what else is known of it.
    """

    name: str
    id: str
    parent: str
    start: datetime
    end: datetime | None = None
    says: dict[str, str] = field(default_factory=dict)

    def ends(self, at: datetime) -> None:
        """End it."""
        self.end = max(self.start, at)


def spans_of(way: Way) -> list[Span]:
    """The spans of a run, the whole first, the others in the order in which they began."""
    drawing = _Drawing(way)
    if way.issued_at is not None:
        drawing.point("cloud", min(way.issued_at, way.received_at), until=way.received_at)
    for row in way.rows:
        drawing.take(row)
    return drawing.done()


class _Drawing:
    """Draws row by row."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._trace = trace_of(way.traceparent, way.payload)
        began = way.received_at if way.issued_at is None else min(way.issued_at, way.received_at)
        is_begun_here = way.traceparent is None or not int(self._trace.span, 16)
        self._whole = Span("command", self._id("command"), "" if is_begun_here else self._trace.span, began)
        self._whole.says = {"command": way.command, "device": way.device, "run": str(way.run)}
        if way.replay_of is not None:
            self._whole.says["replay_of"] = str(way.replay_of)
        self._spans = [self._whole]
        self._open: dict[str, Span] = {}
        self._tries = 0

    def take(self, row: Noted) -> None:
        """Draw what a row tells."""
        at, says = row.at, _said(row.detail)
        match row.kind:
            case AuditKind.COMMAND_ACCEPTED | AuditKind.COMMAND_HELD:
                self._close(at)
                self.point("gate", self._way.received_at, until=at, says=_of(says, "reason", "policy"))
                held = row.kind == AuditKind.COMMAND_HELD
                self._begin("held" if held else "lane", at, _of(says, "reason" if held else "lane"))
            case AuditKind.DEAD_LETTER_REPLAYED:
                self.point(row.kind, at, says=_of(says, "dead_letter", "replay_of"))
                self._begin("held" if says.get("said") == "held" else "lane", at, _of(says, "reason"))
            case AuditKind.COMMAND_QUEUED | AuditKind.COMMAND_TAKEN_OVER:
                self._close(at)
                self._begin("lane", at, _of(says, "reason"))
            case AuditKind.COMMAND_CLAIMED:
                self._close(at)
                self._begin("work", at, _of(says, "holder", "fence", "lane"), int(says.get("fence", "0")))
            case AuditKind.STEP_SENT:
                self._close(at, but="work")
                self._step(at, says)
            case AuditKind.STEP_ENDED:
                if "confirmation" in self._open:
                    self._open["confirmation"].says |= _of(says, "step", "phase", "level", "reason")
                self._close(at, but="work")
            case AuditKind.COMMAND_WAITING:
                self._close(at)
                self._begin("wait", at, _of(says, "reason", "error", "due_in"))
            case AuditKind.COMMAND_SETTLED | AuditKind.COMMAND_REFUSED:
                self._settled(at, _of(says, "outcome", "reason", "level", "receipt"))
            case _:
                self.point(row.kind, at)

    def point(
        self,
        name: str,
        at: datetime,
        *,
        until: datetime | None = None,
        says: dict[str, str] | None = None,
        number: int = 0,
        drawn_from: str = "",
    ) -> None:
        """Draw something that is over."""
        span = self._span(name, at, {} if says is None else says, number, drawn_from)
        span.ends(at if until is None else until)

    def done(self) -> list[Span]:
        """Everything that was drawn."""
        if not self._open and len(self._spans) > 1:
            self._whole.end = max(span.end or span.start for span in self._spans)
        rest = sorted(self._spans[1:], key=lambda span: span.start)
        return [self._whole, *rest]

    def _step(self, at: datetime, says: Mapping[str, str]) -> None:
        """Draw that a step was sent; the parts of one action have names of their own."""
        self._tries += 1
        part = f"step {says['step']} {says.get('phase', '')}" if "step" in says else "step"
        number = int(says.get("attempt", "0")) or self._tries
        told = _of(says, "step", "phase", "topic", "attempt")
        self.point("step", at, says=told, number=number, drawn_from=part)
        self._begin("confirmation", at, {}, self._tries)

    def _settled(self, at: datetime, says: dict[str, str]) -> None:
        self._close(at)
        self._whole.says |= says
        self.point("receipt", at, says=says)
        if self._way.uploaded_at is not None:
            self.point("upload", at, until=self._way.uploaded_at)

    def _begin(self, name: str, at: datetime, says: dict[str, str], number: int | None = None) -> None:
        count = sum(span.name == name for span in self._spans) if number is None else number
        self._open[name] = self._span(name, at, says, count)

    def _span(self, name: str, at: datetime, says: dict[str, str], number: int, drawn_from: str = "") -> Span:
        work = self._open.get("work")
        inner = work is not None and name in {"step", "confirmation"}
        parent = work if inner and work is not None else self._whole
        taken = {span.id for span in self._spans}
        while (own := self._id(drawn_from or name, number)) in taken:  # a row that is told twice
            number += 1
        span = Span(name, own, parent.id, at, says=says)
        self._spans.append(span)
        return span

    def _close(self, at: datetime, but: str = "") -> None:
        for name in [name for name in self._open if name != but]:
            self._open.pop(name).ends(at)

    def _id(self, name: str, number: int = 0) -> str:
        return within(self._trace, self._way.device, self._way.run, name, number).span


def _said(detail: Mapping[str, JsonValue]) -> dict[str, str]:
    return {name: str(value) for name, value in detail.items() if value is not None and value != ""}


def _of(says: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: says[name] for name in names if name in says}
