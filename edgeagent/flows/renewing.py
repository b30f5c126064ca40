"""The hub's certificate, renewed before it ends, so that nobody has to come (SPEC H5).

    resting ──two thirds of its life──> asked ──> stored in the other slot ──> tried ──> shown
       ^                                  │              │                       │
       └──────────────────────────────────┴── a death anywhere: the same again ──┘

The next key is made here and never leaves. The new certificate is shown to the queue once before it takes
the place of the old one, which stays in its slot. Only the queue's own word takes a slot away: no answer, a
broken one or a clock that is wrong change nothing. One that has ended still renews itself for as long as the
queue allows; after that a person enrols the hub anew.

A queue whose authority signs with another key says so, and the hub renews then, before its time.

Whoever is turned away at the queue meanwhile has it looked at: a hub that was shut out says so at once, and
one that is let in again does too.
"""

import asyncio
import logging
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from edgeagent.contracts.reports.health import Check, Level
from edgeagent.contracts.scalars import timestamp_text
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.certificates import check_hub_chain, read_chain, renewal_due, serial_text
from edgeagent.core.retry import Backoff, BackoffRule
from edgeagent.errors import ConfigurationError, MalformedError, TransientError
from edgeagent.flows.bells import Bell
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.watching.certificates import SOON, VERY_SOON
from edgeagent.ports.crash import CrashPoint
from edgeagent.ports.identity import NotRenewedError, Registry, Shown
from edgeagent.ports.links import LinkError
from edgeagent.store import audit
from edgeagent.store.audit import Act
from edgeagent.store.database import Database
from edgeagent.store.identity import Identity, IdentitySlots, UnusableSlotError
from edgeagent.values import dataclass

log = logging.getLogger(__name__)

_ANEW: Final = "have the issuer make a claim code, then: edgeagent setup --claim CODE"
_VALID: Final = "valid"
_LEAST_PART: Final = 10


