"""The hub's certificate is renewed before it ends, against the real queue (SPEC H5)."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from shutil import copytree

import pytest
from typing_extensions import override

from edgeagent.adapters.cloud.enrolling import QueueRegistry
from edgeagent.adapters.cloud.https import HttpsQueue
from edgeagent.contracts.reports.health import Level
from edgeagent.core.certificates import read_chain, serial_text
from edgeagent.errors import ConfigurationError, MalformedError
from edgeagent.flows.renewing import RenewalSettings, Renewing
from edgeagent.flows.surroundings import Origin
from edgeagent.ids import HubId, hub_id
from edgeagent.issuer.settings import Limits
from edgeagent.ports.crash import CrashPoint
from edgeagent.ports.identity import NotRenewedError, Shown
from edgeagent.ports.links import LinkError, Trouble
from edgeagent.store.database import Database
from edgeagent.store.identity import IdentitySlots
from tests.flows.building import EPOCH, KilledError, Killer, surroundings
from tests.issuer.building import batch, hello, real_clock
from tests.support.clocks import ManualClock
from tests.support.enrolled import PASSPHRASE, Office, enrolling
from tests.support.stores import opened, query
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("H5")

DAY = timedelta(days=1)
DEATHS = (CrashPoint.CERTIFICATE_GIVEN, CrashPoint.CERTIFICATE_STORED, CrashPoint.CERTIFICATE_TRIED)


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with enrolling(tmp_path_factory.mktemp("office")) as open_office:
        yield open_office


class Counting(QueueRegistry):
    """The queue, as it certifies hubs; counts how often it is asked whether a certificate counts."""

    looks = 0

    @override
    async def shown(self, certificate: Path) -> Shown:
        self.looks += 1
        return await super().shown(certificate)


@dataclass
class Enrolled:
    """A hub with a certificate of ninety days.

    Attributes:
        office: who has certified it.
        hub: who it is.
        slots: its identity.
        clock: its time; the queue has its own.
        crash: ends it at a named point.
        database: its store, which the trail is read from.
    """

    office: Office
    hub: HubId
    slots: IdentitySlots
    clock: ManualClock
    crash: Killer
    store: Database
    path: Path

    @property
    def serial(self) -> str:
        return serial_text(self.slots.load().certificate)

    @cached_property
    def registry(self) -> "Counting":
        """Its end of the queue, where it is certified."""
        return Counting(self.office.settings(self.slots), real_clock())

    def renewing(self) -> Renewing:
        """The flow, as a start of the agent builds it."""
        around = surroundings(self.clock, crash=self.crash, chance=lambda: 0.0)
        around = replace(around, origin=Origin(self.hub, EPOCH, 1))
        return Renewing(self.store, self.slots, self.registry, around, RenewalSettings())

    def rows(self) -> list[tuple[object, ...]]:
        """What the trail tells of renewals."""
        return query(self.path, "SELECT detail FROM audit WHERE kind = 'certificate_renewed'")


@asynccontextmanager
async def enrolled(office: Office, folder: Path, hub: str) -> AsyncIterator[Enrolled]:
    slots = await office.enrols(await office.claims(hub), folder / "identity")
    async with opened(folder / "hub.db") as store:
        yield Enrolled(
            office, hub_id(hub), slots, ManualClock(datetime.now(UTC)), Killer(), store, folder / "hub.db"
        )


async def test_before_two_thirds_of_its_life_it_is_only_asked_whether_it_counts(
    office: Office, tmp_path: Path
) -> None:
    async with enrolled(office, tmp_path, "quiet") as hub:
        hub.clock.passes(59 * DAY)
        renewing, before = hub.renewing(), hub.serial

        await renewing.look()

        assert hub.serial == before
        assert renewing.state.standing == "valid"
        assert (renewing.check().level, hub.rows()) == (Level.OK, [])


async def test_at_two_thirds_the_next_one_is_tried_and_then_shown_and_the_old_one_stays(
    office: Office, tmp_path: Path
) -> None:
    async with enrolled(office, tmp_path, "due") as hub:
        old, before = hub.slots.load().file, hub.serial
        kept = old.read_bytes()
        hub.clock.passes(61 * DAY)
        renewing = hub.renewing()

        await renewing.look()
        # By this clock, which is ahead of the queue's, the new one is due as well.
        await renewing.look()

        assert hub.serial != before
        assert old.read_bytes() == kept
        assert renewing.state.standing == "valid"
        [row] = hub.rows()
        assert hub.serial in str(row)
        assert before in str(row)


@pytest.mark.requirement("R5")
async def test_a_death_anywhere_in_it_is_made_good_and_costs_no_second_certificate(
    office: Office, tmp_path: Path
) -> None:
    async with enrolled(office, tmp_path, "mortal") as hub:
        before, given = hub.serial, set()
        hub.clock.passes(61 * DAY)
        for point in (
            CrashPoint.CERTIFICATE_GIVEN,
            CrashPoint.CERTIFICATE_STORED,
            CrashPoint.CERTIFICATE_TRIED,
        ):
            hub.crash.at = point
            with pytest.raises(KilledError):
                await hub.renewing().look()
            assert hub.serial == before
            waiting = hub.slots.waiting()
            given.update([] if waiting is None else [serial_text(waiting.certificate)])

        await hub.renewing().look()

        assert given == {hub.serial}
        assert len(hub.rows()) == 1


@pytest.mark.requirement("R5")
async def test_an_answer_that_was_lost_for_longer_than_its_certificate_is_good_shuts_no_hub_out(
    tmp_path: Path,
) -> None:
    # Whatever it gives has ended; the hub may renew all the same, for as long as its grace goes on.
    with enrolling(tmp_path, limits=Limits(certificate_lifetime=timedelta(minutes=-10))) as office:
        async with enrolled(office, tmp_path, "away") as hub:
            before = hub.serial
            hub.crash.at = CrashPoint.CERTIFICATE_GIVEN
            with pytest.raises(KilledError):
                await hub.renewing().look()
            office.server.kill()
            office.server.start(Limits())
            renewing = hub.renewing()

            await renewing.look()

            assert hub.serial != before
            assert (await hub.registry.shown(hub.slots.current)).counts
            assert renewing.check().level is Level.OK


@pytest.mark.requirement("R8", "U4")
async def test_without_the_queue_nothing_is_lost_and_health_tells_it_before_the_end(
    office: Office, tmp_path: Path
) -> None:
    async with enrolled(office, tmp_path, "alone") as hub:
        before = hub.serial
        hub.clock.passes(61 * DAY)
        office.server.kill()
        try:
            renewing = hub.renewing()
            with pytest.raises(LinkError):
                await renewing.look()
            key = (hub.slots.folder / "next.key").read_bytes()
            with pytest.raises(LinkError) as failed:
                await renewing.look()
            renewing.state.failing = str(failed.value)
            assert renewing.check().level is Level.OK
            hub.clock.passes(20 * DAY)
            early = renewing.check()
            hub.clock.passes(7 * DAY)
            late = renewing.check()
        finally:
            office.server.start()

        assert (early.level, late.level) == (Level.WARNING, Level.CRITICAL)
        assert "is not renewed" in early.summary
        assert hub.serial == before
        assert (hub.slots.folder / "next.key").read_bytes() == key
        await hub.renewing().look()
        assert hub.serial != before


@pytest.mark.requirement("R4")
async def test_a_clock_in_1970_takes_nothing_away_and_asks_for_nothing(
    office: Office, tmp_path: Path
) -> None:
    async with enrolled(office, tmp_path, "young") as hub:
        files = {path.name: path.read_bytes() for path in hub.slots.folder.iterdir()}
        right = hub.clock.wall().best
        hub.clock.is_set(datetime(1970, 1, 2, tzinfo=UTC))
        renewing = hub.renewing()

        with pytest.raises(ConfigurationError, match="clock"):
            await renewing.look()

        check = renewing.check()
        assert (check.level, "correct the clock" in check.advice) == (Level.WARNING, True)
        assert {path.name: path.read_bytes() for path in hub.slots.folder.iterdir()} == files
        hub.clock.is_set(right)
        await renewing.look()
        assert renewing.check().level is Level.OK


async def test_a_slot_that_is_damaged_gives_way_to_the_other(office: Office, tmp_path: Path) -> None:
    async with enrolled(office, tmp_path, "cut") as hub:
        first = hub.serial
        hub.clock.passes(61 * DAY)
        await hub.renewing().look()
        hub.slots.load().file.write_bytes(bytes(100))
        renewing = hub.renewing()

        with pytest.raises(NotRenewedError):
            await renewing.look()

        # The earlier one counts until it ends, and gets no further one: a person is told in time.
        assert hub.serial == first
        assert "claim code" in renewing.check().advice


async def test_both_slots_damaged_is_told_and_the_files_are_kept(office: Office, tmp_path: Path) -> None:
    async with enrolled(office, tmp_path, "lost") as hub:
        hub.slots.load().file.write_bytes(b"")
        renewing = hub.renewing()

        with pytest.raises(ConfigurationError):
            await renewing.look()

        check = renewing.check()
        assert check.level is Level.CRITICAL
        assert "damaged" in check.summary
        assert "edgeagent setup --claim" in check.advice


@pytest.mark.requirement("H9")
async def test_a_hub_that_was_taken_back_or_enrolled_anew_elsewhere_is_told(
    office: Office, tmp_path: Path
) -> None:
    async with enrolled(office, tmp_path, "gone") as hub:
        renewing = hub.renewing()
        await office.enrols(await office.claims("gone"), tmp_path / "elsewhere")
        await renewing.look()
        replaced = renewing.check()
        async with office.issuer() as issuer:
            await issuer.revoke(hub_id("gone"))

    assert replaced.level is Level.CRITICAL
    assert "is replaced" in replaced.summary
    assert "claim code" in replaced.advice


async def test_who_is_turned_away_has_it_looked_at_once_and_not_again_and_again(
    office: Office, tmp_path: Path
) -> None:
    async with (
        enrolled(office, tmp_path, "shut-out") as hub,
        asking(hub) as queue,
        asyncio.TaskGroup() as tasks,
    ):
        renewing, registry = hub.renewing(), hub.registry
        running = tasks.create_task(renewing.run())
        queue.when_turned_away(renewing.hears)
        await eventually(lambda: renewing.state.standing == "valid")

        async with office.issuer() as issuer:
            await issuer.revoke(hub.hub)
        await turned_away(queue)
        await eventually(lambda: renewing.check().level is Level.CRITICAL)
        looks = registry.looks
        for _ in range(3):
            await turned_away(queue)

        assert looks == registry.looks == 2
        assert "is revoked" in renewing.check().summary
        assert "claim code" in renewing.check().advice
        hub.clock.passes(timedelta(minutes=4))
        await turned_away(queue)
        await eventually(lambda: registry.looks == 3)

        await office.enrols(await office.claims("shut-out"), hub.slots.folder)
        queue.adopt(office.settings(hub.slots))
        await queue.close()
        await queue.upload(batch(hub.hub, [hello()]))
        await eventually(lambda: renewing.state.standing == "valid")
        assert renewing.check().level is Level.OK
        running.cancel()


async def test_where_the_authority_signs_with_another_key_it_renews_at_the_next_look_and_once(
    tmp_path: Path,
) -> None:
    with enrolling(tmp_path) as office:
        async with enrolled(office, tmp_path, "moved") as hub:
            renewing, before = hub.renewing(), hub.serial
            await renewing.look()
            made = office.folder.rotate(datetime.now(UTC), passphrase=PASSPHRASE)

            hub.crash.at = CrashPoint.CERTIFICATE_TRIED
            with pytest.raises(KilledError):
                await renewing.look()
            assert hub.serial == before
            renewing = hub.renewing()
            await renewing.look()

            after = hub.serial
            assert after != before
            assert read_chain(hub.slots.load().file.read_bytes())[1] == made.issuing
            office.folder.rotate(datetime.now(UTC), passphrase=PASSPHRASE)
            await renewing.look()
            assert hub.serial == after, "not again at once, whatever the queue says"
            hub.clock.passes(timedelta(hours=1))
            await renewing.look()
            assert hub.serial != after
            assert len(hub.rows()) == 2


@asynccontextmanager
async def asking(hub: Enrolled) -> AsyncIterator[HttpsQueue]:
    """The hub's end of the queue, by which events go up and commands come."""
    queue = HttpsQueue(hub.office.settings(hub.slots), hub.hub, hub.clock)
    try:
        yield queue
    finally:
        await queue.close()


