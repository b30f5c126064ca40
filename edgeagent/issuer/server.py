"""The reference queue server: SQLite behind HTTPS (``docs/openapi.yaml``).

It keeps the promises that hubs and issuers build on: what it acknowledges is on its disk, a command is
lent and never given away, and everything is said again the same way after a crash. One process, one
database. It logs neither tokens nor payloads.
"""

import asyncio
import logging
import secrets
import signal
import traceback
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, AsyncExitStack, suppress
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry
from typing_extensions import override

from edgeagent.adapters.cloud.wire import Fault, Health
from edgeagent.clock import Clock
from edgeagent.contracts.policy import POLICY_BYTES, Policy
from edgeagent.errors import ConfigurationError, MalformedError, StorageError
from edgeagent.issuer.access import behind
from edgeagent.issuer.authority import AuthorityFolder
from edgeagent.issuer.authority_in_force import AuthorityInForce
from edgeagent.issuer.bells import Bells
from edgeagent.issuer.bodies import ProblemError, answer
from edgeagent.issuer.claim_side import ClaimSide
from edgeagent.issuer.hub_side import HubSide
from edgeagent.issuer.identity_side import IdentitySide
from edgeagent.issuer.instruments import Instruments
from edgeagent.issuer.issuer_side import IssuerSide
from edgeagent.issuer.keys import load_key
from edgeagent.issuer.logins import Logins
from edgeagent.issuer.policies import policy_of
from edgeagent.issuer.policy_in_force import FixedPolicy, PolicyInForce, RepositoryPolicy
from edgeagent.issuer.policy_side import PolicySide
from edgeagent.issuer.repository.files import RepositoryFiles
from edgeagent.issuer.service import Service
from edgeagent.issuer.settings import ServerSettings
from edgeagent.issuer.store.opening import open_queue
from edgeagent.issuer.tls import ServerTls, server_tls
from edgeagent.issuer.tokens import Role, TokenFile
from edgeagent.store.database import Database
from edgeagent.store.files import sole_owner

log = logging.getLogger(__name__)
_http_log = logging.getLogger(f"{__name__}.http")

_COME_AGAIN: Final = timedelta(seconds=5)
_KEEP_ALIVE: Final = 75.0
_FRAMES: Final = 4
_SHUTDOWN: Final = 5.0
_HANDLE_BYTES: Final = 16

_HUB: Final = frozenset({Role.HUB})
_ISSUER: Final = frozenset({Role.ISSUER})
_READERS: Final = frozenset({Role.ISSUER, Role.AUDIT})


class _WithoutBytes(logging.Filter):
    """Drops what aiohttp would log of a request that is no HTTP: it may hold a token."""

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        record.exc_info = None
        return True


_WITHOUT_BYTES: Final = _WithoutBytes()