class DamagedAuthorityError(ConfigurationError):
    """The root that the hub trusts cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewalSettings:
    """How the identity is looked after.

    Attributes:
        every: how often the queue is asked whether it counts; a tenth more or less.
        soonest: how long it takes until somebody turned away is heard again; a quarter more or less, since
            a queue that turns one hub away may do so to many.
        backoff: after failures.
    """

    every: timedelta = timedelta(hours=1)
    soonest: timedelta = timedelta(minutes=3)
    backoff: BackoffRule = field(
        default_factory=lambda: BackoffRule(first=timedelta(seconds=30), longest=timedelta(minutes=15))
    )


@dataclass(slots=True)
class IdentityState:
    """How the identity stands, for health.

    Attributes:
        certificate: what is shown; None for nothing that can be.
        problem: why nothing can be shown; empty while something can.
        standing: the queue's last word on it; empty before the first.
        failing: why it cannot be renewed now, or the queue not asked; empty while all is well.
    """

    certificate: x509.Certificate | None = None
    problem: str = ""
    standing: str = ""
    failing: str = ""


class Renewing:
    """Keeps the hub's identity.

    Args:
        store: where what has happened goes on record.
        slots: what there is.
        registry: who certifies.
        around: time, and whose hub it is.
        settings: how often.
    """

    def __init__(
        self,
        store: Database,
        slots: IdentitySlots,
        registry: Registry,
        around: Surroundings,
        settings: RenewalSettings,
    ) -> None:
        self._store = store
        self._slots = slots
        self._registry = registry
        self._around = around
        self._settings = settings
        self._backoff = Backoff(settings.backoff)
        self._chance = around.chance()
        self._renewed: timedelta | None = None
        self._bell = Bell()
        self._deaf_until = timedelta(0)
        self.state = IdentityState()

    async def run(self) -> None:
        """Look after it; ends only by cancellation."""
        while True:
            chance = self._around.chance()
            try:
                await self.look()
            except (TransientError, NotRenewedError, MalformedError, ConfigurationError) as why:
                self.state.failing = str(why)
                log.warning("identity not looked after", extra={"why": str(why)})
                asked = why.retry_after if isinstance(why, LinkError) else None
                now = self._around.clock.boot()
                wait = self._backoff.failed(now, chance=chance, at_least=asked)
                self._deaf_until = max(self._deaf_until, now + (asked or timedelta(0)))
            else:
                self.state.failing = ""
                self._backoff.worked(self._around.clock.boot())
                wait = self._settings.every * (0.9 + 0.2 * chance)
            await self._bell.wait(wait)

    def hears(self, is_let_in: bool) -> None:  # noqa: FBT001 - whoever asks the queue tells nothing else
        """Take note of whether the queue has let somebody of this hub in; look at what is news."""
        now = self._around.clock.boot()
        is_news = self.state.standing not in {"", _VALID} if is_let_in else now >= self._deaf_until
        if is_news:
            self._deaf_until = now + self._settings.soonest * (0.75 + 0.5 * self._around.chance())
            self._bell.ring()

    def check(self) -> Check:
        """What health tells of it."""
        return identity_check(self.state, self._around.clock.wall().best)

    async def look(self) -> None:
        """Do what is due now: finish what a death has left, renew, or ask whether it still counts.

        Raises:
            TransientError: the queue does not answer, or the disk does not take it.
            NotRenewedError: the queue gives no further certificate for this one.
            MalformedError: what it gave is not ours.
            ConfigurationError: nothing here can be shown.
        """
        shown = await self._load()
        now = self._around.clock.wall().best
        if now < shown.certificate.not_valid_before_utc:
            # Certainly wrong: it was made before it came here. Nothing is asked for on its word.
            raise ConfigurationError("this hub's clock is behind the beginning of its certificate")
        waiting = await asyncio.to_thread(self._slots.waiting)
        if waiting is None and self._is_due(shown.certificate, now):
            waiting = await self._renew(shown, now)
        if waiting is None:
            told = await self._registry.shown(self._slots.current)
            self.state.standing = told.why
            if told.counts and told.is_to_renew and not self._is_new(self._settings.every / 2):
                waiting = await self._renew(shown, now)
        if waiting is not None:
            await self._try(waiting, shown)

    def _is_due(self, certificate: x509.Certificate, now: datetime) -> bool:
        """Whether it is time; not at once again where a clock that is far ahead says so each time."""
        life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
        return not self._is_new(life / _LEAST_PART) and now >= renewal_due(certificate, self._chance)

    def _is_new(self, least: timedelta) -> bool:
        """Whether it was renewed less than that long ago."""
        return self._renewed is not None and self._around.clock.boot() - self._renewed < least

    async def _load(self) -> Identity:
        """What is shown; the other slot, where a power cut or a disk has damaged that."""
        try:
            shown = await asyncio.to_thread(self._slots.load)
        except UnusableSlotError as why:
            self.state = replace(self.state, certificate=None, problem=str(why))
            other = await asyncio.to_thread(self._slots.read, self._slots.other())
            await asyncio.to_thread(self._slots.show, other.file)
            log.warning("identity damaged, the other slot is shown", extra={"why": str(why)})
            shown = other
        if shown.hub != self._around.origin.hub:
            words = f"the certificate is of {shown.hub}, and [hub] id is {self._around.origin.hub}"
            self.state = IdentityState(problem=words)
            raise ConfigurationError(words)
        if self.state.certificate is None or self.state.certificate != shown.certificate:
            self.state = IdentityState(certificate=shown.certificate)
        return shown

    async def _renew(self, shown: Identity, now: datetime) -> Identity:
        """Get the next certificate, and put it into the other slot."""
        request = await asyncio.to_thread(self._slots.request, shown.hub)
        try:
            raw = await self._registry.renew(request.public_bytes(Encoding.DER))
        except NotRenewedError as why:
            self.state.standing = why.why
            raise
        self._around.crash.reached(CrashPoint.CERTIFICATE_GIVEN)
        chain = read_chain(raw)
        check_hub_chain(chain, await asyncio.to_thread(self._authority), shown.hub, now)
        stored = await asyncio.to_thread(self._slots.put, chain)
        self._around.crash.reached(CrashPoint.CERTIFICATE_STORED)
        return stored

    async def _try(self, waiting: Identity, before: Identity) -> None:
        """Show a stored certificate to the queue, and show it from then on if that takes it."""
        told = await self._registry.shown(waiting.file)
        if not _is_ours(told, waiting):
            if not told.counts:
                await asyncio.to_thread(self._slots.drop, waiting.file)
            raise MalformedError(f"the queue does not take its own new certificate: {told.why}")
        self._around.crash.reached(CrashPoint.CERTIFICATE_TRIED)
        await asyncio.to_thread(self._slots.show, waiting.file)
        self._renewed = self._around.clock.boot()
        self.state = IdentityState(certificate=waiting.certificate, standing=_VALID)
        detail = {
            "serial": serial_text(waiting.certificate),
            "until": timestamp_text(waiting.certificate.not_valid_after_utc),
            "before": serial_text(before.certificate),
        }
        act = Act(kind=AuditKind.CERTIFICATE_RENEWED, subject=waiting.hub, actor="agent", detail=dict(detail))
        stamp = self._around.stamp()
        await self._store.write(lambda tx: audit.append(tx, [act], stamp))
        log.info("certificate renewed", extra=detail)

    def _authority(self) -> x509.Certificate:
        try:
            return read_chain(self._slots.authority.read_bytes())[0]
        except (OSError, MalformedError) as why:
            raise DamagedAuthorityError(f"cannot read {self._slots.authority}: {why}") from why


def _is_ours(told: Shown, identity: Identity) -> bool:
    return told.counts and told.hub == identity.hub and told.serial == serial_text(identity.certificate)


def identity_check(state: IdentityState, now: datetime) -> Check:
    """Whether the hub's certificate lets it in, and for how long."""
    certificate = state.certificate
    if certificate is None:
        if not state.problem:
            return Check(name="identity", level=Level.OK, summary="not looked at yet")
        return _bad(Level.CRITICAL, state.problem, _ANEW)
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if state.standing not in {"", _VALID, "over"}:
        words = f"the queue does not let this hub in: its certificate is {state.standing} there"
        return _bad(Level.CRITICAL, words, _ANEW)
    if now < begins:
        return _bad(
            Level.WARNING,
            f"the clock says {now:%Y-%m-%d %H:%M} UTC, and the certificate begins at {begins:%Y-%m-%d %H:%M}",
            "nothing is lost: correct the clock, or start a time service",
        )
    left = ends - now
    told = f"{'ended' if left <= timedelta(0) else 'ends'} at {ends:%Y-%m-%d %H:%M} UTC"
    if left <= SOON and state.failing:
        level = Level.CRITICAL if left <= VERY_SOON else Level.WARNING
        words = f"the certificate {told}, and is not renewed: {state.failing}"
        return _bad(level, words, f"see the check cloud; if it was shut out, {_ANEW}")
    return Check(name="identity", level=Level.OK, summary=f"the certificate {told}, and is renewed before")


def _bad(level: Level, summary: str, advice: str) -> Check:
    return Check(name="identity", level=level, summary=summary, advice=advice)
