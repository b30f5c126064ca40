"""The doors that people and programs of this machine come in by: the admin socket, and HTTP on loopback."""

import asyncio
import errno
import logging
import os
from collections.abc import Callable, Sequence
from typing import Final

from typing_extensions import override

from edgeagent import settings
from edgeagent.adapters.admin.hub_routes import hub_routes
from edgeagent.adapters.admin.route import Route
from edgeagent.adapters.admin.socket import AdminSocket
from edgeagent.adapters.web.page import Page
from edgeagent.adapters.web.server import WebServer
from edgeagent.agent.running import Door, Flow
from edgeagent.config import Config
from edgeagent.contracts.reports.health import Check, Level
from edgeagent.errors import ConfigurationError
from edgeagent.flows.names import HubNames
from edgeagent.flows.operator import HubOperator

log = logging.getLogger(__name__)

_AGAIN: Final = 5.0


class WebDoor(Door):
    """HTTP on loopback, where it is wanted: open as soon as its address is to be had.

    Anybody on this machine can be at a port first. That keeps metrics and page away, and stops no hub.
    """

    def __init__(self, config: Config) -> None:
        self._listen = None if config.web is None else config.web.listen
        self._server: WebServer | None = None
        self._trouble = ""

    @property
    def flows(self) -> dict[str, Flow]:
        """What of it runs, by name."""
        return {} if self._listen is None else {"web": self.run}

    @property
    def checks(self) -> Sequence[Callable[[], Check]]:
        """What of it to look at, for health."""
        return [] if self._listen is None else [self.check]

    async def open(self, operator: HubOperator, page: Page | None) -> None:
        """Open it, or find out why it cannot be open yet.

        Raises:
            ConfigurationError: it can never be where it is to be.
        """
        if self._listen is None:
            return
        host, _, port = self._listen.rpartition(":")
        self._server = WebServer(host, int(port), operator.look.around.metrics, operator, page)
        why = await self._tried(self._server)
        if why == errno.EACCES:
            raise ConfigurationError(f"[web] listen {self._listen}: {self._trouble}")
        if why is not None:
            log.warning("nothing is shown over HTTP", extra={"listen": self._listen, "why": self._trouble})

    async def run(self) -> None:
        """Try again until it is open."""
        while self._trouble and self._server is not None:
            await asyncio.sleep(_AGAIN)
            if await self._tried(self._server) is None:
                log.info("shown over HTTP", extra={"listen": self._listen})

    @override
    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()

    def check(self) -> Check:
        """Whether it is open, for health."""
        place = f"[web] listen {self._listen}"
        if not self._trouble:
            return Check(name="web", level=Level.OK, summary=f"{place} is open")
        port = str(self._listen).rpartition(":")[2]
        return Check(
            name="web",
            level=Level.WARNING,
            summary=f"no metrics and no page: {place}: {self._trouble}; it is tried again",
            advice=f"what answers there is not the hub: sudo ss -ltnp 'sport = :{port}' names it; end it, "
            "or have another [web] listen and restart the agent",
        )

    async def _tried(self, server: WebServer) -> int | None:
        """Try to open it; what is in the way, by number."""
        try:
            await server.open()
        except OSError as why:
            self._trouble = str(why) if why.errno is None else os.strerror(why.errno)
            return why.errno or errno.EADDRNOTAVAIL
        self._trouble = ""
        return None


async def open_doors(
    config: Config, operator: HubOperator, routes: Sequence[Route], page: Page | None, web: WebDoor
) -> list[Door]:
    """Open them.

    Raises:
        ConfigurationError: one of them can never be where it is to be; none is open then.
    """
    every = [*hub_routes(operator), *routes]
    names = HubNames(operator.look.store, operator.look.devices)
    access, metrics = settings.access(config), operator.look.around.metrics
    admin = AdminSocket(config.admin_socket, every, access, metrics, names=names, clock=operator.clock)
    await admin.open()
    try:
        await web.open(operator, page)
    except ConfigurationError:
        await admin.close()
        raise
    return [admin, web]
