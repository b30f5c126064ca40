"""What a start makes of the database that it finds and of the mark beside it."""

import asyncio
import json
from datetime import timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path

import pytest

from edgeagent import config as configuration
from edgeagent.agent.beginning import Before, begun, least_policy_version
from edgeagent.clock import BUILT_AT, FloorSource, ProvenClock
from edgeagent.config import Config
from edgeagent.contracts.backup import Why
from edgeagent.contracts.event import EventType, Stream
from edgeagent.contracts.floormark import EpochReason, FloorMark
from edgeagent.contracts.order import Verb
from edgeagent.contracts.policy import POLICY_TYPE
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.catalogue import Catalogue, Listing, following
from edgeagent.core.stops import Standing
from edgeagent.ids import digest, hub_id, new_epoch
from edgeagent.store import audit, meta, outbox, policy, stops
from edgeagent.store import catalogue as catalogues
from edgeagent.store.audit import Act, Stamp
from edgeagent.store.backups import Backups, Wish
from edgeagent.store.database import Database
from edgeagent.store.meta import Life, StoredFloor
from edgeagent.store.side import Side
from tests.core.test_catalogue import artifact
from tests.support.clocks import NOON, ManualReadings

pytestmark = pytest.mark.requirement("T8")

HUB = hub_id("venue-7")
OLD = new_epoch(1, 1)
KEY = bytes(32)
DAY = timedelta(days=1)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """A hub with nothing but a name."""
    path = tmp_path / "config.toml"
    path.write_text(f'[hub]\nid = "{HUB}"\nstate_dir = "{tmp_path}"\nrun_dir = "{tmp_path}"\n', "utf-8")
    return configuration.load(path)


def mark(**more: object) -> FloorMark:
    fields: dict[str, object] = {
        "hub": HUB,
        "sequence": 4,
        "epoch": OLD,
        "incarnation": 7,
        "audit_number": 40,
        "audit_hash": digest("0" * 64),
    }
    return FloorMark.model_validate(fields | more)


def clock() -> ProvenClock:
    return ProvenClock(ManualReadings(NOON))


async def test_a_first_start_begins_the_first_epoch(store: Database, config: Config) -> None:
    origin = await begun(store, config, clock(), KEY, Before())

    life = await store.read(meta.life)
    assert life == Life(epoch=origin.epoch, reason=EpochReason.FIRST)
    assert origin.incarnation == 1
    assert await kinds(store) == [AuditKind.DATABASE_CREATED, AuditKind.EPOCH_BEGUN, AuditKind.STARTED]


async def kinds(store: Database) -> list[str]:
    return [row.kind for row, _ in await store.read(lambda db: audit.rows(db, after=0, most=100))]


async def test_a_second_start_goes_on(store: Database, config: Config) -> None:
    first = await begun(store, config, clock(), KEY, Before())
    second = await begun(store, config, clock(), KEY, Before())

    assert (second.epoch, second.incarnation) == (first.epoch, 2)
    assert (await kinds(store)).count(AuditKind.EPOCH_BEGUN) == 1


@pytest.mark.requirement("H1")
async def test_a_backup_knows_whose_it_is_when_the_trail_has_dropped_the_start(
    store: Database, config: Config
) -> None:
    """An agent that runs for longer than its trail is kept."""
    await begun(store, config, clock(), KEY, Before())
    later = Act(kind=AuditKind.BACKED_UP, subject="an earlier one", actor="uid:0", detail={})
    last = await store.write(lambda tx: audit.append(tx, [later], Stamp("2026-12-01T00:00:00Z", "kernel")))
    await store.write(partial(audit.drop, upto=last.number - 1))
    assert AuditKind.STARTED not in await kinds(store)

    wish = Wish(why=Why.UPGRADE, made_at=NOON, version="unknown", tables_after=99)
    backup = await asyncio.to_thread(Backups(store.path.parent).make, Side(store.path), wish)

    assert backup.manifest is not None
    assert (backup.manifest.hub, backup.manifest.version) == (HUB, version("edgeagent"))
    assert backup.name.startswith(f"pre-0099-from-{version('edgeagent')}-")


