"""The doors that people and programs of this machine come in by: the admin socket, and HTTP on loopback."""

from collections.abc import Sequence

from edgeagent import settings
from edgeagent.adapters.admin.hub_routes import hub_routes
from edgeagent.adapters.admin.route import Route
from edgeagent.adapters.admin.socket import AdminSocket
from edgeagent.adapters.web.page import Page
from edgeagent.adapters.web.server import WebServer
from edgeagent.agent.running import Door
from edgeagent.config import Config
from edgeagent.errors import ConfigurationError
from edgeagent.flows.names import HubNames
from edgeagent.flows.operator import HubOperator


async def open_doors(
    config: Config, operator: HubOperator, routes: Sequence[Route], page: Page | None
) -> list[Door]:
    """Open them.

    Raises:
        ConfigurationError: one of them cannot be where it is to be; none is open then.
    """
    every = [*hub_routes(operator), *routes]
    names = HubNames(operator.look.store, operator.look.devices)
    access, metrics = settings.access(config), operator.look.around.metrics
    admin = AdminSocket(config.admin_socket, every, access, metrics, names=names, clock=operator.clock)
    await admin.open()
    doors: list[Door] = [admin]
    if config.web is not None:
        host, _, port = config.web.listen.rpartition(":")
        web = WebServer(host, int(port), metrics, operator, page)
        try:
            await web.open()
        except OSError as why:
            await admin.close()
            raise ConfigurationError(f"[web] listen {config.web.listen}: {why.strerror}") from why
        doors.append(web)
    return doors