async def turned_away(queue: HttpsQueue) -> None:
    """Ask the queue for commands, in vain."""
    with pytest.raises(LinkError) as refused:
        await queue.lease(most=1, wait=timedelta(0), hold=timedelta(seconds=1))
    assert refused.value.trouble is Trouble.LOGIN


async def test_a_second_machine_with_the_same_identity_gets_no_certificate_of_its_own(
    office: Office, tmp_path: Path
) -> None:
    async with enrolled(office, tmp_path, "twin") as hub:
        copytree(hub.slots.folder, tmp_path / "copy", symlinks=True)
        hub.clock.passes(61 * DAY)
        await hub.renewing().look()
        twin = replace(hub, slots=IdentitySlots(tmp_path / "copy"))
        renewing = twin.renewing()

        with pytest.raises(NotRenewedError):
            await renewing.look()

        assert "is replaced" in renewing.check().summary
        await hub.renewing().look()


async def test_an_answer_with_somebody_elses_certificate_changes_nothing(
    office: Office, tmp_path: Path
) -> None:
    async with enrolled(office, tmp_path, "mine") as hub:
        stranger = await office.enrols(await office.claims("stranger"), tmp_path / "stranger")
        hub.slots.authority.write_bytes(stranger.load().file.read_bytes())
        files = {path.name: path.read_bytes() for path in hub.slots.folder.iterdir()}
        hub.clock.passes(61 * DAY)

        # The root that it trusts is another one: what the queue gives does not go back to it.
        with pytest.raises(MalformedError):
            await hub.renewing().look()

        left = {
            path.name: path.read_bytes() for path in hub.slots.folder.iterdir() if path.name != "next.key"
        }
        assert left == files


