"""The policy that is published with metadata of its own: put in force at start, kept fresh from then on.

    start      the stored one, without a file or a network (DESIGN decision 6)
    refresh    fetched, verified from the held metadata on, checked, stored in one commit, put in force

What does not verify, contradicts itself, goes back or is for other hubs changes nothing but one row of the
trail; the one in force stays until its own time is over. Of a refused refresh a later root alone is kept
(TUF 5.3.8), so that keys which it has replaced count no more in the next.

The catalogue of artifacts comes with it and is taken in the same commit, group by group: of one that is
refused stays what it signed for before, which is not installed, and a row of the trail; all else goes on.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256

from pydantic import JsonValue

from edgeagent.contracts.artifact import group_of_role
from edgeagent.contracts.door import decode
from edgeagent.contracts.policy import POLICY_BYTES, Policy
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.scalars import timestamp_text
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.catalogue import Catalogue, following
from edgeagent.core.retry import Backoff, BackoffRule
from edgeagent.errors import LostRaceError, MalformedError, RejectedError, TransientError
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.trust import Trust, WrongPolicyError
from edgeagent.ports.policy_source import Held, PolicySource, Published, UnprovenMetadataError
from edgeagent.store import audit
from edgeagent.store import catalogue as catalogues
from edgeagent.store import policy as policies
from edgeagent.store.audit import Act
from edgeagent.store.database import Database, Transaction
from edgeagent.values import dataclass

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshSettings:
    """How often the policy is looked for.

    Attributes:
        every: about so often; a tenth more or less, so that hubs do not come together.
        backoff: after failures.
    """

    every: timedelta = timedelta(hours=1)
    backoff: BackoffRule = field(
        default_factory=lambda: BackoffRule(first=timedelta(seconds=10), longest=timedelta(minutes=15))
    )


class Refreshing:
    """Keeps a published policy fresh.

    Args:
        store: where it is held.
        source: who publishes it.
        trust: puts it in force.
        around: time and whose hub it is.
        settings: how often.
    """

    def __init__(
        self,
        store: Database,
        source: PolicySource,
        trust: Trust,
        around: Surroundings,
        settings: RefreshSettings,
    ) -> None:
        self._store = store
        self._source = source
        self._trust = trust
        self._around = around
        self._settings = settings
        self._backoff = Backoff(settings.backoff)
        self._recorded = self._recorded_of_catalogue = ""
        # What lies in the store goes back to another root than the pinned one.
        self._is_foreign = False

    def adopt(self, settings: RefreshSettings) -> None:
        """Go on with other settings, after the present wait."""
        self._settings = settings
        self._backoff = Backoff(settings.backoff)

    async def load(self) -> None:
        """Put the stored policy in force, if the pinned root stands behind it."""
        taken = await self._store.read(policies.load_published)
        trust = self._trust
        if taken is None:
            trust.policy_problem = "none has come from [policy] source yet"
        elif not await asyncio.to_thread(self._source.vouches, taken.held):
            trust.policy_problem = "the stored policy does not go back to the root in [policy] root"
            self._is_foreign = True
        else:
            await self._load_catalogue()
            try:
                policy = decode(Policy, taken.held.policy, limit=POLICY_BYTES)
                trust.check(policy)
            except RejectedError as why:
                trust.policy_problem = f"the stored policy: {why}"
            else:
                trust.put_in_force(policy, (taken.at, min(policy.expires_at, taken.until)))

    async def _load_catalogue(self) -> None:
        try:
            self._trust.catalogue = await self._store.read(catalogues.load)
        except RejectedError as why:
            # Nothing is installed until the next refresh, which makes it anew from what is signed, and from
            # what can still be read: earlier floors and what was revoked are not in what is signed now.
            problem = f"the stored catalogue is damaged: {why}"
            self._trust.catalogue = await self._store.read(partial(catalogues.salvaged, why=problem))
            self._trust.catalogue_problem = "" if self._trust.catalogue.stale else problem
            log.warning("stored catalogue not used", extra={"why": str(why)})

    async def run(self) -> None:
        """Refresh now and from time to time; ends only by cancellation."""
        while True:
            chance = self._around.chance()
            try:
                await self.refresh()
            except TransientError as why:
                self._trust.source_problem = str(why)
                log.info("policy not refreshed", extra={"why": str(why)})
                wait = self._backoff.failed(self._around.clock.boot(), chance=chance)
            else:
                self._trust.source_problem = ""
                self._backoff.worked(self._around.clock.boot())
                wait = self._settings.every * (0.9 + 0.2 * chance)
            await asyncio.sleep(wait.total_seconds())

    async def refresh(self) -> bool:
        """Fetch, verify and take what is published now.

        Returns:
            Whether it is in force now; if not, ``trust.policy_problem`` says why.

        Raises:
            TransientError: it cannot be fetched or stored now.
        """
        taken = await self._store.read(policies.load_published)
        held = None if taken is None else taken.held
        try:
            published = await self._source.published(held, self._around.clock.wall().earliest)
        except UnprovenMetadataError as why:
            await self._refuse(why, Reason.UNPROVEN_METADATA)
            await self._keep_root(held, why.root)
            return False
        try:
            policy = decode(Policy, published.held.policy, limit=POLICY_BYTES)
            self._trust.check(policy, is_anew=published.is_anew)
            published, catalogue = await self._listed(published, held)
            if held == published.held and catalogue == self._trust.catalogue:
                self._trust.policy_problem = ""
                return True
            await self._take(policy, published, catalogue)
        except MalformedError as why:
            await self._refuse(why, Reason.MALFORMED)
        except WrongPolicyError as why:
            await self._refuse(why, why.reason)
        else:
            return True
        return False

    async def _listed(self, published: Published, held: Held | None) -> tuple[Published, Catalogue]:
        """What is known of artifacts from now on, and what is published without what is not taken of it."""
        trust, before = self._trust, {} if held is None else held.metadata.delegated
        problem = published.listing_problem
        if published.listing is None:
            known, delegated = trust.catalogue, before
            if problem != self._recorded_of_catalogue:
                await self._record_refused([{"why": problem}])
        else:
            known = following(trust.catalogue, published.listing)
            delegated = _behind(known, published.held.metadata.delegated, before)
            await self._record_refused(_news(trust.catalogue, known))
        trust.catalogue_problem = self._recorded_of_catalogue = problem
        metadata = replace(published.held.metadata, delegated=delegated)
        return replace(published, held=replace(published.held, metadata=metadata)), known

    async def _record_refused(self, details: Sequence[dict[str, JsonValue]]) -> None:
        acts = [
            Act(kind=AuditKind.ARTIFACTS_REFUSED, subject="artifacts", actor="agent", detail=detail)
            for detail in details
        ]
        if acts:
            stamp = self._around.stamp()
            await self._store.write(lambda tx: audit.append(tx, acts, stamp))
            log.warning("artifacts refused", extra={"why": "; ".join(str(one["why"]) for one in details)})

    async def _take(self, policy: Policy, published: Published, catalogue: Catalogue) -> None:
        wall = self._around.clock.wall()
        until = min(policy.expires_at, published.expires_at)
        act = _accepted(policy, published, until)
        is_listed = catalogue != self._trust.catalogue
        acts = [act, _listed(catalogue)] if is_listed else [act]
        stamp = self._around.stamp()

        def take(tx: Transaction) -> None:
            policies.save_published(tx, policy.version, published, wall.best, is_over=wall.earliest >= until)
            if (
                is_listed
                or self._is_foreign
                or catalogues.load_metadata(tx) != published.held.metadata.delegated
            ):
                catalogues.save(tx, catalogue, published.held.metadata.delegated)
            audit.append(tx, acts, stamp)

        try:
            await self._store.write(take)
        except LostRaceError as why:
            # By another way, such as a signed file, or under another first root.
            raise WrongPolicyError(
                f"a later version than {policy.version} was in force before: publish a higher one"
            ) from why
        self._recorded = ""
        self._is_foreign = False
        self._trust.catalogue = catalogue
        self._trust.put_in_force(policy, (wall.best, until))
        log.info("policy accepted", extra={"version": policy.version, "until": timestamp_text(until)})

    async def _refuse(self, why: Exception, reason: Reason | None) -> None:
        """Put it on record, once for as long as it stays the same; and then say why."""
        words = str(why)
        if words == self._recorded:
            self._trust.policy_problem = words
            return
        detail: dict[str, JsonValue] = {"why": words}
        if reason is not None:
            detail["reason"] = reason
        act = Act(kind=AuditKind.POLICY_REFUSED, subject="policy", actor="agent", detail=detail)
        stamp = self._around.stamp()
        await self._store.write(lambda tx: audit.append(tx, [act], stamp))
        self._recorded = self._trust.policy_problem = words
        log.warning("policy refused", extra=dict(detail))

    async def _keep_root(self, held: Held | None, root: tuple[int, bytes] | None) -> None:
        if held is not None and root is not None:
            await self._store.write(partial(policies.save_root, pin=held.pin, version=root[0], root=root[1]))


def _behind(
    catalogue: Catalogue, published: Mapping[str, bytes], before: Mapping[str, bytes]
) -> dict[str, bytes]:
    """The metadata behind a catalogue, by role; a stale group's are those that were taken last."""
    found = {role: raw for role, raw in published.items() if group_of_role(role) not in catalogue.stale}
    return found | {role: raw for role, raw in before.items() if group_of_role(role) in catalogue.stale}


