"""Who may do what: each path behind the roles that may use it.

Who it is is asked before anything of the body is read. A hub's login opens that hub's paths only.
"""

from collections.abc import Awaitable, Callable, Collection
from http import HTTPStatus

from aiohttp import web

from edgeagent.adapters.cloud.wire import Fault
from edgeagent.errors import MalformedError
from edgeagent.ids import HubId, hub_id
from edgeagent.issuer.bodies import ProblemError
from edgeagent.issuer.logins import Logins
from edgeagent.issuer.tokens import Principal, Role

Handler = Callable[[web.Request, Principal], Awaitable[web.StreamResponse]]
"""Answers a request of somebody who may make it."""


def behind(
    logins: Logins, roles: Collection[Role], handler: Handler
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Let only these roles through to a handler."""

    async def guarded(request: web.Request) -> web.StreamResponse:
        principal = await logins.principal(request)
        if principal.role not in roles:
            raise ProblemError(HTTPStatus.FORBIDDEN, Fault.FORBIDDEN, "this login may not do that")
        if principal.role is Role.HUB and principal.hub != request.match_info.get("hub"):
            raise ProblemError(HTTPStatus.FORBIDDEN, Fault.FORBIDDEN, "this login is another hub's")
        return await handler(request, principal)

    return guarded


def hub_named(request: web.Request) -> HubId:
    """The hub that a path names, whether there is one or not.

    Raises:
        ProblemError: that is no hub's id.
    """
    try:
        return hub_id(request.match_info["hub"])
    except MalformedError as why:
        raise ProblemError(HTTPStatus.NOT_FOUND, Fault.NOT_FOUND, "that is no hub's id") from why


def hub_of(request: web.Request, logins: Logins) -> HubId:
    """The hub that a path names.

    Raises:
        ProblemError: no login stands for such a hub, so that nothing could ever come of it.
    """
    hub = hub_named(request)
    if not logins.knows_hub(hub):
        raise ProblemError(HTTPStatus.NOT_FOUND, Fault.NOT_FOUND, "there is no such hub")
    return hub
