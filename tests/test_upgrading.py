"""From one version to the next and back: a backup first, all or nothing, and a newer database left alone.

The databases of earlier versions are those that real agents have left (``tests/vectors/databases``). What the
next version would change stands for it as a migration of the test's own.
"""

import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from edgeagent.agent.beginning import open_store
from edgeagent.contracts.backup import Why
from edgeagent.contracts.event import Stream
from edgeagent.errors import ConfigurationError, StorageError
from edgeagent.store import audit
from edgeagent.store.backups import Backups
from edgeagent.store.files import tables_known
from tests.support.agents import AgentProcess
from tests.support.brokers import free_port
from tests.support.stores import HUB_MIGRATIONS, query
from tests.vectors.databases.kept import KEPT, unpack

pytestmark = pytest.mark.requirement("H1", "H4")

KNOWN: Final = tables_known(HUB_MIGRATIONS)
LATER: Final = (
    "ALTER TABLE devices ADD COLUMN colour TEXT; UPDATE devices SET colour = 'green';",
    "CREATE TABLE things (name TEXT PRIMARY KEY) STRICT;",
)


@pytest.fixture(params=KEPT)
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A database that an earlier agent, or one like ours, has left."""
    return unpack(str(request.param), tmp_path / "state")


def next_version(folder: Path, scripts: Sequence[str] = LATER) -> Path:
    """The migrations of an edgeagent to come."""
    folder.mkdir()
    for entry in HUB_MIGRATIONS.iterdir():
        if entry.name.endswith(".sql"):
            (folder / entry.name).write_text(entry.read_text("utf-8"), "utf-8")
    for number, script in enumerate(scripts, start=KNOWN + 1):
        (folder / f"{number:04d}_later.sql").write_text(script, "utf-8")
    return folder


def rows(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """All that is in a database, by table."""
    tables = query(path, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return {
        str(name): sorted(query(path, f"SELECT * FROM {name}"), key=repr)  # noqa: S608 - our own tables
        for (name,) in tables
    }


def state(path: Path) -> dict[str, bytes]:
    """The database with its log as bytes, but for the log's index."""
    parts = (path.with_name(f"hub.db{suffix}") for suffix in ("", "-wal", "-journal"))
    return {part.name: part.read_bytes() for part in parts if part.exists() and part.stat().st_size}


def upgrades(path: Path) -> list[str]:
    """The backups from before upgrades."""
    found = Backups(path.parent).all()
    return [each.name for each in found if each.manifest and each.manifest.why is Why.UPGRADE]


async def test_an_upgrade_loses_nothing_and_has_its_backup_first(path: Path, tmp_path: Path) -> None:
    before, [(schema,)] = rows(path), query(path, "PRAGMA user_version")
    later = next_version(tmp_path / "later")

    store, _ = await open_store(path, later)
    await store.close()
    # A start that comes again makes no second backup.
    store, damaged = await open_store(path, later)
    broken = await store.read(audit.verify)
    await store.close()

    after = rows(path)
    assert (damaged, broken) == (None, None)
    assert query(path, "PRAGMA user_version") == [(KNOWN + len(LATER),)]
    assert after.pop("things") == []
    assert after.keys() >= before.keys()
    for table, content in before.items():
        width = len(content[0]) if content else 0
        assert sorted((row[:width] for row in after[table]), key=repr) == content, table
    assert len(before["outbox"]) > 20
    assert {len(before[table]) for table in ("devices", "inbox")} == {2}
    [backup] = Backups(path.parent).all()
    assert backup.name.startswith(f"pre-{KNOWN + len(LATER):04d}-from-0.")
    assert backup.manifest is not None
    assert (backup.problem, backup.manifest.tables, backup.manifest.hub) == ("", schema, "venue-7")
    assert rows(backup.path / "hub.db") == before


async def test_an_upgrade_that_fails_leaves_the_file_to_the_version_before(
    path: Path, tmp_path: Path
) -> None:
    before = rows(path)
    broken = next_version(tmp_path / "later", [*LATER, "INSERT INTO things VALUES (NULL); no SQL;"])

    for _ in range(3):
        with pytest.raises(ConfigurationError, match=rf"migration {KNOWN + 3} fails.*edgeagent_0\."):
            await open_store(path, broken)

    assert rows(path) == before
    assert len(upgrades(path)) == 1
    store, damaged = await open_store(path)
    await store.close()
    assert damaged is None


@contextmanager
def short_files(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size, as on a disk without room."""
    kept = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, kept[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, kept)


@pytest.mark.requirement("R2")
async def test_without_room_for_the_backup_the_tables_stay_as_they_are(path: Path, tmp_path: Path) -> None:
    before = rows(path)
    later = next_version(tmp_path / "later")

    with short_files(64 * 1024), pytest.raises(StorageError):
        await open_store(path, later)

    assert rows(path) == before
    assert upgrades(path) == []
    store, _ = await open_store(path, later)
    await store.close()
    assert len(upgrades(path)) == 1


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[AgentProcess]:
    """A hub whose broker is away."""
    agent = AgentProcess(tmp_path, f"[broker]\nport = {free_port()}\n")
    yield agent
    agent.close()


@pytest.mark.requirement("T8")
async def test_a_newer_database_is_left_alone_and_the_way_back_that_is_told_leads_back(
    path: Path, tmp_path: Path, hub: AgentProcess
) -> None:
    store, _ = await open_store(path, next_version(tmp_path / "later"))
    await store.close()
    newer = state(path)

    hub.launch()
    assert hub.wait_for_end() == 78
    told = hub.log
    assert f"schema {KNOWN + 2}, this edgeagent knows {KNOWN}" in told
    assert "apt install ./edgeagent_0." in told
    assert state(path) == newer

    words = told.partition("edgeagent backup restore ")[2].split()[0].strip('";')
    assert words == upgrades(path)[0]
    done = hub.run("backup", "restore", words, "--yes")
    assert done.returncode == 0, done.stderr
    hub.start()
    assert [device.device for device in hub.devices().devices] == ["02A1B2000001", "02A1B2000002"]
    begun = query(path, "SELECT detail FROM audit WHERE kind = 'epoch_begun' ORDER BY number DESC LIMIT 1")
    assert '"reason":"restored"' in str(begun)
    # What was open in it was signed for the life before.
    assert query(path, "SELECT count(*) FROM inbox WHERE state IN ('held', 'queued', 'waiting')") == [(0,)]
    [kept] = path.parent.glob("replaced-*")
    assert query(kept / "hub.db", "PRAGMA user_version") == [(KNOWN + 2,)]
    assert hub.stop() == 0


def test_the_real_agent_goes_on_with_what_an_earlier_one_has_left(path: Path, hub: AgentProcess) -> None:
    before, [(schema,)] = rows(path), query(path, "PRAGMA user_version")
    epoch = query(path, "SELECT value FROM meta WHERE name = 'epoch'")

    hub.start()

    assert query(path, "PRAGMA user_version") == [(KNOWN,)]
    assert len(upgrades(path)) == (1 if schema != KNOWN else 0)
    assert [(hub.status().epoch,)] == epoch
    assert {device.device for device in hub.devices().devices} == {row[0] for row in before["devices"]}
    assert hub.outbox().streams[Stream.TELEMETRY].events == 20
    assert "whole: " in hub.run("audit", "verify").stdout
    assert hub.stop() == 0
    assert set(before["audit"]) <= set(rows(path)["audit"])
