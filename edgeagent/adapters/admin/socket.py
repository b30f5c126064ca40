"""The operator's door: HTTP over a Unix socket, for programs on this machine.

Who asks is told by the kernel, not by the caller, and who may what is said in ``access``. Every answer is
one of ``contracts/reports`` as JSON; a refusal carries what went wrong and what to do. What names a command
or a device in an address may be the beginning of its id, for whoever only looks. Each answer says when it was
given, in ``TIME_HEADER``, if the time is proven.
"""

import asyncio
import grp
import logging
import os
import pwd
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from aiohttp import web

from edgeagent.adapters.admin.access import Access, Peer, let_in, peer_of
from edgeagent.adapters.admin.route import REQUEST_BYTES, Asked, Role, Route
from edgeagent.clock import Clock, ClockSource
from edgeagent.contracts.door import Contract, encode
from edgeagent.contracts.reports.refusal import TIME_HEADER, Kind, Refusal
from edgeagent.contracts.scalars import timestamp_text
from edgeagent.core.short_names import named_whole
from edgeagent.doorkeeper import Doorkeeper
from edgeagent.errors import (
    AgentError,
    AmbiguousError,
    ConfigurationError,
    MalformedError,
    RejectedError,
    TransientError,
    UnknownError,
)
from edgeagent.metrics import Metrics
from edgeagent.ports.names import Names

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_OURSELVES: Final = Access()
_GRACE: Final = 1.0
"""Seconds, twice, that answers have to end in when the agent stops: some wait for minutes for a command."""


class AdminSocket:
    """Serves routes on a Unix socket."""

    def __init__(
        self,
        path: Path,
        routes: Sequence[Route],
        access: Access = _OURSELVES,
        metrics: Metrics | None = None,
        *,
        names: Names | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._path = path
        self._routes = routes
        self._access = access
        self._metrics = metrics
        self._names = names
        self._clock = clock
        self._runner: web.AppRunner | None = None
        self._listening: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen; a socket that a dead agent left behind is replaced.

        Raises:
            ConfigurationError: there can be no socket at that path, or its groups cannot be let in.
        """
        app = web.Application(client_max_size=REQUEST_BYTES, middlewares=[self._answering])
        app.add_routes([web.route(each.method, each.path, self._answer_by(each)) for each in self._routes])
        self._runner = web.AppRunner(app, shutdown_timeout=_GRACE)
        await self._runner.setup()
        # Nobody may connect between the bind and the chmod.
        before = os.umask(0o177)
        try:
            self._path.unlink(missing_ok=True)
            self._listening = await asyncio.get_running_loop().create_unix_server(
                Doorkeeper(self._runner), self._path
            )
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
        if self._listening is not None:
            self._listening.close()
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
                names=await self._whole(request.match_info, route.role),
                query=await self._whole(request.query, route.role),
                body=await request.read(),
                actor=_actor(peer),
            )
            report = await route.handler(asked)
            return web.Response(status=204) if report is None else _json(report)

        return answer

    async def _whole(self, names: Mapping[str, str], role: Role) -> Mapping[str, str]:
        """Complete the names in an address; refuse what is not whole where something is to be done."""
        if self._names is None:
            return names
        whole: dict[str, str] = dict(names)
        if "command" in whole:
            whole["command"] = await self._names.command(whole["command"])
        if "device" in whole:
            whole["device"] = await self._names.device(whole["device"])
        if role is Role.OPERATE:
            for what, name in whole.items():
                named_whole(names[what], name)
        return whole

    @web.middleware
    async def _answering(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Say the time beside each answer, where it is proven."""
        response = await self._answered(request, handler)
        wall = None if self._clock is None else self._clock.wall()
        if wall is not None and wall.source is not ClockSource.NONE:
            response.headers[TIME_HEADER] = timestamp_text(wall.best)
        return response

    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Tell nothing to who may not even look, and turn what goes wrong into answers."""
        peer = _peer(request)
        if not self._access.allows(peer, Role.VIEW):
            return self._turned_away(peer, Role.VIEW)
        try:
            return await handler(request)
        except web.HTTPException as why:
            what = f"{request.method} {request.path}: {why.reason}"
            return _refusal(why.status, Kind.MALFORMED, what, "install the same version on both sides")
        except AgentError as why:
            return _answer_to(why, request)

    def _turned_away(self, peer: Peer, role: Role) -> web.Response:
        log.warning("admin socket refused", extra={"uid": peer.uid, "role": role})
        if self._metrics is not None:
            self._metrics.admin_refused.labels(role).inc()
        if role is Role.OPERATE:
            advice = _joining("operate_group", self._access.operate)
            return _refusal(403, Kind.FORBIDDEN, "you may look, and not have things done", advice)
        advice = _joining("view_group", self._access.view)
        return _refusal(403, Kind.FORBIDDEN, "you may not use this agent", advice)


def _joining(key: str, group: int | None) -> str:
    """What lets somebody in: sudo, or the group that there is for it."""
    if group is None:
        return f"sudo edgeagent; [hub] {key} could name a group that may, too"
    try:
        name = grp.getgrgid(group).gr_name
    except KeyError:
        name = str(group)
    return f"sudo edgeagent, or sudo usermod -aG {name} USER and log in again: it is [hub] {key}"


def _answer_to(why: AgentError, request: web.Request) -> web.Response:
    """What an error of ours means for who has asked."""
    match why:
        case MalformedError():
            return _refusal(400, Kind.MALFORMED, str(why))
        case UnknownError():
            return _refusal(404, Kind.UNKNOWN, str(why))
        case AmbiguousError():
            return _refusal(409, Kind.AMBIGUOUS, str(why))
        case RejectedError():
            return _refusal(409, Kind.REFUSED, str(why))
        case TransientError():
            return _refusal(503, Kind.BUSY, str(why), "edgeagent health, then try again")
        case _:
            log.error("request failed", extra={"path": request.path}, exc_info=why)
            return _refusal(500, Kind.FAILED, "the agent failed; see its log")


def _json(answer: Contract, status: int = 200) -> web.Response:
    return web.Response(body=encode(answer), status=status, content_type="application/json")


def _refusal(status: int, kind: Kind, error: str, advice: str = "") -> web.Response:
    return _json(Refusal(kind=kind, error=error, advice=advice), status)


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
