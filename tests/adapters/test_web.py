"""Metrics and health on loopback: what is shown, and to whom."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from edgeagent.adapters.web.server import WebServer
from edgeagent.contracts.door import decode
from edgeagent.contracts.reports.health import HealthReport, Level
from edgeagent.doorkeeper import MOST_INSIDE
from edgeagent.errors import StorageError
from tests.flows.operating import OperatorDesk, operated_hub
from tests.support.brokers import free_port
from tests.support.stores import broken_log

OPERATING = (Path(__file__).parents[2] / "docs" / "operating.md").read_text("utf-8")


@asynccontextmanager
async def served(tmp_path: Path, *devices: str) -> AsyncIterator[tuple[OperatorDesk, int]]:
    """A hub and the port on which it shows itself."""
    port = free_port()
    async with operated_hub(tmp_path, *devices) as desk:
        web = WebServer("127.0.0.1", port, desk.hub.around.metrics, desk.operator)
        await web.open()
        try:
            yield desk, port
        finally:
            await web.close()


async def asked(port: int, path: str, *, method: str = "GET") -> tuple[int, str, str]:
    """Status, media type and body of an answer."""
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"http://127.0.0.1:{port}{path}") as response,
    ):
        return response.status, response.content_type, await response.text()


async def asked_raw(port: int, request: bytes) -> bytes:
    """The first line of the answer to whatever bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    line = await reader.readline()
    writer.close()
    await writer.wait_closed()
    return line.strip()


@pytest.mark.requirement("O1")
class TestMetrics:
    """In the format of Prometheus, brought up to date, naming nobody."""

    async def test_they_are_what_prometheus_reads(self, tmp_path: Path) -> None:
        async with served(tmp_path, "dev-1") as (_, port):
            status, kind, text = await asked(port, "/metrics")

            families = {family.name: family for family in text_string_to_metric_families(text)}
            assert (status, kind) == (200, "text/plain")
            assert families["edgeagent_devices"].samples[0].value == 1
            assert {
                sample.labels["stream"]: sample.value
                for sample in families["edgeagent_outbox_events"].samples
            } == {
                "record": 1,
                "state": 1,
                "telemetry": 0,
            }

    async def test_the_operators_page_lists_all_of_them_and_no_other(self, tmp_path: Path) -> None:
        async with served(tmp_path, "dev-1") as (_, port):
            _, _, text = await asked(port, "/metrics")

        exported = {
            (f"{family.name}_total" if family.type == "counter" else family.name, family.documentation)
            for family in text_string_to_metric_families(text)
        }
        table = OPERATING.partition("<!-- metrics -->")[2].partition("\n## ")[0]
        listed = set(re.findall(r"^\| `([a-z_]+)` \| [^|]*\| ([^|]+) \|$", table, re.MULTILINE))
        assert listed == exported

    @pytest.mark.requirement("A2", "R7")
    async def test_no_device_is_named_and_no_series_grows_with_devices(self, tmp_path: Path) -> None:
        async with served(tmp_path, "dev-1") as (desk, port):
            _, _, before = await asked(port, "/metrics")
            for number in range(2, 12):
                await desk.hub.admits(f"dev-{number}")
                desk.hub.bus.delivers(f"dev-{number}/state", b'{"power": true}')
                desk.hub.bus.delivers(f"dev-{number}/sensor", b"nonsense", qos=0)
            await desk.hub.settles()
            _, _, after = await asked(port, "/metrics")

            assert "dev-" not in after
            assert "The dev" not in after
            assert series(after) == series(before)

    @pytest.mark.requirement("R2")
    async def test_they_are_shown_while_the_store_cannot_be_read(self, tmp_path: Path) -> None:
        async with served(tmp_path) as (desk, port):
            await desk.hub.store.write(lambda tx: tx.execute("INSERT INTO meta VALUES ('x', 'y')"))
            with broken_log(desk.hub.path, Path("/dev/full")):
                with pytest.raises(StorageError):
                    await desk.operator.status()
                status, _, text = await asked(port, "/metrics")

            assert status == 200
            assert "edgeagent_devices 0.0" in text


