"""Metrics and health on loopback: ``/metrics`` for Prometheus, ``/healthz`` for supervisors.

Read-only. The Host header must name loopback, so that a page of another site cannot read along by
having its name point here (DNS rebinding).
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from ipaddress import ip_address

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from edgeagent.contracts.door import encode
from edgeagent.contracts.reports.health import Level
from edgeagent.errors import TransientError
from edgeagent.metrics import Metrics
from edgeagent.ports.operator import Operator

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class WebServer:
    """Serves metrics and health."""

    def __init__(self, host: str, port: int, metrics: Metrics, operator: Operator) -> None:
        self._host = host
        self._port = port
        self._metrics = metrics
        self._operator = operator
        self._runner: web.AppRunner | None = None

    async def open(self) -> None:
        """Listen.

        Raises:
            OSError: the address is taken.
        """
        app = web.Application(client_max_size=1024, middlewares=[_only_loopback])
        app.add_routes([web.get("/metrics", self._show_metrics), web.get("/healthz", self._show_health)])
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host.strip("[]"), self._port).start()

    async def close(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _show_metrics(self, _request: web.Request) -> web.Response:
        # Gauges that are asked for rather than kept are brought up to date by a look at everything. While
        # the store cannot be read they stay as they were: the other instruments are wanted all the more.
        with suppress(TransientError):
            await self._operator.status()
        return web.Response(
            body=generate_latest(self._metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    async def _show_health(self, _request: web.Request) -> web.Response:
        report = await self._operator.health()
        status = 503 if report.level is Level.CRITICAL else 200
        return web.Response(body=encode(report), status=status, content_type="application/json")


@web.middleware
async def _only_loopback(request: web.Request, handler: Handler) -> web.StreamResponse:
    if not _is_loopback(_host(request)):
        return web.Response(status=403, text="this is for programs on this machine\n")
    return await handler(request)


def _host(request: web.Request) -> str:
    """The host that the request names; empty when it names none."""
    try:
        # Without the header aiohttp falls back on whatever this machine calls itself.
        return request.url.host or "" if "Host" in request.headers else ""
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
