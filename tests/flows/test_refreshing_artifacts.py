"""The catalogue of artifacts at a hub: taken with the policy, kept without a network, never half of it."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.catalogue import Catalogue, Floor
from edgeagent.ids import ArtifactId
from edgeagent.store import catalogue as catalogues
from edgeagent.store.database import Database
from tests.flows.publishing import Hub, policy, started
from tests.support.clocks import NOON
from tests.support.tuf_repository import DAY, Repository

pytestmark = pytest.mark.requirement("F1", "V3", "R1")

PLUG: Final[dict[str, object]] = {
    "family": "tasmota", "models": ["PM-1"], "version": "14.1.0(tasmota)", "floor": "14.0.0"
}  # fmt: skip
ROLE: Final = "artifacts-plugs"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repository", now=NOON)
    made.publishes(policy(1))
    made.delegates("plugs")
    made.lists("plugs", plug_1=PLUG, plug_2=PLUG)
    return made


async def stored(hub: Hub) -> tuple[Catalogue, dict[str, bytes]]:
    """What the hub has of artifacts on its disk."""
    return await hub.store.read(lambda db: (catalogues.load(db), catalogues.load_metadata(db)))


async def test_it_is_taken_and_stored_with_the_policy(store: Database, repository: Repository) -> None:
    hub = await started(store, repository)

    assert await hub.refreshes()

    assert set(hub.trust.catalogue.listed) == {"plug-1", "plug-2"}
    assert hub.trust.catalogue.floors == (Floor("plugs", "tasmota", "PM-1", "14.0.0"),)
    behind = {ROLE: repository.file(f"2.{ROLE}").read_bytes()}
    assert await stored(hub) == (hub.trust.catalogue, behind)
    [record] = await hub.records(AuditKind.ARTIFACTS_LISTED)
    assert record == {"listed": 2, "revoked": 0, "roles": {"plugs": 2}}


async def test_after_a_restart_it_is_there_without_a_network(store: Database, repository: Repository) -> None:
    before = await started(store, repository)
    await before.refreshes()
    repository.file("timestamp").unlink()

    hub = await started(store, repository)

    assert hub.source.asked == 0
    assert hub.trust.catalogue == before.trust.catalogue


async def test_one_that_stays_the_same_is_told_once(store: Database, repository: Repository) -> None:
    hub = await started(store, repository)
    await hub.refreshes()
    repository.now += 3 * DAY
    repository.signs_timestamp()

    assert await hub.refreshes()

    assert len(await hub.records(AuditKind.ARTIFACTS_LISTED)) == 1


async def test_what_is_listed_no_more_is_revoked_for_good(store: Database, repository: Repository) -> None:
    hub = await started(store, repository)
    await hub.refreshes()
    repository.lists("plugs", plug_1=PLUG)

    await hub.refreshes()

    again = await started(store, repository)
    assert set(again.trust.catalogue.listed) == {"plug-1"}
    assert set(again.trust.catalogue.revoked) == {"plug-2"}
    assert again.trust.catalogue.floors == (Floor("plugs", "tasmota", "PM-1", "14.0.0"),)


@pytest.mark.threat("T6")
@pytest.mark.requirement("C4")
async def test_a_listing_that_contradicts_itself_changes_nothing_but_the_trail(
    store: Database, repository: Repository
) -> None:
    hub = await started(store, repository)
    await hub.refreshes()
    before = await stored(hub)
    repository.lists("plugs", plug_1={**PLUG, "version": "99.0.0"}, plug_3=PLUG)
    repository.publishes(policy(2))

    assert await hub.refreshes()
    assert await hub.refreshes()

    # The policy is the newer one: who builds files does not keep it from the hub.
    assert hub.trust.policy == policy(2)
    doubted = replace(before[0], stale=hub.trust.catalogue.stale)
    assert await stored(hub) == (doubted, before[1])
    assert hub.trust.catalogue == doubted
    words = "artifact plug-1 is another file than it was; a new file has a new id"
    assert await hub.records(AuditKind.ARTIFACTS_REFUSED) == [{"group": "plugs", "why": words}]
    assert hub.trust.refused_artifacts == f"plugs: {words}"


@pytest.mark.requirement("C4")
async def test_a_group_that_is_refused_costs_no_other_and_is_remembered(
    store: Database, repository: Repository
) -> None:
    repository.delegates("lamps")
    hub = await started(store, repository)
    await hub.refreshes()
    repository.lists("plugs", plug_1=PLUG, plug_3={**PLUG, "url": "http://10.0.0.9/x"})
    repository.lists("lamps", lamp_1=PLUG)

    await hub.refreshes()
    again = await started(store, repository)

    for one in (hub, again):
        assert set(one.trust.catalogue.listed) == {"plug-1", "plug-2", "lamp-1"}
        assert set(one.trust.catalogue.stale) == {"plugs"}
    await again.refreshes()
    assert len(await again.records(AuditKind.ARTIFACTS_REFUSED)) == 1
    repository.lists("plugs", plug_1=PLUG)
    await again.refreshes()
    assert again.trust.refused_artifacts == ""
    assert set(again.trust.catalogue.listed) == {"plug-1", "lamp-1"}


async def test_once_it_is_mended_it_is_taken(store: Database, repository: Repository) -> None:
    hub = await started(store, repository)
    repository.lists("plugs", plug_1={**PLUG, "url": "http://10.0.0.9/x"})
    await hub.refreshes()
    assert hub.trust.catalogue.listed == {}
    assert "url" in hub.trust.refused_artifacts
    repository.lists("plugs", plug_1=PLUG)

    await hub.refreshes()

    assert set(hub.trust.catalogue.listed) == {"plug-1"}
    assert hub.trust.refused_artifacts == ""


@pytest.mark.threat("T6")
async def test_an_earlier_listing_is_refused_after_a_restart_without_the_files(
    store: Database, repository: Repository
) -> None:
    await (await started(store, repository)).refreshes()
    # A thief of the online key brings back the first metadata of the group.
    repository.delegated[ROLE].version = 0
    repository.rotates("snapshot", "timestamp")
    repository.lists("plugs", plug_old=PLUG)
    hub = await started(store, repository)

    await hub.refreshes()

    assert set(hub.trust.catalogue.listed) == {"plug-1", "plug-2"}
    assert hub.trust.refused_artifacts == f"plugs: {ROLE} 1 is older than 2"


@pytest.mark.threat("T6", "T8")
async def test_an_old_timestamp_that_is_played_again_changes_nothing(
    store: Database, repository: Repository
) -> None:
    old = repository.file("timestamp").read_bytes()
    repository.lists("plugs", plug_1=PLUG)
    hub = await started(store, repository)
    await hub.refreshes()
    repository.file("timestamp").write_bytes(old)

    assert not await hub.refreshes()

    assert set(hub.trust.catalogue.listed) == {"plug-1"}


@pytest.mark.threat("T7")
async def test_other_keys_of_a_group_take_back_floors_that_a_thief_has_set(
    store: Database, repository: Repository
) -> None:
    repository.lists("plugs", plug_1=PLUG, plug_2=PLUG, evil={**PLUG, "version": "99.0.0", "floor": "99.0.0"})
    hub = await started(store, repository)
    await hub.refreshes()
    assert hub.trust.catalogue.floors == (Floor("plugs", "tasmota", "PM-1", "99.0.0"),)
    repository.delegates("plugs")
    repository.lists("plugs", plug_1=PLUG)

    await hub.refreshes()

    assert hub.trust.catalogue.floors == (Floor("plugs", "tasmota", "PM-1", "14.0.0"),)
    assert set(hub.trust.catalogue.revoked) == {"plug-2", "evil"}


async def test_under_another_root_nothing_of_the_earlier_one_is_believed(
    store: Database, repository: Repository, tmp_path: Path
) -> None:
    await (await started(store, repository)).refreshes()
    other = Repository(tmp_path / "other", now=NOON)
    other.publishes(policy(2))

    hub = await started(store, other)
    assert hub.trust.catalogue == Catalogue()
    await hub.refreshes()

    assert hub.trust.policy == policy(2)
    assert await stored(hub) == (Catalogue(), {})


async def test_the_end_of_a_groups_metadata_is_known(store: Database, repository: Repository) -> None:
    hub = await started(store, repository)

    await hub.refreshes()

    artifact = hub.trust.catalogue.listed[ArtifactId("plug-1")]
    assert artifact.signed.until == NOON + timedelta(days=90)


@pytest.mark.parametrize(
    "damage", ["facts = x'7b'", "sha256 = replace(sha256, substr(sha256, 1, 1), '/')", "until = 1 << 62"]
)
async def test_a_damaged_row_stops_installations_and_nothing_else_until_the_next_refresh(
    store: Database, repository: Repository, damage: str
) -> None:
    before = await started(store, repository)
    await before.refreshes()
    sound = await stored(before)
    await store.write(lambda tx: tx.execute(f"UPDATE artifacts SET {damage} WHERE artifact = 'plug-2'", {}))  # noqa: S608 - from the table above

    hub = await started(store, repository)
    assert hub.trust.policy == policy(1)
    assert set(hub.trust.catalogue.listed) == {"plug-1"}
    assert "the stored catalogue is damaged" in hub.trust.catalogue.stale["plugs"]

    assert await hub.refreshes()

    assert await stored(hub) == sound
    assert (hub.trust.catalogue, hub.trust.catalogue_problem) == (sound[0], "")


@pytest.mark.threat("T6")
async def test_floors_and_what_was_revoked_outlive_a_damaged_row(
    store: Database, repository: Repository
) -> None:
    repository.lists(
        "plugs", plug_1=PLUG, plug_2=PLUG, plug_3={**PLUG, "version": "14.2.0", "floor": "14.2.0"}
    )
    before = await started(store, repository)
    await before.refreshes()
    repository.lists("plugs", plug_1=PLUG, plug_2=PLUG)
    await before.refreshes()
    await store.write(
        lambda tx: tx.execute("UPDATE artifacts SET facts = x'7b' WHERE artifact = 'plug-2'", {})
    )

    hub = await started(store, repository)
    await hub.refreshes()

    assert hub.trust.catalogue.floors == (Floor("plugs", "tasmota", "PM-1", "14.2.0"),)
    assert set(hub.trust.catalogue.revoked) == {"plug-3"}


async def test_without_a_floor_that_it_sets_nothing_is_installed_until_the_next_refresh(
    store: Database, repository: Repository
) -> None:
    await (await started(store, repository)).refreshes()
    await store.write(lambda tx: tx.execute("DELETE FROM artifact_floors", {}))

    hub = await started(store, repository)
    assert hub.trust.catalogue.stale == {"plugs": "the stored catalogue is damaged: a floor is missing"}

    await hub.refreshes()

    assert hub.trust.refused_artifacts == ""
    assert (await stored(hub))[0].floors == (Floor("plugs", "tasmota", "PM-1", "14.0.0"),)


@pytest.mark.requirement("T8")
async def test_of_an_earlier_copy_of_the_database_nothing_is_installed_until_the_next_refresh(
    store: Database, repository: Repository
) -> None:
    await (await started(store, repository)).refreshes()
    await store.write(lambda tx: catalogues.doubt(tx, "an earlier copy was put back"))

    for hub in [await started(store, repository) for _ in range(2)]:
        assert set(hub.trust.catalogue.listed) == {"plug-1", "plug-2"}
        assert hub.trust.catalogue.stale == {"plugs": "an earlier copy was put back"}

    # Though nothing else is published than what the copy holds.
    await hub.refreshes()
    assert hub.trust.refused_artifacts == ""
    assert (await stored(await started(store, repository)))[0].stale == {}