def _news(before: Catalogue, now: Catalogue) -> list[dict[str, JsonValue]]:
    """What is wrong now and was not before."""
    stale: list[dict[str, JsonValue]] = [
        {"group": group, "why": why}
        for group, why in sorted(now.stale.items())
        if before.stale.get(group) != why
    ]
    contested = sorted(set(now.contested.values()) - set(before.contested.values()))
    return stale + [{"why": why} for why in contested]


def _listed(catalogue: Catalogue) -> Act:
    listed = catalogue.listed.values()
    detail: dict[str, JsonValue] = {
        "listed": len(listed),
        "revoked": len(catalogue.revoked),
        "roles": {artifact.signed.group: artifact.signed.version for artifact in listed},
    }
    return Act(kind=AuditKind.ARTIFACTS_LISTED, subject="artifacts", actor="targets", detail=detail)


def _accepted(policy: Policy, published: Published, until: datetime) -> Act:
    versions = published.versions
    return Act(
        kind=AuditKind.POLICY_ACCEPTED,
        subject="policy",
        actor="targets",
        detail={
            "version": policy.version,
            "sha256": sha256(published.held.policy).hexdigest(),
            "root": versions.root,
            "timestamp": versions.timestamp,
            "snapshot": versions.snapshot,
            "targets": versions.targets,
            "until": timestamp_text(until),
        },
    )