async def test_an_identity_of_another_hub_is_not_shown_as_this_one(office: Office, tmp_path: Path) -> None:
    async with enrolled(office, tmp_path, "one") as hub:
        renewing = replace(hub, hub=hub_id("other")).renewing()

        with pytest.raises(ConfigurationError):
            await renewing.look()

        check = renewing.check()
        assert (check.level, check.summary) == (
            Level.CRITICAL,
            "the certificate is of one, and [hub] id is other",
        )


async def test_a_set_up_in_the_middle_of_a_renewal_wins_and_nothing_that_counts_is_lost(
    office: Office, tmp_path: Path
) -> None:
    async with enrolled(office, tmp_path, "both") as hub:
        hub.clock.passes(61 * DAY)
        hub.crash.at = CrashPoint.CERTIFICATE_STORED
        with pytest.raises(KilledError):
            await hub.renewing().look()
        # The same next key is certified anew, for a code: what the renewal has stored counts no more.
        renewed = hub.slots.waiting()
        assert renewed is not None
        await office.enrols(await office.claims("both"), hub.slots.folder)
        anew = hub.serial

        hub.slots.drop(renewed.file)
        await hub.renewing().look()

        assert serial_text(renewed.certificate) != anew
        assert (await office.registry(hub.slots).shown(hub.slots.current)).counts
