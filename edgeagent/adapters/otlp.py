"""Traces to a collector: OTLP over HTTP (OpenTelemetry Protocol 1.x, binary protobuf).

The libraries are an extra of the package and are imported here alone; whoever configures no collector needs
none of them. Their exporter is synchronous: it runs in a thread, and for a bounded time.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from edgeagent.clock import EPOCH
from edgeagent.core.timeline import Span
from edgeagent.ids import HubId
from edgeagent.ports.links import LinkError, Trouble
from edgeagent.ports.spans import Traced

_TIMEOUT: Final = 5.0
_MICROSECOND: Final = timedelta(microseconds=1)
# What a command ends as without having done what it was to do.
_FAILED: Final = frozenset({"failed", "unknown", "refused", "expired", "rolled_back", "rollback_failed"})


class OtlpSink:
    """Keeps the promise of ``SpanSink``."""

    def __init__(self, endpoint: str, hub: HubId) -> None:
        self._exporter = OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces", timeout=_TIMEOUT)
        self._resource = Resource({"service.name": "edgeagent", "service.instance.id": hub})

    async def send(self, traced: Sequence[Traced]) -> None:
        """Hand spans over; see ``SpanSink``."""
        spans = [self._readable(each.trace, span) for each in traced for span in each.spans]
        try:
            result = await asyncio.to_thread(self._exporter.export, spans)
        except OSError as why:
            raise LinkError(Trouble.UNREACHABLE, f"the collector cannot be reached: {why}") from why
        if result is not SpanExportResult.SUCCESS:
            raise LinkError(Trouble.UNREACHABLE, "the collector does not take traces")

    def _readable(self, trace: str, span: Span) -> ReadableSpan:
        """A span as the exporter wants it, under its own ids."""
        outcome = span.says.get("outcome", "")
        return ReadableSpan(
            name=span.name,
            context=_context(trace, span.id),
            parent=_context(trace, span.parent) if span.parent else None,
            resource=self._resource,
            attributes={f"edgeagent.{name}": value for name, value in span.says.items()},
            kind=SpanKind.CONSUMER if span.name == "command" else SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR if outcome in _FAILED else StatusCode.UNSET),
            start_time=_nanoseconds(span.start),
            end_time=_nanoseconds(span.end or span.start),
        )


def _context(trace: str, span: str) -> SpanContext:
    return SpanContext(int(trace, 16), int(span, 16), is_remote=False, trace_flags=TraceFlags(1))


def _nanoseconds(moment: datetime) -> int:
    return (moment - EPOCH) // _MICROSECOND * 1000
