"""What the hub believes: its policy, and what time it is.

The policy is a signed document under one trusted key. It is verified, then stored with its version in
one commit; an older version than the stored one is refused, and the stored one stays in force. Without
a policy the hub takes readings and no commands.

The time is proven by the kernel's word or by a statement that a key of the policy's role ``time`` has
signed over our nonce (SPEC T5). A proof raises the floor of time: beyond what boot time explains by at
most a week on one source's word, further when two sources agree (SPEC T6). One wrong clock must not
expire everything for good, neither at once nor week by week.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from secrets import token_hex
from typing import Final

from edgeagent.clock import ClockSource, Proof, ProvenClock, Wall
from edgeagent.contracts.door import decode
from edgeagent.contracts.policy import POLICY_BYTES, POLICY_TYPE, Policy, RoleKind, id_of_key
from edgeagent.contracts.timestatement import TIME_BYTES, TIME_TYPE, TimeStatement
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.envelope import Keyring, Verified, verify
from edgeagent.core.retry import Backoff, BackoffRule
from edgeagent.errors import LostRaceError, RejectedError, StorageError
from edgeagent.flows.surroundings import Surroundings
from edgeagent.ids import HubId, KeyId
from edgeagent.ports.cloud import TimeSource
from edgeagent.ports.links import LinkError, Trouble
from edgeagent.store import audit, meta
from edgeagent.store import policy as policies
from edgeagent.store.audit import Act
from edgeagent.store.database import Database, Transaction

log = logging.getLogger(__name__)

_ONE_SOURCE_RISE: Final = timedelta(days=7)
_SOURCES: Final = 2
_STORE_FLOOR_EVERY: Final = timedelta(hours=1)
_MILLISECOND: Final = timedelta(milliseconds=1)
# Years of boot time can be added to it before datetime overflows.
_LAST_TIME: Final = datetime(9000, 1, 1, tzinfo=UTC)


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
        self._is_recorded = False
        self._stored_floor = clock.floor
        self._floor_stored_at: timedelta | None = None
        # When this boot began: by each source's word, and by what is beyond doubt.
        self._began: dict[ClockSource, datetime] = {}
        self._surely_began = clock.floor - clock.boot()
        self._proven: list[Callable[[], None]] = []
        self.policy: Policy | None = None
        self.policy_problem = "" if settings.signer else "no policy is configured"

    def when_proven(self, tell: Callable[[], None]) -> None:
        """Have ``tell`` called whenever the time or the policy has become surer."""
        self._proven.append(tell)

    def tell_again(self, judged_by: Wall) -> None:
        """Tell everybody again if the time has become surer than it was at a judgement.

        What was put off by that judgement was not there yet when it was told.
        """
        error = self._clock.wall().error
        if error is not None and (judged_by.error is None or error < judged_by.error):
            self._tell()

    def _tell(self) -> None:
        for tell in self._proven:
            tell()

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
        elif self.policy is None and not self.policy_problem:
            self.policy_problem = "the file of the policy cannot be read"

    async def offer_policy(self, envelope: bytes) -> bool:
        """Verify a policy and put it in force.

        Returns:
            Whether it is in force now. If not, ``policy_problem`` says why.
        """
        try:
            policy, verified = self._verified_policy(envelope)
            await self._save(policy, verified, envelope)
        except RejectedError as why:
            await self._record(
                Act(kind=AuditKind.POLICY_REFUSED, subject="policy", actor="agent", detail={"why": str(why)})
            )
            self.policy_problem = str(why)
            log.warning("policy refused", extra={"why": str(why)})
            return False
        self._put_in_force(policy)
        log.info("policy accepted", extra={"version": policy.version})
        return True

    def time_keys(self) -> Keyring:
        """The keys whose statements of the time count."""
        return {} if self.policy is None else _keys_of(self.policy, RoleKind.TIME)

    async def run(self) -> None:
        """Keep the time proven; ends only by cancellation."""
        while True:
            try:
                known = await self._prove()
            except StorageError as why:
                # The time is known all the same; that it is goes on record when the disk takes it.
                log.warning("proof of the time not recorded", extra={"why": str(why)})
                known = False
            if known:
                self._backoff.worked(self._clock.boot())
                wait = self._settings.refresh
            else:
                wait = self._backoff.failed(self._clock.boot(), chance=self._around.chance())
            await asyncio.sleep(wait.total_seconds())

    async def _prove(self) -> bool:
        """Ask every source once.

        Returns:
            Whether the clock rests on a proof now.
        """
        if self._clock.ask_kernel():
            self._proved(ClockSource.KERNEL)
        if self._time_source is not None and self.time_keys():
            try:
                await self._ask(self._time_source)
            except LinkError as why:
                log.info("no statement of the time", extra={"trouble": why.trouble, "why": str(why)})
        if self._clock.wall().source is ClockSource.NONE:
            return False
        await self._put_on_record()
        return True

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
        if statement.time > _LAST_TIME:
            raise LinkError(Trouble.BROKEN_ANSWER, "a time that no calendar of ours carries on")
        # It was signed some time in between; which, only the round trip bounds.
        trip = answered - asked
        proof = Proof(
            source=ClockSource.STATEMENT,
            wall=statement.time + trip / 2,
            error=trip / 2 + _MILLISECOND,
            at=answered,
        )
        if self._clock.prove(proof):
            self._proved(ClockSource.STATEMENT)

    def _proved(self, source: ClockSource) -> None:
        """Take note of a proof that the clock has just taken."""
        wall = self._clock.wall()
        self._around.metrics.clock_error.set(-1 if wall.error is None else wall.error.total_seconds())
        self._began[source] = wall.earliest - self._clock.boot()
        if self._is_past(wall.earliest):
            self._clock.raise_floor(wall.earliest)
        self._tell()

    async def _put_on_record(self) -> None:
        """Store that the time is known, once, and the floor, not too often."""
        wall, boot = self._clock.wall(), self._clock.boot()
        if not self._is_recorded:
            detail = {"error": None if wall.error is None else wall.error.total_seconds()}
            await self._record(
                Act(kind=AuditKind.CLOCK_PROVEN, subject="clock", actor=wall.source, detail={**detail})
            )
            self._is_recorded = True
            log.info("time is known", extra={"source": wall.source})
        floor, stored_at = self._clock.floor, self._floor_stored_at
        if floor > self._stored_floor and (stored_at is None or boot - stored_at >= _STORE_FLOOR_EVERY):
            await self._store.write(lambda tx: meta.raise_time_floor(tx, floor))
            self._stored_floor, self._floor_stored_at = floor, boot

    def _is_past(self, moment: datetime) -> bool:
        """Whether a moment is certainly past, by the words that we have on it."""
        began = moment - self._clock.boot()
        agreeing = sum(word + _ONE_SOURCE_RISE >= began for word in self._began.values())
        if agreeing >= _SOURCES:
            self._surely_began = max(self._surely_began, began)
        return began <= self._surely_began + _ONE_SOURCE_RISE

    async def _record(self, act: Act) -> None:
        stamp = self._around.stamp()
        await self._store.write(lambda tx: audit.append(tx, [act], stamp))

    async def _save(self, policy: Policy, verified: Verified, envelope: bytes) -> None:
        act = Act(
            kind=AuditKind.POLICY_ACCEPTED,
            subject="policy",
            actor=verified.signers[0],
            detail={"version": policy.version, "sha256": verified.sha256},
        )
        stamp = self._around.stamp()

        def save(tx: Transaction) -> None:
            policies.save(tx, policy.version, envelope)
            audit.append(tx, [act], stamp)

        try:
            await self._store.write(save)
        except LostRaceError as why:
            # Of another signer, so that the stored one could not be put in force.
            raise RejectedError(
                f"a later version than {policy.version} was in force before: sign this one with a higher one"
            ) from why

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
        self._tell()

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
