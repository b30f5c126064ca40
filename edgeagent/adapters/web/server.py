"""What this machine may see of the hub over HTTP: metrics, health, and the page.

``/metrics`` is for Prometheus, ``/healthz`` for supervisors, the rest for people. Read-only, on loopback; who
is answered is said in ``guard``.
"""

import asyncio
import socket
from contextlib import suppress
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from edgeagent.adapters.web.guard import guard, say_headers
from edgeagent.adapters.web.page import Page
from edgeagent.contracts.door import encode
from edgeagent.contracts.reports.health import Level
from edgeagent.doorkeeper import Doorkeeper
from edgeagent.errors import TransientError
from edgeagent.metrics import Metrics
from edgeagent.ports.operator import Operator

_GRACE: Final = 2.0
"""Seconds that answers have to end when the agent stops; what is shown is lost to nobody."""


class WebServer:
    """Serves metrics and health, and the page if there is to be one."""

    def __init__(
        self, host: str, port: int, metrics: Metrics, operator: Operator, page: Page | None = None
    ) -> None:
        self._host = host
        self._port = port
        self._metrics = metrics
        self._operator = operator
        self._page = page
        self._runner: web.AppRunner | None = None
        self._listening: asyncio.Server | None = None

    @property
    def watchers(self) -> int:
        """How many pages watch live."""
        return 0 if self._page is None else self._page.watchers

    async def open(self) -> None:
        """Listen.

        Raises:
            OSError: the address is taken, or not there.
        """
        host = self._host.strip("[]")
        # Of our own making: asyncio's serves nobody, and says nothing, where there is no such family.
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        channel = socket.create_server((host, self._port), family=family)
        app = web.Application(client_max_size=1024, middlewares=[guard])
        app.on_response_prepare.append(say_headers)
        app.add_routes([web.get("/metrics", self._show_metrics), web.get("/healthz", self._show_health)])
        if self._page is not None:
            app.add_routes(self._page.routes())
        # Whoever closes the page is noticed at once, and not when there is something to tell it.
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=_GRACE)
        await self._runner.setup()
        self._listening = await asyncio.get_running_loop().create_server(
            Doorkeeper(self._runner), sock=channel
        )

    async def close(self) -> None:
        """Stop listening."""
        if self._page is not None:
            self._page.close()
        if self._listening is not None:
            self._listening.close()
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
