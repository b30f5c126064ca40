"""Who may do what: each path behind the roles that may use it.

A token is asked for before anything of the body is read. A hub's token opens that hub's paths only.
"""

from collections.abc import Awaitable, Callable, Collection
from http import HTTPStatus
from typing import Final

from aiohttp import web

from edgeagent.adapters.cloud.wire import Fault
from edgeagent.errors import MalformedError
from edgeagent.ids import HubId, hub_id
from edgeagent.issuer.bodies import ProblemError
from edgeagent.issuer.tokens import Principal, Role, TokenFile

Handler = Callable[[web.Request, Principal], Awaitable[web.StreamResponse]]
"""Answers a request of somebody who may make it."""

_SCHEME: Final = "bearer"
_MOST_TOKEN: Final = 1024


def behind(
    tokens: TokenFile, roles: Collection[Role], handler: Handler
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Let only these roles through to a handler."""

    async def guarded(request: web.Request) -> web.StreamResponse:
        principal = _principal(tokens, request)
        if principal.role not in roles:
            raise ProblemError(HTTPStatus.FORBIDDEN, Fault.FORBIDDEN, "this token may not do that")
        if principal.role is Role.HUB and principal.hub != request.match_info.get("hub"):
            raise ProblemError(HTTPStatus.FORBIDDEN, Fault.FORBIDDEN, "this token is another hub's")
        return await handler(request, principal)

    return guarded


def hub_of(request: web.Request, tokens: TokenFile) -> HubId:
    """The hub that a path names.

    Raises:
        ProblemError: no token stands for such a hub, so that nothing could ever come of it.
    """
    try:
        hub = hub_id(request.match_info["hub"])
    except MalformedError as why:
        raise ProblemError(HTTPStatus.NOT_FOUND, Fault.NOT_FOUND, "that is no hub's id") from why
    if not tokens.knows_hub(hub):
        raise ProblemError(HTTPStatus.NOT_FOUND, Fault.NOT_FOUND, "there is no such hub")
    return hub


def _principal(tokens: TokenFile, request: web.Request) -> Principal:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    known = scheme.lower() == _SCHEME and 0 < len(token) <= _MOST_TOKEN and token.isascii()
    principal = tokens.principal(token) if known else None
    if principal is None:
        raise ProblemError(HTTPStatus.UNAUTHORIZED, Fault.UNAUTHORISED, "a known bearer token is needed")
    return principal
