"""The trace of a command on the running system: from its issuer through queue and broker, and back."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typing_extensions import override

from edgeagent.clock import ProvenClock, SystemTime
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.door import decode
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.reports.trace import TraceReport
from edgeagent.issuer.client import IssuerClient
from edgeagent.issuer.commands import SignedCommand
from tests.support.agents_venue import PLUG, Venue
from tests.support.brokers import wait_until
from tests.support.device import Device

pytestmark = [pytest.mark.slow, pytest.mark.requirement("O2", "O3")]

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
NAMES = ["command", "cloud", "gate", "lane", "work", "step", "confirmation", "receipt"]


def sent(venue: Venue) -> SignedCommand:
    """A command that its issuer has sent with a place in a trace."""
    signed = venue.sign(PLUG, ActionName.POWER, {"on": True})

    async def send() -> None:
        settings, clock = venue.server.settings(venue.server.issuer_token), ProvenClock(SystemTime())
        async with IssuerClient(settings, clock) as cloud:
            await cloud.send(signed, traceparent=f"00-{TRACE}-{SPAN}-01")

    asyncio.run(send())
    return signed


def drawn(venue: Venue, command: SignedCommand) -> TraceReport:
    """What the command line says of its way."""
    told = venue.agent.run("--json", "commands", "trace", command.command.id)
    assert told.returncode == 0, told.stderr
    return decode(TraceReport, told.stdout.encode(), limit=1_000_000)


def test_a_trace_goes_from_the_issuer_to_the_device_and_back(tmp_path: Path) -> None:
    with Venue(tmp_path) as venue, Device(venue.broker.port) as onlooker:
        venue.open()
        onlooker.listens("cmnd/#")
        command = sent(venue)

        assert venue.end_of(command).outcome is Outcome.SUCCEEDED
        wait_until(lambda: len(drawn(venue, command).ways[0].spans) > len(NAMES), "the upload to be noted")
        [way] = drawn(venue, command).ways
        spans = {span.name: span for span in way.spans}
        assert (way.trace, spans["command"].parent) == (TRACE, SPAN)
        assert {*spans} == {*NAMES, "upload"}

        # The device and the issuer were told where they are in it; every line of the log tells it too.
        place = f"00-{TRACE}-{{}}-01"
        [heard] = [each for each in onlooker.hears_out("cmnd/nobody/mark") if each.payload == b"ON"]
        assert heard.told == (("traceparent", place.format(spans["step"].span)),)
        [receipt] = venue.cloud.receipts(command.command.id)
        assert receipt.traceparent == place.format(spans["receipt"].span)
        about = [line for line in venue.agent.log.splitlines() if command.command.id in line]
        assert about
        assert all(TRACE in line for line in about)

        # Without the agent it is drawn just so.
        text = venue.agent.run("commands", "trace", command.command.id).stdout
        venue.agent.kill()
        alone = venue.agent.run("commands", "trace", command.command.id)
        assert (alone.returncode, alone.stdout) == (0, text)


@contextmanager
def collecting(bodies: list[bytes]) -> Iterator[str]:
    """A collector's endpoint, which keeps what it is sent."""

    class Takes(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        @override
        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Takes)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_collector_gets_the_spans_of_the_running_agent(tmp_path: Path) -> None:
    proto = pytest.importorskip(
        "opentelemetry.proto.collector.trace.v1.trace_service_pb2", reason="the extra otel is not installed"
    )
    bodies: list[bytes] = []
    with collecting(bodies) as endpoint, Venue(tmp_path) as venue:
        with venue.agent.config.open("a") as config:
            config.write(f'[trace]\notlp_endpoint = "{endpoint}"\n')
        venue.open()
        command = sent(venue)
        venue.end_of(command)
        wait_until(lambda: bodies != [], "the collector to be told")

        request = proto.ExportTraceServiceRequest()
        request.ParseFromString(bodies[0])
        found = [
            span for each in request.resource_spans for scope in each.scope_spans for span in scope.spans
        ]
        assert {span.trace_id.hex() for span in found} == {TRACE}
        [way] = drawn(venue, command).ways
        assert {(span.name, span.span_id.hex()) for span in found} == {
            (span.name, span.span) for span in way.spans
        }
        assert venue.agent.stop() == 0
