"""What the hub believes: its policy, and what time it is.

The policy is a signed document under one trusted key. It is verified, then stored with its version in
one commit; an older version than the stored one is refused, and the stored one stays in force. Without
a policy the hub takes readings and no commands.

The time is proven by the kernel's word or by a statement that a key of the policy's role ``time`` has
signed over our nonce (SPEC T5). A proof raises the floor of time, by at most a week on one source's
word (SPEC T6): one wrong clock must not expire everything for good.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from secrets import token_hex
from typing import Final

from edgeagent.clock import ClockSource, Proof, ProvenClock
from edgeagent.contracts.door import decode
from edgeagent.contracts.policy import POLICY_BYTES, POLICY_TYPE, Policy, RoleKind, id_of_key
from edgeagent.contracts.timestatement import TIME_BYTES, TIME_TYPE, TimeStatement
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.envelope import Keyring, Verified, verify
from edgeagent.core.retry import Backoff, BackoffRule
from edgeagent.errors import RejectedError
from edgeagent.flows.surroundings import Surroundings
from edgeagent.ids import HubId, KeyId
from edgeagent.ports import LinkError, TimeSource, Trouble
from edgeagent.store import audit, meta
from edgeagent.store import policy as policies
from edgeagent.store.audit import Act
from edgeagent.store.database import Database, Transaction

log = logging.getLogger(__name__)

_ONE_SOURCE_RISE: Final = timedelta(days=7)
_STORE_FLOOR_EVERY: Final = timedelta(hours=1)
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustSettings:
    """How the time is asked for.

    Attributes:
        signer: the public key under which a policy is trusted, 32 raw bytes; None for no policy.
        refresh: how often a proven time is proven again.
        backoff: after failures to prove it.
    """

    signer: bytes | None = None
    refresh: timedelta = timedelta(hours=1)
    backoff: BackoffRule = field(
        default_factory=lambda: BackoffRule(first=timedelta(seconds=2), longest=timedelta(minutes=2))
    )


class Trust:
    """Holds the policy in force and proves the time."""

    def __init__(
        self,
        store: Database,
        clock: ProvenClock,
        time_source: TimeSource | None,
        around: Surroundings,
        settings: TrustSettings,
    ) -> None:
        self._store = store
        self._clock = clock
        self._time_source = time_source
        self._around = around
        self._settings = settings
        self._backoff = Backoff(settings.backoff)
        self._floor_stored_at: timedelta | None = None
        self._heard_from: dict[ClockSource, datetime] = {}
        self._proven: list[Callable[[], None]] = []
        self.policy: Policy | None = None
        self.policy_problem = "" if settings.signer else "no policy is configured"

    def when_proven(self, tell: Callable[[], None]) -> None:
        """Have ``tell`` called whenever the time or the policy has become surer."""
        self._proven.append(tell)

    async def load(self, offered: bytes | None) -> None:
        """Put the stored policy in force, and then the offered one if it is newer.

        Args:
            offered: the envelope in the configured file; None when there is none.
        """
        stored = await self._store.read(policies.load)
        if stored is not None:
            self._try(stored)
        if offered is not None and offered != stored:
            await self.offer_policy(offered)

    async def offer_policy(self, envelope: bytes) -> bool:
        """Verify a policy and put it in force.

        Returns:
            Whether it is in force now. If not, ``policy_problem`` says why.
        """
        try:
            policy, verified = self._verified_policy(envelope)
        except RejectedError as why:
            await self._record(
                Act(kind=AuditKind.POLICY_REFUSED, subject="policy", actor="agent", detail={"why": str(why)})
            )
            self.policy_problem = str(why)
            log.warning("policy refused", extra={"why": str(why)})
            return False
        act = Act(
            kind=AuditKind.POLICY_ACCEPTED,
            subject="policy",
            actor=verified.signers[0],
            detail={"version": policy.version, "sha256": verified.sha256},
        )
        stamp = self._around.stamp()

        def store(tx: Transaction) -> None:
            policies.save(tx, policy.version, envelope)
            audit.append(tx, [act], stamp)

        await self._store.write(store)
        self._put_in_force(policy)
        log.info("policy accepted", extra={"version": policy.version})
        return True

    def time_keys(self) -> Keyring:
        """The keys whose statements of the time count."""
        return {} if self.policy is None else _keys_of(self.policy, RoleKind.TIME)

    async def run(self) -> None:
        """Keep the time proven; ends only by cancellation."""
        while True:
            wait = self._settings.refresh
            if not await self._prove():
                wait = self._backoff.failed(self._clock.boot(), chance=self._around.chance())
            await asyncio.sleep(wait.total_seconds())

    async def _prove(self) -> bool:
        """Ask every source once.

        Returns:
            Whether the clock rests on a proof now.
        """
        if self._clock.ask_kernel():
            await self._proved(ClockSource.KERNEL)
        if self._time_source is not None and self.time_keys():
            try:
                await self._ask(self._time_source)
            except LinkError as why:
                log.info("no statement of the time", extra={"trouble": why.trouble, "why": str(why)})
        return self._clock.wall().source is not ClockSource.NONE

    async def _ask(self, source: TimeSource) -> None:
        nonce = token_hex(16)
        asked = self._clock.boot()
        envelope = await source.statement(nonce)
        answered = self._clock.boot()
        try:
            verified = verify(envelope, self.time_keys(), TIME_TYPE, limit=TIME_BYTES)
            statement = decode(TimeStatement, verified.payload, limit=TIME_BYTES)
        except RejectedError as why:
            raise LinkError(Trouble.BROKEN_ANSWER, str(why)) from why
        if statement.nonce != nonce or statement.hub != self._around.origin.hub:
            raise LinkError(Trouble.BROKEN_ANSWER, "an answer to another question")
        # It was signed some time in between; which, only the round trip bounds.
        trip = answered - asked
        proof = Proof(
            source=ClockSource.STATEMENT,
            wall=statement.time + trip / 2,
            error=trip / 2 + _MILLISECOND,
            at=answered,
        )
        if self._clock.prove(proof):
            await self._proved(ClockSource.STATEMENT)

    async def _proved(self, source: ClockSource) -> None:
        wall = self._clock.wall()
        first = not self._heard_from
        self._heard_from[source] = wall.earliest
        self._around.metrics.clock_error.set(wall.error.total_seconds() if wall.error is not None else -1)
        if first:
            error = None if wall.error is None else wall.error.total_seconds()
            await self._record(
                Act(kind=AuditKind.CLOCK_PROVEN, subject="clock", actor=source, detail={"error": error})
            )
            log.info("time is known", extra={"source": source})
        await self._raise_floor(wall.earliest)
        for tell in self._proven:
            tell()

    async def _raise_floor(self, moment: datetime) -> None:
        rise = moment - self._clock.floor
        if rise > _ONE_SOURCE_RISE and len(self._heard_from) < 2:  # noqa: PLR2004 - two sources
            return
        if not self._clock.raise_floor(moment):
            return
        now = self._clock.boot()
        if self._floor_stored_at is None or now - self._floor_stored_at >= _STORE_FLOOR_EVERY:
            self._floor_stored_at = now
            await self._store.write(lambda tx: meta.raise_time_floor(tx, moment))

    async def _record(self, act: Act) -> None:
        stamp = self._around.stamp()
        await self._store.write(lambda tx: audit.append(tx, [act], stamp))

    def _try(self, stored: bytes) -> None:
        try:
            policy, _ = self._verified_policy(stored)
        except RejectedError as why:
            self.policy_problem = f"the stored policy: {why}"
        else:
            self._put_in_force(policy)

    def _put_in_force(self, policy: Policy) -> None:
        self.policy = policy
        self.policy_problem = ""
        for tell in self._proven:
            tell()

    def _verified_policy(self, envelope: bytes) -> tuple[Policy, Verified]:
        signer = self._settings.signer
        if signer is None:
            raise RejectedError("no policy signer is configured")
        keyring: dict[KeyId, bytes] = {id_of_key(signer): signer}
        verified = verify(envelope, keyring, POLICY_TYPE, limit=POLICY_BYTES)
        policy = decode(Policy, verified.payload, limit=POLICY_BYTES)
        _check_for_hub(policy, self._around.origin.hub)
        if self.policy is not None and policy.version < self.policy.version:
            raise RejectedError(
                f"version {policy.version} is older than {self.policy.version}, which is in force"
            )
        if self.policy is not None and policy.version == self.policy.version and policy != self.policy:
            raise RejectedError(f"another policy of version {policy.version} is in force")
        return policy, verified


def _check_for_hub(policy: Policy, hub: HubId) -> None:
    if policy.hubs != "*" and hub not in policy.hubs:
        raise RejectedError("a policy for other hubs")


def _keys_of(policy: Policy, kind: RoleKind) -> Keyring:
    names = {name for role in policy.roles.values() if role.kind is kind for name in role.keys}
    return {id_of_key(raw): raw for name in names for raw in [bytes.fromhex(policy.keys[name])]}
