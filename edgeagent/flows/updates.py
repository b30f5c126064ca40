"""Updates of firmware, at the desk: files served, messages sent once, stages recorded as they are seen.

    serve ──> recorded, the file served to that device for that run, its messages made with the address
    publish ─> the next message? the one that sets it off never twice; recorded, then handed over
    enter ──> seen so by the hub itself? recorded

One that is under way and of whose device no more can be told or done, since it was let go or its profile has
changed, is given up.

Whoever works an update names no address and no topic, and cannot say that it has come further than the hub
has seen (SPEC W1): what follows is asked of ``core/firmware`` here once more.
"""

import logging
from dataclasses import replace
from datetime import timedelta
from functools import partial
from secrets import randbits, token_urlsafe
from typing import Final

from pydantic import JsonValue

from edgeagent.contracts.mqtt import Outgoing, PublishResult
from edgeagent.contracts.policy import Level
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.rollout import FirmwareRule
from edgeagent.contracts.update import Stage
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.firmware import (
    FETCHED_BACK,
    FETCHED_FORWARD,
    OUTCOMES,
    PREPARING,
    UNDER_WAY,
    Served,
    Sight,
    Terms,
    Update,
    following,
    version_told,
)
from edgeagent.core.profile.facts import too_low
from edgeagent.core.profile.firmware import FirmwarePlan
from edgeagent.core.work import Claim, StepName
from edgeagent.errors import LostRaceError, RejectedError, SuspiciousError, TransientError
from edgeagent.flows.appliances import address_of
from edgeagent.flows.claims import about, fields_of, key_of
from edgeagent.flows.confirmations import Confirmations
from edgeagent.flows.loans import Loans
from edgeagent.flows.sending import Sending
from edgeagent.flows.update_watch import UpdateWatch
from edgeagent.flows.worlds import Worlds
from edgeagent.ids import ArtifactId, Digest, ReadingName
from edgeagent.ports.crash import CrashPoint
from edgeagent.ports.firmware import Image, Images, Pickup
from edgeagent.ports.links import LinkError
from edgeagent.store import audit, inbox, locks, updates
from edgeagent.store.database import Database, Transaction

log = logging.getLogger(__name__)

_NUMBER_BITS: Final = 31
_TICKET_BYTES: Final = 16
_TENTH: Final = 10
# What is compared and followed does not depend on the address; nothing is sent with this one.
_NOWHERE: Final = "http://localhost/"


