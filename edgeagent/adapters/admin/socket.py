"""The operator's door: HTTP over a Unix socket, for programs on this machine.

Who asks is told by the kernel, not by the caller, and who may what is said in ``access``. Every answer is
one of ``contracts/reports`` as JSON; a refusal carries what went wrong and what to do.
"""

import logging
import os
import pwd
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from aiohttp import web

from edgeagent.adapters.admin.access import Access, Peer, let_in, peer_of
from edgeagent.adapters.admin.route import REQUEST_BYTES, Asked, Role, Route
from edgeagent.contracts.door import Contract, encode
from edgeagent.contracts.reports.refusal import Refusal
from edgeagent.errors import AgentError, ConfigurationError, MalformedError, RejectedError, TransientError
from edgeagent.metrics import Metrics

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_OURSELVES: Final = Access()


class AdminSocket:
    """Serves routes on a Unix socket."""

    def __init__(
        self,
        path: Path,
        routes: Sequence[Route],
        access: Access = _OURSELVES,
        metrics: Metrics | None = None,
    ) -> None:
        self._path = path
        self._routes = routes
        self._access = access
        self._metrics = metrics
        self._runner: web.AppRunner | None = None

    async def open(self) -> None:
        """Listen; a socket that a dead agent left behind is replaced.

        Raises:
            ConfigurationError: there can be no socket at that path, or its groups cannot be let in.
        """
        app = web.Application(client_max_size=REQUEST_BYTES, middlewares=[self._answering])
        app.add_routes([web.route(each.method, each.path, self._answer_by(each)) for each in self._routes])
        # One access line for each poll of a health check is noise; what changes is audited.
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        # Nobody may connect between the bind and the chmod.
        before = os.umask(0o177)
        try:
            self._path.unlink(missing_ok=True)
            await web.UnixSite(self._runner, str(self._path)).start()
        except OSError as why:
            # Too long, for one: the path of a Unix socket has at most 107 bytes (unix(7)).
            await self._runner.cleanup()
            raise ConfigurationError(f"[hub] run_dir: no socket at {self._path}: {why}") from why
        finally:
            os.umask(before)
        try:
            let_in(self._path, self._access.groups)
        except ConfigurationError:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._path.unlink(missing_ok=True)

    def _answer_by(self, route: Route) -> Handler:
        """Have a route answer in HTTP whoever may."""

        async def answer(request: web.Request) -> web.StreamResponse:
            peer = _peer(request)
            if not self._access.allows(peer, route.role):
                return self._turned_away(peer, route.role)
            asked = Asked(
                names=request.match_info,
                query=request.query,
                body=await request.read(),
                actor=_actor(peer),
            )
            report = await route.handler(asked)
            return web.Response(status=204) if report is None else _json(report)

        return answer

    @web.middleware
    async def _answering(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Tell nothing to who may not even look, and turn what goes wrong into answers."""
        peer = _peer(request)
        if not self._access.allows(peer, Role.VIEW):
            return self._turned_away(peer, Role.VIEW)
        try:
            return await handler(request)
        except web.HTTPException as why:
            return _refusal(why.status, f"{request.method} {request.path}: {why.reason}")
        except AgentError as why:
            return _answer_to(why, request)

    def _turned_away(self, peer: Peer, role: Role) -> web.Response:
        log.warning("admin socket refused", extra={"uid": peer.uid, "role": role})
        if self._metrics is not None:
            self._metrics.admin_refused.labels(role).inc()
        if role is Role.OPERATE:
            return _refusal(
                403, "you may look, and not have things done", "ask somebody of [hub] operate_group"
            )
        return _refusal(403, "you may not use this agent", "use sudo, or be in [hub] view_group")


def _answer_to(why: AgentError, request: web.Request) -> web.Response:
    """What an error of ours means for who has asked."""
    match why:
        case MalformedError():
            return _refusal(400, str(why))
        case RejectedError():
            return _refusal(409, str(why))
        case TransientError():
            return _refusal(503, str(why), "try again; see edgeagent health")
        case _:
            log.error("request failed", extra={"path": request.path}, exc_info=why)
            return _refusal(500, "the agent failed; see its log")


def _json(answer: Contract, status: int = 200) -> web.Response:
    return web.Response(body=encode(answer), status=status, content_type="application/json")


def _refusal(status: int, error: str, advice: str = "") -> web.Response:
    return _json(Refusal(error=error, advice=advice), status)


def _peer(request: web.Request) -> Peer:
    transport = request.transport
    channel = None if transport is None else transport.get_extra_info("socket")
    return Peer(-1) if channel is None else peer_of(channel)


def _actor(peer: Peer) -> str:
    """Who asks, for the audit trail: the user's number and, where it has one, name."""
    try:
        return f"uid:{peer.uid} {pwd.getpwuid(peer.uid).pw_name}"
    except KeyError:
        return f"uid:{peer.uid}"
