"""What the hub believes: its policy.

The policy is a signed document under one trusted key. It is verified, then stored with its version in
one commit; an older version than the stored one is refused, and the stored one stays in force. Without
a policy the hub takes readings and no commands.

Whoever judges by the policy or the time is told when either has become surer (``flows/timekeeping``).
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from edgeagent.clock import ProvenClock, Wall
from edgeagent.contracts.door import decode
from edgeagent.contracts.policy import POLICY_BYTES, POLICY_TYPE, Policy, RoleKind, id_of_key
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.envelope import Keyring, Verified, verify
from edgeagent.errors import LostRaceError, RejectedError
from edgeagent.flows.surroundings import Surroundings
from edgeagent.ids import HubId, KeyId
from edgeagent.store import audit
from edgeagent.store import policy as policies
from edgeagent.store.audit import Act
from edgeagent.store.database import Database, Transaction

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustSettings:
    """Whose policy is trusted.

    Attributes:
        signer: the public key under which a policy is trusted, 32 raw bytes; None for no policy.
    """

    signer: bytes | None = None


class Trust:
    """Holds the policy in force."""

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
        self.tell()

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