async def serve(
    settings: ServerSettings, clock: Clock, *, listening: Callable[[int], None] = lambda _port: None
) -> None:
    """Serve until cancelled, then finish what has begun.

    Args:
        settings: where and on what.
        clock: its wall time is signed by the time key, and judges what has expired.
        listening: told the port as soon as requests are taken.

    Raises:
        ConfigurationError: a file is missing or unusable, another server runs on the database, or the
            address cannot be had.
        DamagedFileError: the database is no whole one.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(_alone_on(settings.database))
        tls = server_tls(settings)
        folder = None if settings.authority is None else AuthorityFolder(settings.authority)
        authority = None if folder is None or tls is None else AuthorityInForce(folder, tls.look_again)
        tokens = TokenFile(settings.tokens)
        tokens.load()
        repository = None if settings.repository is None else RepositoryFiles(settings.repository)
        policy = _policy_in_force(settings, repository)
        time_key = None if settings.time_key is None else load_key(settings.time_key)
        database = await open_queue(settings.database)
        stack.push_async_callback(database.close)
        logins = Logins(tokens, database, clock)
        await logins.load()
        service = Service(
            database=database,
            clock=clock,
            logins=logins,
            policy=policy,
            repository=repository,
            instruments=Instruments(CollectorRegistry()),
            time_key=time_key,
            bells=Bells(),
            new_handle=partial(secrets.token_hex, _HANDLE_BYTES),
            limits=settings.limits,
            authority=authority,
        )
        port = await _listen(service, settings, tls, stack)
        log.info("queue server listens", extra={"host": settings.host, "port": port})
        listening(port)
        await (asyncio.Event().wait() if tls is None else tls.follow())


def run(
    settings: ServerSettings, clock: Clock, *, listening: Callable[[int], None] = lambda _port: None
) -> None:
    """Serve until SIGTERM or SIGINT. Arguments and errors as of ``serve``."""

    async def until_told() -> None:
        loop = asyncio.get_running_loop()
        serving = asyncio.ensure_future(serve(settings, clock, listening=listening))
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, serving.cancel)
        with suppress(asyncio.CancelledError):
            await serving

    asyncio.run(until_told())


def application(service: Service) -> web.Application:
    """The paths, each behind the roles that may use it."""
    logins = service.logins
    hub, issuer, policy = HubSide(service), IssuerSide(service), PolicySide(service.repository)
    app = web.Application(middlewares=[_answer_faults])
    here = "/v1/hubs/{hub}"
    app.add_routes(
        [
            web.get("/healthz", partial(_health, service.database), allow_head=False),
            web.get("/v1/policy/metadata/{name}", policy.metadata, allow_head=False),
            web.get("/v1/policy/targets/{name}", policy.target, allow_head=False),
            web.get("/v1/policy/targets/artifacts/{group}/{name}", policy.artifact, allow_head=False),
            web.get("/metrics", behind(logins, _READERS, issuer.metrics), allow_head=False),
            web.post(f"{here}/events", behind(logins, _HUB, hub.upload)),
            web.post(f"{here}/commands/lease", behind(logins, _HUB, hub.lease)),
            web.post(f"{here}/commands/acknowledge", behind(logins, _HUB, hub.acknowledge)),
            web.post(f"{here}/commands/extend", behind(logins, _HUB, hub.extend)),
            web.post(f"{here}/commands/hand-back", behind(logins, _HUB, hub.hand_back)),
            web.post(f"{here}/time", behind(logins, _HUB, hub.time)),
            web.post(f"{here}/commands", behind(logins, _ISSUER, issuer.send)),
            web.get(
                f"{here}/commands/{{command}}", behind(logins, _READERS, issuer.command), allow_head=False
            ),
            web.get(
                f"{here}/commands/{{command}}/envelopes",
                behind(logins, _READERS, issuer.envelopes),
                allow_head=False,
            ),
            web.get(here, behind(logins, _READERS, issuer.hub), allow_head=False),
            web.get(f"{here}/devices", behind(logins, _READERS, issuer.devices), allow_head=False),
            web.get(f"{here}/events", behind(logins, _READERS, issuer.events), allow_head=False),
            web.get("/v1/refusals", behind(logins, _READERS, issuer.refusals), allow_head=False),
        ]
    )
    app.add_routes(_of_identities(service))
    app.on_response_prepare.append(_sign_off)
    return app


def _of_identities(service: Service) -> list[web.RouteDef]:
    """The paths by which hubs become known."""
    logins, identity, claims = service.logins, IdentitySide(service), ClaimSide(service)
    here = "/v1/hubs/{hub}"
    return [
        web.get("/v1/authority", identity.authority, allow_head=False),
        web.post("/v1/enrolment", identity.enrol),
        web.post("/v1/renewal", identity.renew),
        web.get("/v1/identity", identity.identity, allow_head=False),
        web.get("/v1/claims", behind(logins, _READERS, claims.claims), allow_head=False),
        web.post(f"{here}/claim", behind(logins, _ISSUER, claims.new)),
        web.post(f"{here}/claim/revoke", behind(logins, _ISSUER, claims.revoke_claim)),
        web.post(f"{here}/revoke", behind(logins, _ISSUER, claims.revoke)),
    ]


@web.middleware
async def _answer_faults(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Answer every failure as a problem; the sender learns nothing of the inside."""
    try:
        return await handler(request)
    except ProblemError as why:
        return why.answer()
    except web.HTTPMethodNotAllowed as why:
        problem = ProblemError(HTTPStatus.METHOD_NOT_ALLOWED, Fault.WRONG_METHOD, "another method is wanted")
        response = problem.answer()
        response.headers["Allow"] = why.headers["Allow"]
        return response
    except web.HTTPException as why:
        return ProblemError(HTTPStatus(why.status), Fault.NOT_FOUND, "there is no such path").answer()
    except StorageError as why:
        log.error("queue cannot store", extra={"why": str(why)})  # noqa: TRY400 - the words say it all
        return ProblemError(
            HTTPStatus.SERVICE_UNAVAILABLE, Fault.STORAGE, "nothing was taken", retry_after=_COME_AGAIN
        ).answer()
    except Exception as why:  # noqa: BLE001 - whatever it is, the others are served on
        # Its kind and place, not its words: they may repeat a payload.
        where = "".join(traceback.format_tb(why.__traceback__)[-_FRAMES:])
        log.error("request failed", extra={"error": type(why).__name__, "where": where})  # noqa: TRY400 - see above
        return ProblemError(HTTPStatus.INTERNAL_SERVER_ERROR, Fault.BROKEN, "a fault of the queue").answer()


async def _sign_off(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = "edgeagent"
    response.headers["Cache-Control"] = "no-store"


async def _health(database: Database, _request: web.Request) -> web.Response:
    """GET healthz: whether the store can be read and written."""
    await database.write(lambda _tx: None)
    return answer(Health(status="ok"))


def _alone_on(database: Path) -> AbstractContextManager[None]:
    if not database.parent.is_dir():
        raise ConfigurationError(f"{database.parent}: no such folder")
    return sole_owner(database.with_name(f"{database.name}.lock"))


async def _listen(
    service: Service, settings: ServerSettings, tls: ServerTls | None, stack: AsyncExitStack
) -> int:
    """Begin to take requests, and see to it that they are finished when the stack unwinds."""
    _http_log.addFilter(_WITHOUT_BYTES)
    runner = web.AppRunner(
        application(service),
        access_log=None,
        logger=_http_log,
        # Bodies are unpacked by us, to a limit.
        auto_decompress=False,
        # Whoever has gone is lent nothing.
        handler_cancellation=True,
        keepalive_timeout=_KEEP_ALIVE,
        shutdown_timeout=_SHUTDOWN,
    )
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    stack.callback(service.bells.close)
    context = None if tls is None else tls.context
    site = web.TCPSite(runner, settings.host, settings.port, ssl_context=context)
    try:
        await site.start()
    except OSError as why:
        raise ConfigurationError(f"cannot listen on {settings.host}:{settings.port}: {why.strerror}") from why
    return int(runner.addresses[0][1])


def _policy_in_force(settings: ServerSettings, repository: RepositoryFiles | None) -> PolicyInForce:
    if repository is None:
        return FixedPolicy(None if settings.policy is None else _policy(settings.policy))
    policy = RepositoryPolicy(repository)
    policy.load()
    return policy


def _policy(path: Path) -> Policy:
    try:
        with path.open("rb") as file:
            return policy_of(file.read(POLICY_BYTES + 1))
    except OSError as why:
        raise ConfigurationError(f"{path}: {why.strerror}") from why
    except MalformedError as why:
        raise ConfigurationError(f"{path}: {why}") from why
