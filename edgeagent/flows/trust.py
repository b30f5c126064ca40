"""What the hub believes: its policy.

The policy is a signed document under one trusted key, or it is published with metadata of its own
(``flows/refreshing``). It is verified, then stored with its version in one commit; an older version than
the stored one is refused, and the stored one stays in force. Without a policy the hub takes readings and
no commands.

Whoever judges by the policy or the time is told when either has become surer (``flows/timekeeping``).
"""

import logging
from collections.abc import Callable
from datetime import datetime

from edgeagent.clock import ProvenClock, Wall
from edgeagent.contracts.door import decode
from edgeagent.contracts.policy import POLICY_BYTES, POLICY_TYPE, Policy, RoleKind, id_of_key
from edgeagent.contracts.reasons import Reason
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.catalogue import Catalogue
from edgeagent.core.envelope import Keyring, Verified, verify
from edgeagent.core.gate.roles import banned_keys, keys_of
from edgeagent.errors import LostRaceError, RejectedError
from edgeagent.flows.surroundings import Surroundings
from edgeagent.ids import KeyId
from edgeagent.store import audit
from edgeagent.store import policy as policies
from edgeagent.store.audit import Act
from edgeagent.store.database import Database, Transaction
from edgeagent.values import dataclass

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustSettings:
    """Whose policy is trusted.

    Attributes:
        signer: the public key under which a policy is trusted, 32 raw bytes; None for no such policy.
        is_published: whether the policy comes with metadata of its own instead.
    """

    signer: bytes | None = None
    is_published: bool = False


class WrongPolicyError(RejectedError):
    """The policy is what it should be, and not for now or here.

    Attributes:
        reason: as a code; None where the words have to do.
    """

    def __init__(self, why: str, reason: Reason | None = None) -> None:
        super().__init__(why)
        self.reason = reason


class Trust:
    """Holds the policy in force.

    Attributes:
        policy: in force; None for none.
        policy_signers: the keys that signed it; none of one that is published with metadata of its own.
        policy_problem: why there is none, or why another than that in force was refused; empty for no
            problem.
        catalogue: what is signed of artifacts; empty where no repository lists any.
        catalogue_problem: why another catalogue was refused as a whole; empty for no problem.
        source_problem: why the policy cannot be renewed now; empty for no problem.
        life: from when to when the policy in force may be used; None without one.
        least_version: what was in force before the database was lost; while nothing is in force, an older
            one is refused.
    """

    def __init__(
        self,
        store: Database,
        clock: ProvenClock,
        around: Surroundings,
        settings: TrustSettings,
    ) -> None:
        self._store = store
        self._clock = clock
        self._around = around
        self._settings = settings
        self._proven: list[Callable[[], None]] = []
        self.policy: Policy | None = None
        self.life: tuple[datetime, datetime] | None = None
        self.policy_signers: tuple[KeyId, ...] = ()
        is_wanted = settings.signer is not None or settings.is_published
        self.least_version = 0
        self.policy_problem = "" if is_wanted else "no policy is configured"
        self.source_problem = ""
        self.catalogue = Catalogue()
        self.catalogue_problem = ""

    @property
    def refused_artifacts(self) -> str:
        """Why artifacts were refused, all that are published or those of some groups; empty for none."""
        return "; ".join(filter(None, (self.catalogue_problem, *self.catalogue.problems)))

    @property
    def until(self) -> datetime | None:
        """Until when the policy in force may be used, but for the grace that it gives."""
        return None if self.life is None else self.life[1]

    def when_proven(self, tell: Callable[[], None]) -> None:
        """Have ``tell`` called whenever the time or the policy has become surer."""
        self._proven.append(tell)

    def tell_again(self, judged_by: Wall) -> None:
        """Tell everybody again if the time has become surer than it was at a judgement.

        What was put off by that judgement was not there yet when it was told.
        """
        error = self._clock.wall().error
        if error is not None and (judged_by.error is None or error < judged_by.error):
            self.tell()

    def tell(self) -> None:
        """Tell everybody that the time or the policy has become surer."""
        for tell in self._proven:
            tell()

    async def load(self, offered: bytes | None) -> None:
        """Put the stored policy in force, and then the offered one if it is newer.

        Args:
            offered: the envelope in the configured file; None when there is none.
        """
        if self._settings.is_published:
            return
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
        self.policy_signers = verified.signers
        self.put_in_force(policy, (policy.issued_at, policy.expires_at))
        log.info("policy accepted", extra={"version": policy.version})
        return True

    def time_keys(self) -> Keyring:
        """The keys whose statements of the time count."""
        if self.policy is None:
            return {}
        banned = banned_keys(self.policy)
        keys = keys_of(self.policy, {RoleKind.TIME})
        return {name: key for name, key in keys.items() if name not in banned}

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
            policy, verified = self._verified_policy(stored)
        except RejectedError as why:
            self.policy_problem = f"the stored policy: {why}"
        else:
            self.policy_signers = verified.signers
            self.put_in_force(policy, (policy.issued_at, policy.expires_at))

    def put_in_force(self, policy: Policy, life: tuple[datetime, datetime]) -> None:
        """Judge by a policy from now on; it is stored already.

        Args:
            policy: the policy.
            life: from when to when it may be used.
        """
        self.policy, self.life = policy, life
        self.policy_problem = ""
        self.tell()

    def check(self, policy: Policy, *, is_anew: bool = False) -> None:
        """Look whether a policy that verifies may take the place of the one in force.

        Args:
            policy: the policy.
            is_anew: whether its versions count anew.

        Raises:
            WrongPolicyError: for other hubs, older, or another of the same version.
        """
        hub = self._around.origin.hub
        if policy.hubs != "*" and hub not in policy.hubs:
            raise WrongPolicyError("a policy for other hubs", Reason.WRONG_HUB)
        if self.policy is None and policy.version < self.least_version:
            raise WrongPolicyError(
                f"version {policy.version} is older than {self.least_version}, which was in force before the "
                "database was lost"
            )
        if self.policy is None or is_anew:
            return
        if policy.version < self.policy.version:
            raise WrongPolicyError(
                f"version {policy.version} is older than {self.policy.version}, which is in force"
            )
        if policy.version == self.policy.version and policy != self.policy:
            raise WrongPolicyError(f"another policy of version {policy.version} is in force")

    def _verified_policy(self, envelope: bytes) -> tuple[Policy, Verified]:
        signer = self._settings.signer
        if signer is None:
            raise RejectedError("no policy signer is configured")
        keyring: dict[KeyId, bytes] = {id_of_key(signer): signer}
        verified = verify(envelope, keyring, POLICY_TYPE, limit=POLICY_BYTES)
        policy = decode(Policy, verified.payload, limit=POLICY_BYTES)
        self.check(policy)
        return policy, verified