@pytest.mark.requirement("O5")
class TestHealth:
    """For supervisors that know a status and nothing else."""

    async def test_a_hub_that_is_well(self, tmp_path: Path) -> None:
        async with served(tmp_path) as (_, port):
            status, kind, text = await asked(port, "/healthz")

            assert (status, kind) == (200, "application/json")
            assert decode(HealthReport, text.encode(), limit=100_000).level is Level.OK

    async def test_a_warning_is_no_reason_to_be_restarted_and_what_is_critical_is(
        self, tmp_path: Path
    ) -> None:
        async with served(tmp_path) as (desk, port):
            desk.hub.bus.goes_down()
            warned, _, _ = await asked(port, "/healthz")
            await desk.hub.passes(desk.clock.boot())
            critical, _, text = await asked(port, "/healthz")

            assert (warned, critical) == (200, 503)
            assert decode(HealthReport, text.encode(), limit=100_000).level is Level.CRITICAL


@pytest.mark.requirement("H6")
class TestWhoMayAsk:
    """Programs on this machine: a page of another site must not read along (DNS rebinding)."""

    @pytest.mark.parametrize(
        "host",
        [
            b"127.0.0.1",
            b"127.0.0.1:9464",
            b"localhost",
            b"localhost:1",
            b"[::1]:9464",
            b"127.1.2.3",
            b"LOCALHOST",
        ],
    )
    async def test_whoever_names_loopback_is_answered(self, tmp_path: Path, host: bytes) -> None:
        async with served(tmp_path) as (_, port):
            line = await asked_raw(port, b"GET /metrics HTTP/1.1\r\nHost: %s\r\n\r\n" % host)

            assert line.startswith(b"HTTP/1.1 200")

    @pytest.mark.parametrize(
        "host",
        [
            b"evil.example",
            b"127.0.0.1.evil.example",
            b"localhost.evil.example",
            b"evil.example:9464",
            b"192.168.1.7",
            b"0.0.0.0",
            b"2130706433",
            b"[::ffff:192.168.1.7]",
            b"",
            b"::::",
            b"[",
            b"127.0.0.1@evil.example",
            b"a b",
        ],
    )
    @pytest.mark.parametrize("path", [b"/metrics", b"/healthz", b"/nothing"])
    async def test_whoever_names_another_host_is_not(self, tmp_path: Path, host: bytes, path: bytes) -> None:
        async with served(tmp_path) as (_, port):
            line = await asked_raw(port, b"GET %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (path, host))

            assert line.split(b" ")[1] in {b"400", b"403"}

    @pytest.mark.threat("T56")
    async def test_whoever_only_holds_on_keeps_nobody_out(self, tmp_path: Path) -> None:
        async with served(tmp_path) as (_, port):
            holding = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST_INSIDE)]
            for _, writer in holding:
                # Half a request is none.
                writer.write(b"GET / HTTP/1.1\r\n")

            answer = await asked(port, "/metrics")

            first, last = holding[0][0], holding[-1][0]
            assert answer[0] == 200
            with suppress(ConnectionResetError):
                assert await first.read() == b""
            assert not last.at_eof()
            for _, writer in holding:
                writer.transport.abort()

    async def test_whoever_names_none_is_not(self, tmp_path: Path) -> None:
        async with served(tmp_path) as (_, port):
            line = await asked_raw(port, b"GET /metrics HTTP/1.0\r\n\r\n")

            assert line.split(b" ")[1] in {b"400", b"403"}

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
    async def test_nothing_can_be_changed(self, tmp_path: Path, method: str) -> None:
        async with served(tmp_path) as (_, port):
            for path in ("/metrics", "/healthz"):
                status, _, _ = await asked(port, path, method=method)
                assert status == 405

    async def test_there_is_nothing_else(self, tmp_path: Path) -> None:
        async with served(tmp_path) as (_, port):
            assert (await asked(port, "/v1/devices"))[0] == 404


async def test_an_address_that_is_taken_is_told(tmp_path: Path) -> None:
    async with served(tmp_path) as (desk, port):
        with pytest.raises(OSError, match="Address already in use"):
            await WebServer("127.0.0.1", port, desk.hub.around.metrics, desk.operator).open()


def series(text: str) -> set[tuple[str, frozenset[tuple[str, str]]]]:
    """The names and labels of all series."""
    return {
        (sample.name, frozenset(sample.labels.items()))
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
