"""The issuer's side of identities: claim codes made, listed and taken back, certificates taken back.

Whoever makes a code keeps its secret: only the sha256 comes here, so that the database lets nobody in.
"""

import logging
from functools import partial
from http import HTTPStatus

from aiohttp import web

from edgeagent.adapters.cloud.wire import Fault
from edgeagent.issuer.access import hub_named
from edgeagent.issuer.bells import About
from edgeagent.issuer.bodies import ProblemError, answer, read_json
from edgeagent.issuer.claim_wire import MOST_CLAIMS, ClaimRequest, ClaimsAnswer, ClaimStatus, RevokedAnswer
from edgeagent.issuer.service import Service
from edgeagent.issuer.store import identities
from edgeagent.issuer.store.opening import Instant, milliseconds_of, moment_of
from edgeagent.issuer.tokens import Principal

log = logging.getLogger(__name__)


class ClaimSide:
    """Answers issuers."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def new(self, request: web.Request, who: Principal) -> web.Response:
        """POST hubs/{hub}/claim: let a hub be claimed."""
        service, hub = self._service, hub_named(request)
        if service.authority is None:
            raise ProblemError(HTTPStatus.NOT_FOUND, Fault.NOT_FOUND, "no hub is enrolled here")
        wanted = await read_json(request, ClaimRequest, within=service.limits.body_time)
        now = Instant.of(service.clock)
        if not now.wall < wanted.until <= now.wall + service.limits.longest_claim:
            raise ProblemError(
                HTTPStatus.BAD_REQUEST,
                Fault.CLAIM_OVER,
                f"a code is good for at most {service.limits.longest_claim.days} days",
            )
        until = milliseconds_of(wanted.until)
        new = partial(identities.new_claim, secret=wanted.secret, hub=hub, by=who.name, until=until, now=now)
        await service.database.write(new)
        service.logins.hubs.add(hub)
        log.info("claim code made", extra={"hub": hub, "by": who.name})
        return await self._claims()

    async def claims(self, _request: web.Request, _who: Principal) -> web.Response:
        """GET claims: the newest codes, without their secrets."""
        return await self._claims()

    async def revoke_claim(self, request: web.Request, who: Principal) -> web.Response:
        """POST hubs/{hub}/claim/revoke: the code that waits is good no more."""
        hub = hub_named(request)
        count = await self._service.database.write(lambda tx: identities.revoke_claims(tx, hub))
        log.info("claim code taken back", extra={"hub": hub, "by": who.name})
        return answer(RevokedAnswer(hub=hub, revoked=count))

    async def revoke(self, request: web.Request, who: Principal) -> web.Response:
        """POST hubs/{hub}/revoke: no certificate of this hub lets anybody in any more."""
        hub = hub_named(request)
        count = await self._service.database.write(lambda tx: identities.revoke(tx, hub))
        # A lease of it that waits is sent away.
        self._service.bells.ring(hub, About.QUEUE)
        log.warning("certificates taken back", extra={"hub": hub, "by": who.name})
        return answer(RevokedAnswer(hub=hub, revoked=count))

    async def _claims(self) -> web.Response:
        listed = await self._service.database.read(lambda db: identities.claims(db, most=MOST_CLAIMS))
        return answer(
            ClaimsAnswer(
                claims=[
                    ClaimStatus(
                        hub=one.hub,
                        state=one.state,
                        made=moment_of(one.made),
                        by=one.by,
                        until=moment_of(one.until),
                        used=None if one.used is None else moment_of(one.used),
                        serial=one.serial,
                    )
                    for one in listed
                ]
            )
        )
