"""What the page and programs may read, as JSON: the reports that the command line prints with ``--json``."""

import logging
from collections.abc import Awaitable, Callable

from aiohttp import web

from edgeagent.adapters.web.guard import Handler
from edgeagent.adapters.web.questions import Questions
from edgeagent.contracts.door import Contract, encode
from edgeagent.contracts.reports.refusal import Kind, Refusal
from edgeagent.errors import AgentError, MalformedError, TransientError, UnknownError
from edgeagent.ids import command_id

log = logging.getLogger(__name__)


def api_answers(ask: Questions) -> dict[str, Handler]:
    """The answer to each question, by its path."""

    async def stops(_request: web.Request) -> Contract:
        return ask.stops()

    async def history(_request: web.Request) -> Contract:
        return ask.history()

    async def command(request: web.Request) -> Contract:
        return await ask.command(command_id(request.match_info["command"]))

    async def trace(request: web.Request) -> Contract:
        return await ask.trace(command_id(request.match_info["command"]))

    answers: dict[str, Callable[[web.Request], Awaitable[Contract]]] = {
        "/api/status": _asking(ask.status),
        "/api/health": _asking(ask.health),
        "/api/devices": _asking(ask.devices),
        "/api/commands": _asking(ask.commands),
        "/api/commands/{command}": command,
        "/api/commands/{command}/trace": trace,
        "/api/dead-letters": _asking(ask.letters),
        "/api/breakers": _asking(ask.breakers),
        "/api/stops": stops,
        "/api/locks": _asking(ask.locks),
        "/api/history": history,
    }
    return {path: _in_http(answer) for path, answer in answers.items()}


def refusal(status: int, kind: Kind, error: str, advice: str = "") -> web.Response:
    """Say why something is not answered."""
    return _json(Refusal(kind=kind, error=error, advice=advice), status)


def _asking(question: Callable[[], Awaitable[Contract]]) -> Callable[[web.Request], Awaitable[Contract]]:
    async def answer(_request: web.Request) -> Contract:
        return await question()

    return answer


def _in_http(answer: Callable[[web.Request], Awaitable[Contract]]) -> Handler:
    async def respond(request: web.Request) -> web.Response:
        try:
            return _json(await answer(request))
        except MalformedError as why:
            return refusal(400, Kind.MALFORMED, str(why))
        except UnknownError as why:
            return refusal(404, Kind.UNKNOWN, str(why))
        except TransientError as why:
            return refusal(503, Kind.BUSY, str(why), "edgeagent health, then try again")
        except AgentError:
            log.exception("page request failed", extra={"path": request.path})
            return refusal(500, Kind.FAILED, "the agent failed; see its log")

    return respond


def _json(report: Contract, status: int = 200) -> web.Response:
    return web.Response(body=encode(report), status=status, content_type="application/json")