class Updates:
    """Serves files, sends what installs them, and looks what comes of it."""

    def __init__(
        self,
        store: Database,
        worlds: Worlds,
        loans: Loans,
        confirmations: Confirmations,
        sending: Sending,
        images: Images,
    ) -> None:
        self._store = store
        self._worlds = worlds
        self._around = worlds.around
        self._loans = loans
        self._confirmations = confirmations
        self._sending = sending
        self._images = images
        self._watches: dict[int, UpdateWatch] = {}
        self._given_up: dict[int, Update] = {}
        self._runs: set[int] = set()

    async def serve(self, claim: Claim) -> Served:
        """Have the file served as far as it is needed, and look at the device from now on."""
        self._loans.of(claim)
        self._runs.add(claim.run)
        watch = self._watches.get(claim.run)
        recorded = claim.update if watch is None else watch.update
        # What ran when it was first looked at may run no more.
        is_begun = recorded is not None and recorded.stage is not Stage.STAGING
        update = recorded if recorded is not None and is_begun else self._beginning(claim)
        if update.is_over:
            return Served(update, self._terms(None))
        if watch is not None and update.stage not in PREPARING:
            # Whoever has taken it over goes on with what was sent, and with what was seen.
            return Served(update, watch.terms)
        pickup = await self._pickup(claim, recorded)
        try:
            plan, can_go_back = await self._plan(claim, update, pickup)
            if update != recorded:
                await self._record(claim, update, ticket=pickup.ticket if recorded is None else None)
            # Whoever calls it off takes the device away, also in the meantime.
            self._loans.of(claim)
        except RejectedError as why:
            if update.stage is Stage.STAGING:
                raise
            return Served(await self._give_up(claim, update, why), self._terms(None))
        except LostRaceError:
            # It may have ended, and been let go, while its file was brought.
            self._runs.add(claim.run)
            await self.let_go_of_ended()
            raise
        terms = self._terms(plan, can_go_back=can_go_back)
        if watch is None:
            watch = UpdateWatch(claim.device, update, plan, terms, self._around.clock)
            self._watches[claim.run] = watch
            self._confirmations.listen(watch)
        watch.update, watch.plan, watch.terms = update, plan, terms
        if update.stage in PREPARING:
            watch.begins_anew()
        return Served(update, terms)

    async def publish(self, claim: Claim, part: int) -> PublishResult:
        """Send a message of an update: in their order, and the last one once."""
        watch = self._watch(claim)
        before, is_last = watch.update, part == len(watch.plan.steps) - 1
        if before.stage not in PREPARING:
            raise RejectedError("it was set off, and never is again")
        if not 0 <= part <= watch.ready or part >= len(watch.plan.steps):
            raise RejectedError("it is not the next message of the update")
        self._sending.check_not_stopped(claim)
        step = watch.plan.steps[part]
        if is_last:
            off = Stage.TRIGGERED if before.stage is Stage.STAGING else Stage.REVERTING
            await self._record(claim, before.becomes(off), sending=step.topic)
        self._around.crash.reached(CrashPoint.STEP_RECORDED)
        message = Outgoing(
            topic=step.topic,
            payload=step.payload,
            expires_in=max(1, int(step.within.total_seconds())),
            traceparent=str(claim.trace_of_step(StepName.INSTALL)),
        )
        try:
            result = await self._sending.hand_over(
                claim,
                message,
                lambda _: watch.sending(part),
                acts=True,
                may_expire=before.stage is Stage.STAGING,
            )
        except (LinkError, RejectedError):
            await self._not_sent(claim, before, is_last=is_last)
            raise
        if result in {PublishResult.NOBODY_LISTENS, PublishResult.REFUSED}:
            await self._not_sent(claim, before, is_last=is_last)
        return result

    async def await_progress(self, claim: Claim, within: timedelta) -> Sight:
        """Wait until more is seen; at most so long."""
        watch = self._watch(claim)
        await watch.until_more(within)
        self._loans.of(claim)
        watch.told = watch.sight()
        await self._note_progress(claim, watch)
        if watch.update.stage in FETCHED_FORWARD:
            try:
                self._image(claim)
            except RejectedError:
                # Taken back meanwhile: what the device has made of it by then shows.
                await self._images.withdraw(claim.run)
        return watch.told

    async def enter(self, claim: Claim, stage: Stage) -> Update:
        """Record a stage, if that is what was seen."""
        watch = self._watch(claim)
        seen = following(watch.update.stage, watch.told, watch.terms)
        # That there is no way back may always be said: somebody goes there and looks.
        is_given_up = (watch.update.stage, stage) == (Stage.ASTRAY, Stage.STUCK)
        if (stage is not seen or stage is watch.update.stage) and not is_given_up:
            raise SuspiciousError(f"nobody has seen that the update is {stage}")
        runs = version_told(watch.told.version) or watch.update.runs
        await self._record(claim, replace(watch.update.becomes(stage), runs=runs))
        self._around.crash.reached(CrashPoint.STEP_CHECKPOINTED)
        if stage not in PREPARING | {Stage.TRIGGERED, Stage.INSTALLING, Stage.REVERTING}:
            await self._images.withdraw(claim.run)
        log.info("update goes on", extra=fields_of(claim) | {"stage": stage, "runs": watch.told.version})
        return watch.update

    def check_end(self, claim: Claim, outcome: Outcome, level: Level | None) -> None:
        """Refuse an end to which the update has not come.

        Raises:
            RejectedError: it has not.
        """
        update = self._known(claim)
        if update is None or update.stage is Stage.STAGING:
            if outcome not in {Outcome.REFUSED, Outcome.EXPIRED, Outcome.FAILED}:
                raise RejectedError("nothing was installed")
        elif OUTCOMES.get(update.stage) is not outcome or (
            level is not (Level.VERIFIED if outcome is Outcome.SUCCEEDED else None)
        ):
            raise RejectedError(f"an update that is {update.stage} has not come to {outcome}")

    def check_given_back(self, claim: Claim) -> None:
        """Refuse to have the device be anybody's in the middle of an update.

        Raises:
            RejectedError: it is in the middle of one.
        """
        update = self._known(claim)
        if update is not None and update.stage in UNDER_WAY:
            raise RejectedError(f"the update is {update.stage}: the device is nobody else's")

    async def let_go(self, run: int) -> None:
        """Look at a device no more, and serve nothing to it."""
        self._runs.discard(run)
        self._given_up.pop(run, None)
        watch = self._watches.pop(run, None)
        if watch is not None:
            self._confirmations.ignore(watch)
        await self._images.withdraw(run)

    async def let_go_of_ended(self) -> None:
        """Let those go that were ended elsewhere: by a person, by the time, by losing all who worked them."""
        if self._runs:
            for run in await self._store.read(partial(updates.ended, runs=tuple(self._runs))):
                await self.let_go(run)

    def _beginning(self, claim: Claim) -> Update:
        """What is to be recorded first: which file, and which version runs now."""
        device = self._worlds.devices.get(claim.device)
        recipe = None if device is None else device.compiled.profile.firmware
        image = self._image(claim)
        if device is None or recipe is None:
            raise RejectedError("the device cannot be updated any more")
        held = device.shadow.state.get(ReadingName(recipe.running))
        earlier = "" if held is None or held.live_at is None else version_told(held.value)
        if not earlier:
            raise RejectedError("the device does not tell which version runs")
        return Update(
            stage=Stage.STAGING,
            artifact=image.artifact,
            sha256=image.sha256,
            earlier=earlier,
            wanted=image.version,
        )

    def _known(self, claim: Claim) -> Update | None:
        """Where an update stands."""
        watch = self._watches.get(claim.run)
        known = claim.update if watch is None else watch.update
        return self._given_up.get(claim.run, known)

    async def _give_up(self, claim: Claim, update: Update, why: RejectedError) -> Update:
        """End an update that is under way where its device can be asked and sent nothing more."""
        over = update.becomes(Stage.STUCK if update.stage in FETCHED_BACK else Stage.SILENT)
        await self._record(claim, over)
        self._given_up[claim.run] = over
        log.warning("update given up", extra=fields_of(claim) | {"stage": update.stage, "why": str(why)})
        return over

    def _image(self, claim: Claim) -> Image:
        given = claim.asked.command.arguments
        return self._images.find(ArtifactId(str(given["artifact"])), Digest(str(given["digest"])))

    async def _pickup(self, claim: Claim, recorded: Update | None) -> Pickup:
        """How the device may fetch: after a restart at the same address, which it may try again."""
        held = None
        if recorded is not None:
            held = await self._store.read(partial(updates.ticket_of, run=claim.run))
        device = self._worlds.devices.get(claim.device)
        return Pickup(
            ticket=held or token_urlsafe(_TICKET_BYTES),
            lasts=self._rule().patience,
            address=None if device is None else address_of(device),
        )

    async def _plan(self, claim: Claim, update: Update, pickup: Pickup) -> tuple[FirmwarePlan, bool]:
        """What is sent, with the file's address in it; and whether the device can be taken back."""
        device = self._worlds.devices.get(claim.device)
        recipe = None if device is None else device.compiled.profile.firmware
        if device is None or recipe is None:
            raise RejectedError("the device cannot be updated any more")
        low = too_low(device.compiled.charges, device.shadow) if update.stage is Stage.STAGING else ""
        if low:
            raise RejectedError(low)
        way_back = self._images.earlier(claim.device, update.earlier) if recipe.reversible else None
        is_back = update.stage in FETCHED_BACK
        url = await self._address(claim, update, way_back, pickup)
        plan = device.compiled.firmware(
            url=url or _NOWHERE,
            version=update.earlier if is_back else update.wanted,
            number=randbits(_NUMBER_BITS),
        )
        return plan, way_back is not None and not (is_back and url is None)

    async def _address(
        self, claim: Claim, update: Update, way_back: Image | None, pickup: Pickup
    ) -> str | None:
        """Where the device finds the file that it is to have; None where it needs or may have none."""
        image = way_back
        if update.stage not in FETCHED_BACK | FETCHED_FORWARD:
            return None
        try:
            if update.stage in FETCHED_FORWARD:
                image = self._image(claim)
            if image is None:
                return None
            return await self._images.serve(claim.run, claim.device, image, pickup)
        except (RejectedError, SuspiciousError, TransientError) as why:
            if update.stage is Stage.STAGING and isinstance(why, SuspiciousError):
                # Its file was damaged this very moment: it is found out, and fetched again.
                raise TransientError(str(why)) from why
            if update.stage is Stage.STAGING:
                raise
            # It is looked what becomes of it all the same.
            return None

    def _rule(self) -> FirmwareRule:
        policy = self._worlds.trust.policy
        return FirmwareRule() if policy is None else policy.firmware

    def _terms(self, plan: FirmwarePlan | None, *, can_go_back: bool = False) -> Terms:
        rule = self._rule()
        return Terms(
            soak=rule.soak,
            lasts=rule.patience if plan is None else min(plan.lasts, rule.patience),
            steps=1 if plan is None else len(plan.steps),
            can_go_back=can_go_back,
        )

    async def _note_progress(self, claim: Claim, watch: UpdateWatch) -> None:
        """Keep what was told last, a tenth at a time: what goes back and forth costs no more rows."""
        told, update = watch.told.course.percent, watch.update
        if told is None or update.is_over or int(told) < (update.percent or 0) + _TENTH:
            return
        await self._record(claim, replace(update, percent=int(told)))

    async def _not_sent(self, claim: Claim, before: Update, *, is_last: bool) -> None:
        watch = self._watch(claim)
        watch.begins_anew()
        if not is_last:
            return
        await self._store.write(partial(self._take_back, claim, before))
        watch.update = before

    def _take_back(self, claim: Claim, before: Update, tx: Transaction) -> None:
        locks.check(tx, key_of(claim), self._around.present())
        inbox.note_unsent(tx, claim.run)
        updates.save(tx, claim.run, before, at=self._around.stamp().at)

    async def _record(
        self, claim: Claim, update: Update, *, sending: str | None = None, ticket: str | None = None
    ) -> None:
        """Write where the update stands, under a lock that is ours; at the beginning with its ticket."""
        await self._store.write(partial(self._write, claim, update, sending, ticket))
        watch = self._watches.get(claim.run)
        if watch is not None:
            watch.update = update

    def _write(
        self, claim: Claim, update: Update, sending: str | None, ticket: str | None, tx: Transaction
    ) -> None:
        locks.check(tx, key_of(claim), self._around.present())
        stamp = self._around.stamp()
        (inbox.note_progress if sending is None else inbox.note_sent)(tx, claim.run)
        if ticket is None:
            updates.save(tx, claim.run, update, at=stamp.at)
        else:
            updates.begin(tx, claim.run, claim.device, update, ticket=ticket, at=stamp.at)
        detail: dict[str, JsonValue] = {
            "artifact": update.artifact,
            "sha256": update.sha256,
            "stage": update.stage,
            "earlier": update.earlier,
            "wanted": update.wanted,
            "runs": update.runs,
            "percent": update.percent,
        }
        if sending is not None:
            detail["topic"] = sending
        kind = AuditKind.UPDATE_MOVED if sending is None else AuditKind.STEP_SENT
        audit.append(tx, [about(claim, kind, detail)], stamp)

    def _watch(self, claim: Claim) -> UpdateWatch:
        self._loans.of(claim)
        watch = self._watches.get(claim.run)
        if watch is None:
            raise RejectedError("nothing is served for it")
        return watch
