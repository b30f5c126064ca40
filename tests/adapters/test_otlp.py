"""Traces over the wire: a real HTTP endpoint that decodes the protobuf."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web

from edgeagent.core.timeline import Span
from edgeagent.ids import hub_id
from edgeagent.ports.links import LinkError
from edgeagent.ports.spans import Traced
from tests.support.brokers import free_port

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra otel is not installed")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from edgeagent.adapters.otlp import OtlpSink

pytestmark = pytest.mark.requirement("O2")

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
NOON = datetime(2026, 12, 1, 12, 0, 0, 123456, tzinfo=UTC)
HUB = hub_id("venue-7")


@dataclass(slots=True)
class Collector:
    """What has come, and what it says to it.

    Attributes:
        port: where it listens.
        status: with which it answers.
        requests: what it decoded.
    """

    port: int
    status: int = 200
    requests: list[ExportTraceServiceRequest] = field(default_factory=list)

    async def take(self, request: web.Request) -> web.Response:
        """Decode what has come."""
        assert request.content_type == "application/x-protobuf"
        decoded = ExportTraceServiceRequest()
        decoded.ParseFromString(await request.read())
        self.requests.append(decoded)
        body = ExportTraceServiceResponse().SerializeToString()
        return web.Response(status=self.status, body=body, content_type="application/x-protobuf")


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    """A collector that listens."""
    collector = Collector(free_port())
    app = web.Application()
    app.add_routes([web.post("/v1/traces", collector.take)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", collector.port).start()
    try:
        yield collector
    finally:
        await runner.cleanup()


def traced() -> Traced:
    """A command that has failed, and its step."""
    whole = Span("command", "a" * 16, SPAN, NOON, NOON + timedelta(seconds=2))
    whole.says = {"command": "c-1", "outcome": "failed"}
    step = Span("step", "b" * 16, "a" * 16, NOON + timedelta(seconds=1), NOON + timedelta(seconds=1))
    return Traced(TRACE, [whole, step])


async def test_spans_arrive_under_their_own_ids_with_their_times() -> None:
    async with collecting() as collector:
        await OtlpSink(f"http://127.0.0.1:{collector.port}", HUB).send([traced()])

    [request] = collector.requests
    [resource] = request.resource_spans
    named = {each.key: each.value.string_value for each in resource.resource.attributes}
    whole, step = (span for scope in resource.scope_spans for span in scope.spans)
    assert (named["service.name"], named["service.instance.id"]) == ("edgeagent", "venue-7")
    assert (whole.name, whole.trace_id.hex(), whole.span_id.hex()) == ("command", TRACE, "a" * 16)
    assert (whole.parent_span_id.hex(), step.parent_span_id.hex()) == (SPAN, "a" * 16)
    assert whole.start_time_unix_nano == 1_796_126_400_123_456_000
    assert whole.end_time_unix_nano - whole.start_time_unix_nano == 2_000_000_000
    assert {each.key: each.value.string_value for each in whole.attributes} == {
        "edgeagent.command": "c-1",
        "edgeagent.outcome": "failed",
    }
    assert (whole.status.code, step.status.code) == (2, 0)


async def test_a_collector_that_says_no_is_told_as_such() -> None:
    async with collecting() as collector:
        collector.status = 400
        with pytest.raises(LinkError):
            await OtlpSink(f"http://127.0.0.1:{collector.port}", HUB).send([traced()])


@pytest.mark.slow
async def test_a_collector_that_is_not_there_holds_nobody_for_long() -> None:
    with pytest.raises(LinkError):
        await OtlpSink(f"http://127.0.0.1:{free_port()}", HUB).send([traced()])
