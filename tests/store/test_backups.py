"""Backups as folders: whole or not there, known when they are not, thinned out and never all gone."""

import asyncio
import json
import os
import shutil
import stat
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.backup import Why
from edgeagent.core.audit_chain import AuditKind
from edgeagent.errors import RejectedError, StorageError
from edgeagent.ids import new_epoch
from edgeagent.store import audit, meta
from edgeagent.store.audit import Act, Stamp
from edgeagent.store.backups import Backup, Backups, Wish, copy_out, look
from edgeagent.store.database import Transaction
from edgeagent.store.side import Side
from tests.support.clocks import NOON
from tests.support.stores import HUB_MIGRATIONS, opened, query, use

pytestmark = pytest.mark.requirement("H1", "T8")

EPOCH = new_epoch(1, 1)


def begin(tx: Transaction) -> None:
    """What a start of the agent writes."""
    if meta.life(tx) is None:
        from edgeagent.contracts.floormark import EpochReason

        meta.begin_life(tx, meta.Life(epoch=EPOCH, reason=EpochReason.FIRST))
    meta.next_incarnation(tx)
    started = Act(kind=AuditKind.STARTED, subject="venue-7", actor="agent", detail={"version": "0.1.0"})
    audit.append(tx, [started], Stamp("2026-01-01T00:00:00Z", "kernel"))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The state of a hub that was started once."""
    folder = tmp_path / "state"
    (folder / "identity" / "a").mkdir(parents=True)
    (folder / "identity" / "a" / "cert.pem").write_text("a certificate")
    (folder / "identity" / "elsewhere").symlink_to("/etc/passwd")
    (folder / "identity" / "current").symlink_to("a")
    (folder / "hub.key").write_bytes(bytes(range(32)))
    use(folder / "hub.db", HUB_MIGRATIONS, begin)
    return folder


def made(state: Path, number: int = 0, *, why: Why = Why.BY_HAND, has_keys: bool = True) -> Backup:
    wish = Wish(
        why=why, made_at=NOON + timedelta(days=number), version="0.1.0", has_keys=has_keys, tables_after=15
    )
    return Backups(state).make(Side(state / "hub.db"), wish)


def test_a_backup_tells_what_it_is_and_is_its_owners_alone(state: Path) -> None:
    backup = made(state)
    manifest = backup.manifest

    assert manifest is not None
    assert backup.name == f"{NOON:%Y%m%dT%H%M%SZ}-0.1.0"
    assert (manifest.hub, manifest.epoch, manifest.version) == ("venue-7", EPOCH, "0.1.0")
    assert (manifest.incarnation, manifest.audit_number, manifest.why) == (1, 1, Why.BY_HAND)
    assert {file.name for file in manifest.files} == {"hub.db", "hub.key", "identity/a/cert.pem"}
    assert [(link.name, link.to) for link in manifest.links] == [("identity/current", "a")]
    for path in [backup.path, *backup.path.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert query(backup.path / "hub.db", "SELECT count(*) FROM audit") == [(1,)]
    assert Backups(state).all() == [backup]
    assert [path.name for path in (state / "backups").iterdir()] == [backup.name]


def test_keys_are_left_out_where_they_are_not_wanted(state: Path) -> None:
    backup = made(state, has_keys=False)

    assert backup.manifest is not None
    assert not backup.manifest.has_keys
    assert [file.name for file in backup.path.iterdir() if file.name != "manifest.json"] == ["hub.db"]


def test_of_one_that_cannot_be_made_nothing_is_left(state: Path) -> None:
    wish = Wish(why=Why.BY_HAND, made_at=NOON, version="0.1.0")

    with pytest.raises(StorageError, match="bytes are free"):
        Backups(state).make(Side(state / "hub.db", room=2**62), wish)

    assert list((state / "backups").iterdir()) == []


def test_one_that_was_cut_off_is_in_nobodys_way(state: Path) -> None:
    (state / "backups" / ".making" / "identity").mkdir(parents=True)
    (state / "backups" / ".making" / "hub.db").write_bytes(b"half")

    assert Backups(state).all() == []
    assert Backups(state).all() == [] != [made(state)]


def test_what_was_left_of_one_that_was_being_taken_away_goes_with_the_next(state: Path) -> None:
    kept = made(state)
    left = kept.path.rename(kept.path.with_name(".20250101T000000Z-0.1.0"))
    kept = made(state)

    assert Backups(state).thin_out(3) == []

    assert not left.exists()
    assert Backups(state).all() == [kept]


def test_the_oldest_of_a_kind_go_and_never_the_last_that_is_whole(state: Path) -> None:
    upgrade = made(state, 9, why=Why.UPGRADE)
    names = []
    for number in range(4):
        # By what they hold: the clock of a hub may have been wrong.
        use(state / "hub.db", HUB_MIGRATIONS, begin)
        names.append(made(state, -number).name)
    spoilt = state / "backups" / names[3] / "hub.db"
    os.truncate(spoilt, 4096)

    gone = Backups(state).thin_out(2)

    assert upgrade.name.startswith("pre-0015-from-0.1.0-")
    assert gone == [names[0]]
    assert {each.name for each in Backups(state).all()} == {upgrade.name, *names[1:]}
    Backups(state).thin_out(0)
    assert [each.name for each in Backups(state).all() if not each.problem] == [names[2], upgrade.name]


def test_a_second_one_of_the_same_moment_has_a_name_of_its_own(state: Path) -> None:
    assert made(state).name + "-2" == made(state).name


def forged(path: Path, **changes: object) -> None:
    signed = json.loads((path / "manifest.json").read_text())
    signed["manifest"].update(changes)
    (path / "manifest.json").write_text(json.dumps(signed))


@pytest.mark.threat("T25")
@pytest.mark.parametrize(
    ("ruin", "told"),
    [
        pytest.param(lambda path: (path / "manifest.json").unlink(), "has no manifest", id="no manifest"),
        pytest.param(
            lambda path: (path / "manifest.json").write_bytes(bytes(400)), "cannot be read", id="zeros"
        ),
        pytest.param(
            lambda path: os.truncate(path / "manifest.json", 100), "cannot be read", id="a manifest cut off"
        ),
        pytest.param(lambda path: forged(path, tables=99), "is damaged", id="another number"),
        pytest.param(
            lambda path: (path / "manifest.json").write_bytes(b"[" * 60_000), "cannot be read", id="too deep"
        ),
        pytest.param(
            lambda path: (path / "manifest.json").write_bytes(b" " * 100_000),
            "cannot be read",
            id="too large",
        ),
        pytest.param(lambda path: (path / "hub.db").unlink(), "hub.db", id="no database"),
        pytest.param(lambda path: os.truncate(path / "hub.db", 0), "has 0 bytes", id="an empty database"),
    ],
)
def test_one_that_is_not_whole_is_listed_with_what_is_wrong_and_copied_nowhere(
    state: Path, tmp_path: Path, ruin: Callable[[Path], object], told: str
) -> None:
    backup = made(state)
    ruin(backup.path)
    (tmp_path / "stick").mkdir()

    [listed] = Backups(state).all()

    assert told in listed.problem
    with pytest.raises(RejectedError, match="no whole backup"):
        copy_out(backup.path, tmp_path / "stick")
    assert list((tmp_path / "stick").iterdir()) == []


@pytest.mark.threat("T25")
def test_flipped_bits_are_found_when_it_is_copied(state: Path, tmp_path: Path) -> None:
    backup = made(state)
    raw = bytearray((backup.path / "hub.db").read_bytes())
    raw[len(raw) // 2] ^= 1
    (backup.path / "hub.db").write_bytes(raw)
    (tmp_path / "stick").mkdir()

    with pytest.raises(RejectedError, match="not the sha256"):
        copy_out(backup.path, tmp_path / "stick")

    assert list((tmp_path / "stick").iterdir()) == []


def test_a_copy_elsewhere_is_whole_and_is_made_once(state: Path, tmp_path: Path) -> None:
    backup = made(state)
    (tmp_path / "stick").mkdir()

    copied = copy_out(backup.path, tmp_path / "stick")

    assert look(copied).manifest == backup.manifest
    assert (copied / "identity" / "a" / "cert.pem").read_text() == "a certificate"
    assert stat.S_IMODE((copied / "hub.key").stat().st_mode) == 0o600
    with pytest.raises(RejectedError, match="is there already"):
        copy_out(backup.path, tmp_path / "stick")
    with pytest.raises(StorageError, match="No such file"):
        copy_out(backup.path, tmp_path / "nowhere")


async def test_it_is_made_while_others_write(state: Path) -> None:
    async with opened(state / "hub.db") as database:
        making = asyncio.ensure_future(asyncio.to_thread(made, state))
        while not making.done():
            await database.write(begin)
        backup = await making

    assert backup.manifest is not None
    assert query(backup.path / "hub.db", "SELECT count(*) FROM audit") == [(backup.manifest.audit_number,)]
    shutil.rmtree(state / "backups")