async def test_a_lost_database_takes_over_what_the_mark_remembers(store: Database, config: Config) -> None:
    before = Before(mark=mark(time_floor=NOON, floor_resets=2, policy_version=5))

    origin = await begun(store, config, clock(), KEY, before)

    assert origin.incarnation == 8
    life = await store.read(meta.life)
    assert life == Life(epoch=origin.epoch, reason=EpochReason.LOST, previous=OLD)
    assert await store.read(meta.time_floor) == StoredFloor(NOON, FloorSource.FLOOR_FILE, 2)
    assert await store.read(least_policy_version) == 5


@pytest.mark.requirement("B3")
@pytest.mark.parametrize("was_resumed", [False, True])
async def test_what_was_stopped_stays_stopped_in_the_next_life(
    store: Database, config: Config, *, was_resumed: bool
) -> None:
    if was_resumed:  # in the earlier copy that was put back
        word = Standing(kind="tier:high", verb=Verb.RESUME, sequence=9, by="uid:0 root", why="", at=0)
        await store.write(partial(stops.put, word=word))

    await begun(store, config, clock(), KEY, Before(mark=mark(stops=["action:power", "tier:high"])))

    assert await store.read(stops.stopped) == {"action:power", "tier:high"}
    [(detail,)] = await store.read(lambda db: db.rows("SELECT detail FROM audit WHERE kind = 'epoch_begun'"))
    assert json.loads(detail)["stopped"] == ["action:power", "tier:high"]


@pytest.mark.requirement("T6")
@pytest.mark.parametrize(
    ("resets", "moment", "counts"),
    [
        pytest.param(1, NOON - DAY, NOON, id="an earlier one of as many resets"),
        pytest.param(1, NOON + DAY, NOON + DAY, id="a later one of as many resets"),
        pytest.param(0, NOON + DAY, NOON, id="one from before the reset"),
        pytest.param(2, BUILT_AT, BUILT_AT, id="one of a reset that the database has lost"),
    ],
)
async def test_the_floor_of_more_resets_counts_and_else_the_later_one(
    store: Database, config: Config, resets: int, moment: object, counts: object
) -> None:
    await store.write(partial(meta.set_time_floor, floor=StoredFloor(NOON, FloorSource.KERNEL, 1)))
    before = Before(mark=mark(time_floor=moment, floor_resets=resets))

    await begun(store, config, clock(), KEY, before)

    stored = await store.read(meta.time_floor)
    assert stored is not None
    assert stored.moment == counts


@pytest.mark.requirement("T2")
@pytest.mark.parametrize(("stored", "stays"), [(4, False), (5, True)])
async def test_a_restored_database_forgets_a_policy_that_was_replaced(
    store: Database, config: Config, stored: int, *, stays: bool
) -> None:
    await begun(store, config, clock(), KEY, Before())
    await store.write(partial(policy.save, version=stored, envelope=POLICY_TYPE.encode()))

    await begun(store, config, clock(), KEY, Before(mark=mark(policy_version=5)))

    life = await store.read(meta.life)
    assert life is not None
    assert life.reason is EpochReason.RESTORED
    assert await store.read(policy.is_stored) is stays
    assert await store.read(least_policy_version) == (0 if stays else 5)


@pytest.mark.requirement("V3")
@pytest.mark.parametrize("is_restored", [False, True])
async def test_of_a_restored_catalogue_nothing_is_believed_until_it_is_looked_at_anew(
    store: Database, config: Config, *, is_restored: bool
) -> None:
    await begun(store, config, clock(), KEY, Before())
    known = following(Catalogue(), Listing({"plugs": [artifact()]}))
    await store.write(partial(catalogues.save, catalogue=known, delegated={}))

    await begun(store, config, clock(), KEY, Before(mark=mark() if is_restored else None))

    found = await store.read(catalogues.load)
    assert found.listed == known.listed
    assert bool(found.stale) is is_restored


@pytest.mark.requirement("U1")
async def test_what_waited_in_a_restored_database_goes_up_in_the_new_epoch_from_1(
    store: Database, config: Config
) -> None:
    await begun(store, config, clock(), KEY, Before())
    await begun(store, config, clock(), KEY, Before())
    await store.write(partial(outbox.acknowledge, stream=Stream.RECORD, numbers=[1]))

    await begun(store, config, clock(), KEY, Before(mark=mark()))

    waiting = await store.read(lambda db: outbox.batch(db, Stream.RECORD, most=10, most_bytes=10**6))
    assert [event.number for event in waiting] == [1, 2]
    assert {event.type for event in waiting} == {EventType.HUB_HELLO}
    assert b'"reason":"restored"' in waiting[-1].data
