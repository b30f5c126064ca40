"""A published policy: what puts it in force, what cannot, and what the hub judges by without a network."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from edgeagent.contracts.door import encode
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.gate.roles import keyring
from edgeagent.errors import StorageError, TransientError
from edgeagent.ids import hub_id
from edgeagent.store import audit
from edgeagent.store import policy as policies
from edgeagent.store.database import Database
from tests.flows.building import HUB, breathe
from tests.flows.publishing import DESK, Hub, policy, started
from tests.support.clocks import NOON, LoopTime
from tests.support.keys import MemoryKey
from tests.support.stores import full_disk, opened, query
from tests.support.tuf_repository import DAY, Repository
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("T2", "C5")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repository", now=NOON)
    made.publishes(policy(1))
    return made


async def test_it_comes_into_force_and_is_stored_with_all_that_stands_behind_it(
    store: Database, repository: Repository
) -> None:
    hub = await started(store, repository)
    told: list[str] = []
    hub.trust.when_proven(lambda: told.append("surer"))

    assert await hub.refreshes()

    assert hub.trust.policy == policy(1)
    assert hub.trust.until == NOON + 7 * DAY
    assert hub.trust.policy_problem == ""
    assert told == ["surer"]
    [record] = await hub.records(AuditKind.POLICY_ACCEPTED)
    assert record == {
        "version": 1,
        "sha256": sha256(encode(policy(1))).hexdigest(),
        "root": 1,
        "timestamp": 1,
        "snapshot": 1,
        "targets": 1,
        "until": "2027-03-08T12:00:00Z",
    }


async def test_before_the_first_one_the_hub_says_so(store: Database, repository: Repository) -> None:
    hub = await started(store, repository)

    assert hub.trust.policy is None
    assert hub.trust.policy_problem == "none has come from [policy] source yet"


async def test_after_a_restart_the_hub_judges_from_its_store_without_a_network(
    store: Database, repository: Repository
) -> None:
    await (await started(store, repository)).refreshes()
    repository.file("timestamp").unlink()

    hub = await started(store, repository)

    assert hub.source.asked == 0
    assert hub.trust.policy == policy(1)
    assert hub.trust.until == NOON + 7 * DAY
    assert hub.trust.policy_problem == ""


async def test_a_fresh_timestamp_lengthens_its_life(store: Database, repository: Repository) -> None:
    hub = await started(store, repository)
    await hub.refreshes()
    repository.now = NOON + 3 * DAY
    repository.signs_timestamp()

    assert await hub.refreshes()

    assert hub.trust.until == NOON + 10 * DAY
    assert len(await hub.records(AuditKind.POLICY_ACCEPTED)) == 2


async def test_what_is_held_already_is_not_written_again(store: Database, repository: Repository) -> None:
    hub = await started(store, repository)
    await hub.refreshes()

    assert await hub.refreshes()

    assert len(await hub.records(AuditKind.POLICY_ACCEPTED)) == 1


async def test_the_revocation_of_a_commands_key_takes_effect_without_a_reinstall(
    store: Database, repository: Repository
) -> None:
    hub = await started(store, repository)
    await hub.refreshes()
    other = MemoryKey()
    before = keyring(hub.trust.policy, HUB, None)
    repository.publishes(policy(2, keys={"desk": other.public.hex()}))

    await hub.refreshes()

    assert set(before) == {DESK.id}
    assert set(keyring(hub.trust.policy, HUB, None)) == {other.id}


@pytest.mark.requirement("T2", "R1")
async def test_after_months_offline_with_five_roots_it_goes_on_without_a_reinstall(
    store: Database, repository: Repository
) -> None:
    await (await started(store, repository)).refreshes()
    for month in range(1, 6):
        repository.now = NOON + month * 30 * DAY
        repository.rotates("root", "timestamp", "snapshot", "targets")
    repository.publishes(policy(2))

    hub = await started(store, repository)
    took_it = await hub.refreshes()

    assert took_it
    assert hub.trust.policy == policy(2)
    [_, record] = await hub.records(AuditKind.POLICY_ACCEPTED)
    assert record["root"] == 6


# What is refused, and changes nothing.


def of_other_hubs(repository: Repository) -> None:
    repository.publishes(policy(2, hubs=frozenset({hub_id("venue-8")})))


def going_back(repository: Repository) -> None:
    repository.publishes(policy(1))


def of_the_same_version(repository: Repository) -> None:
    repository.publishes(policy(5, keys={"desk": MemoryKey().public.hex()}))


def contradicting_itself(repository: Repository) -> None:
    fields = json.loads(encode(policy(6)))
    fields["roles"]["desk"]["keys"] = ["nobody"]
    repository.publishes(json.dumps(fields).encode())


def with_an_unknown_field(repository: Repository) -> None:
    fields = json.loads(encode(policy(6))) | {"script": "reboot"}
    repository.publishes(json.dumps(fields).encode())


def that_is_no_text(repository: Repository) -> None:
    repository.publishes(b"\xff\xfe")


def that_is_empty(repository: Repository) -> None:
    repository.publishes(b"")


def with_another_digest(repository: Repository) -> None:
    raw = encode(policy(6))
    repository.publishes(raw)
    path = repository.folder / f"targets/{sha256(raw).hexdigest()}.policy.json"
    path.write_bytes(raw.replace(b'"version":6', b'"version":7'))


def with_an_old_timestamp(repository: Repository) -> None:
    repository.timestamp.version = 0
    repository.signs_timestamp()


def with_a_timestamp_of_somebody(repository: Repository) -> None:
    repository.file("timestamp").write_bytes(b'{"signed":{},"signatures":[]}')


def without_end(repository: Repository) -> None:
    repository.file("timestamp").write_bytes(b" " * 500_000)


REFUSED: dict[Callable[[Repository], None], tuple[str | None, str]] = {
    of_other_hubs: ("wrong_hub", "other hubs"),
    going_back: (None, "older than 5"),
    of_the_same_version: (None, "another policy of version 5"),
    contradicting_itself: ("malformed", "names a key that is not listed"),
    with_an_unknown_field: ("malformed", "script"),
    that_is_no_text: ("malformed", "UTF-8"),
    that_is_empty: ("malformed", "not JSON"),
    with_another_digest: ("unproven_metadata", "expected hash"),
    with_an_old_timestamp: ("unproven_metadata", "timestamp"),
    with_a_timestamp_of_somebody: ("unproven_metadata", "JSON"),
    without_end: ("unproven_metadata", "maximum allowed length"),
}


@pytest.mark.parametrize("attack", REFUSED, ids=lambda attack: attack.__name__)
async def test_one_that_does_not_count_is_refused_once_and_changes_nothing(
    store: Database, repository: Repository, attack: Callable[[Repository], None]
) -> None:
    repository.publishes(policy(5))
    hub = await started(store, repository)
    await hub.refreshes()
    before = await hub.row()
    attack(repository)

    assert not await hub.refreshes()
    assert not await hub.refreshes()

    reason, word = REFUSED[attack]
    assert word in hub.trust.policy_problem
    assert hub.trust.policy == policy(5)
    assert await hub.row() == before
    [record] = await hub.records(AuditKind.POLICY_REFUSED)
    assert record.get("reason") == reason
    assert record["why"] == hub.trust.policy_problem
    assert (await started(store, repository)).trust.policy == policy(5)


async def test_a_frozen_repository_is_refused_as_soon_as_its_end_is_certainly_past(
    store: Database, repository: Repository
) -> None:
    hub = await started(store, repository)
    await hub.refreshes()
    hub.readings.passes(8 * DAY)

    assert not await hub.refreshes()

    assert "expired" in hub.trust.policy_problem
    assert hub.trust.policy == policy(1)


async def test_with_a_clock_that_is_not_sure_what_may_have_expired_is_taken(
    store: Database, repository: Repository
) -> None:
    hub = await started(store, repository, is_sure=False)
    hub.readings.passes(1000 * DAY)

    assert await hub.refreshes()

    assert hub.source.now == hub.clock.floor


async def test_a_later_root_is_kept_though_the_rest_is_refused(
    store: Database, repository: Repository
) -> None:
    hub = await started(store, repository)
    await hub.refreshes()
    repository.rotates("timestamp")

    assert not await hub.refreshes()

    taken = await store.read(policies.load_published)
    assert taken is not None
    assert taken.held.metadata.root == repository.file("2.root").read_bytes()
    assert taken.held.policy == encode(policy(1))
    assert hub.trust.policy == policy(1)


async def test_a_thief_of_the_targets_key_does_not_lock_newer_policies_out(
    store: Database, repository: Repository
) -> None:
    """A version of 2**53 - 1 is recovered from by other keys, and only by those (TUF 5.3.11)."""
    repository.publishes(policy(2**53 - 1))
    hub = await started(store, repository)
    await hub.refreshes()
    repository.publishes(policy(2))
    without_rotation = await hub.refreshes()

    repository.rotates("targets", "snapshot", "timestamp")
    repository.publishes(policy(2))
    with_rotation = await hub.refreshes()

    assert (without_rotation, with_rotation) == (False, True)
    assert hub.trust.policy == policy(2)
    assert (await started(store, repository)).trust.policy == policy(2)


class TestAnotherPinnedRoot:
    """The operator has put another file in the place of the first root."""

    async def test_a_strangers_root_does_not_stand_behind_the_stored_policy(
        self, store: Database, repository: Repository, tmp_path: Path
    ) -> None:
        repository.publishes(policy(3))
        await (await started(store, repository)).refreshes()
        other = Repository(tmp_path / "other", now=NOON)
        other.publishes(policy(2))

        hub = await started(store, other)
        problem = hub.trust.policy_problem
        took_the_lower = await hub.refreshes()
        other.publishes(policy(4))
        took_the_higher = await hub.refreshes()

        assert "does not go back to the root" in problem
        assert (took_the_lower, took_the_higher) == (False, True)
        assert hub.trust.policy == policy(4)

    async def test_a_later_root_of_the_same_repository_does(
        self, store: Database, repository: Repository
    ) -> None:
        await (await started(store, repository)).refreshes()
        repository.rotates("root")

        hub = await started(store, repository, root=repository.file("2.root").read_bytes())

        assert hub.trust.policy == policy(1)

    async def test_a_rollback_behind_it_is_refused_all_the_same(
        self, store: Database, repository: Repository
    ) -> None:
        old = repository.file("timestamp").read_bytes()
        repository.publishes(policy(2))
        await (await started(store, repository)).refreshes()
        repository.rotates("root")
        repository.file("timestamp").write_bytes(old)

        hub = await started(store, repository, root=repository.file("2.root").read_bytes())
        took_it = await hub.refreshes()

        assert not took_it
        assert hub.trust.policy == policy(2)


async def test_a_signed_file_of_before_leaves_its_version_behind(
    store: Database, repository: Repository
) -> None:
    await store.write(lambda tx: policies.save(tx, 9, b"an envelope"))

    hub = await started(store, repository)
    took_the_lower = await hub.refreshes()
    repository.publishes(policy(10))
    took_the_higher = await hub.refreshes()

    assert (took_the_lower, took_the_higher) == (False, True)
    assert hub.trust.policy == policy(10)


@pytest.mark.requirement("R2")
async def test_one_that_the_disk_does_not_take_is_not_in_force(
    tmp_path: Path, repository: Repository
) -> None:
    path = tmp_path / "hub.db"
    async with opened(path) as store:
        hub = await started(store, repository)
        await hub.refreshes()
        repository.publishes(policy(2))

        with full_disk(path), pytest.raises(StorageError):
            await hub.refreshes()

        assert hub.trust.policy == policy(1)
        assert await hub.refreshes()


class TestFromTimeToTime:
    """It is looked for at start, about every hour, and again sooner after a failure."""

    async def running(self, hub: Hub) -> asyncio.Task[None]:
        return asyncio.create_task(hub.refreshing.run())

    async def ended(self, task: asyncio.Task[None]) -> None:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def test_at_start_and_every_hour(self, store: Database, repository: Repository) -> None:
        hub, time = await started(store, repository), LoopTime()
        task = await self.running(hub)
        await eventually(lambda: hub.trust.policy == policy(1))
        repository.publishes(policy(2))

        time.passes(timedelta(minutes=61))
        await eventually(lambda: hub.trust.policy == policy(2))
        await self.ended(task)

        assert hub.source.asked == 2

    async def test_a_source_that_is_away_is_asked_again_and_named(
        self, store: Database, repository: Repository
    ) -> None:
        hub, time = await started(store, repository), LoopTime()
        hub.source.is_away = True
        task = await self.running(hub)
        await eventually(lambda: hub.trust.source_problem)
        problem = hub.trust.source_problem

        hub.source.is_away = False
        time.passes(timedelta(minutes=1))
        await eventually(lambda: hub.trust.policy == policy(1))
        await self.ended(task)

        assert problem == "no route to host"
        assert hub.trust.source_problem == ""
        assert await hub.records(AuditKind.POLICY_REFUSED) == []


async def test_what_cannot_be_fetched_is_no_refusal(store: Database, repository: Repository) -> None:
    hub = await started(store, repository)
    hub.source.is_away = True

    with pytest.raises(TransientError):
        await hub.refreshes()

    assert await store.read(lambda db: audit.rows(db, after=0, most=10)) == []


class TestItsEnd:
    """That its time is over is on record once, in whatever number of lives of the process."""

    async def test_it_is_recorded_once(self, store: Database, repository: Repository) -> None:
        hub = await started(store, repository)
        await hub.refreshes()

        early = await hub.end.look()
        hub.readings.passes(7 * DAY + DAY)
        looks = [await hub.end.look(), await hub.end.look()]
        repository.now = NOON + 8 * DAY
        again = await (await started(store, repository)).end.look()

        assert (early, looks, again) == (False, [True, False], False)
        assert await hub.records(AuditKind.POLICY_EXPIRED) == [
            {"version": 1, "until": "2027-03-08T12:00:00Z"}
        ]

    async def test_a_renewed_one_ends_anew(self, store: Database, repository: Repository) -> None:
        hub = await started(store, repository)
        await hub.refreshes()
        hub.readings.passes(8 * DAY)
        await hub.end.look()
        repository.now = NOON + 8 * DAY
        repository.signs_timestamp()
        await hub.refreshes()
        hub.readings.passes(8 * DAY)

        assert await hub.end.look()

    async def test_renewed_metadata_of_a_policy_that_is_over_itself_tell_nothing_new(
        self, store: Database, repository: Repository
    ) -> None:
        repository.publishes(policy(2, expires_at=NOON + DAY))
        hub = await started(store, repository)
        await hub.refreshes()
        hub.readings.passes(2 * DAY)
        first = await hub.end.look()
        repository.signs_timestamp()
        await hub.refreshes()

        assert (first, await hub.end.look()) == (True, False)

    async def test_with_a_clock_that_is_not_sure_nothing_has_ended(
        self, store: Database, repository: Repository
    ) -> None:
        hub = await started(store, repository, is_sure=False)
        await hub.refreshes()
        hub.readings.passes(1000 * DAY)

        assert not await hub.end.look()

    async def test_it_is_looked_for_every_minute(
        self, store: Database, repository: Repository, tmp_path: Path
    ) -> None:
        hub, time = await started(store, repository), LoopTime()
        await hub.refreshes()
        task = asyncio.create_task(hub.end.run())
        await breathe(store)
        hub.readings.passes(8 * DAY)

        time.passes(timedelta(seconds=61))
        await eventually(lambda: query(tmp_path / "hub.db", "SELECT is_over FROM policy") == [(1,)])
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def test_without_a_policy_nothing_ends(self, store: Database, repository: Repository) -> None:
        assert not await (await started(store, repository)).end.look()
