"""``edgeagent backup create | list | restore`` at a hub whose agent is stopped."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from edgeagent.flows.store_health import RESTORE
from edgeagent.ids import hub_id
from edgeagent.rights import acting_as
from edgeagent.store.connection import connect_writer, cut_log
from edgeagent.store.files import sole_owner
from edgeagent.store.floorfile import FloorFile
from edgeagent.store.side import LONGEST_LOG, Side
from tests.cli.building import Said, typed
from tests.support.stores import query, spoil_index
from tests.vectors.databases.kept import HUB, KEPT, KEY, unpack

pytestmark = pytest.mark.requirement("H1", "T8")

NOBODY: Final = 65534


class Stopped:
    """A hub that has worked, and whose agent is stopped."""

    def __init__(self, folder: Path, hub: str = HUB) -> None:
        self.state = folder / "state"
        self.config = folder / "config.toml"
        self.config.write_text(
            f'[hub]\nid = "{hub}"\nstate_dir = "{self.state}"\nrun_dir = "{folder}"\n[backup]\nkeep = 2\n',
            "utf-8",
        )

    def types(self, *words: str) -> Said:
        """Type ``edgeagent backup ...``."""
        return typed("--config", str(self.config), "backup", *words)

    def created(self, *words: str) -> Path:
        """Make a backup; its folder."""
        said = self.types("create", *words, "--json")
        assert said.status == 0, said
        return Path(json.loads(said.out)["path"])

    def everything(self) -> dict[str, bytes]:
        """Every file of the state, but for the log's index and the backups."""
        files = [path for path in self.state.iterdir() if path.is_file() and not path.name.endswith("-shm")]
        return {path.name: path.read_bytes() for path in files if path.stat().st_size}


@pytest.fixture
def hub(tmp_path: Path) -> Stopped:
    stopped = Stopped(tmp_path)
    unpack(KEPT[-1], stopped.state)
    return stopped


def test_one_is_made_and_put_back_and_what_was_there_is_kept(hub: Stopped) -> None:
    made = hub.created()
    (hub.state / "hub.key").write_bytes(bytes(reversed(KEY)))
    before = hub.everything()

    said = hub.types("restore", made.name, "--yes")

    assert said.status == 0, said
    assert "begins a new epoch" in said.out
    assert not (hub.state / "hub.db-wal").exists()
    [kept] = hub.state.glob("replaced-*")
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == {
        name: before[name] for name in ("hub.db", "hub.key")
    }
    # All of it, and who has put it back.
    [*trail, (kind, detail)] = query(hub.state / "hub.db", "SELECT kind, detail FROM audit ORDER BY number")
    assert trail == query(made / "hub.db", "SELECT kind, detail FROM audit ORDER BY number")
    assert (kind, detail) == ("restored", f'{{"backup":"{made.name}"}}')
    # The key goes with the database, whose trail it has signed.
    assert (hub.state / "hub.key").read_bytes() == KEY
    mark = FloorFile(hub.state, hub_id(HUB)).read()
    assert mark is not None
    [(last,)] = query(made / "hub.db", "SELECT max(number) FROM audit")
    assert mark.audit_number == int(str(last)) + 2
    assert mark.stops == ["action:reboot"]
    assert not (hub.state / ".restoring").exists()


def test_the_certificate_that_is_shown_comes_along_and_one_that_is_there_stays(hub: Stopped) -> None:
    folder = hub.state / "identity"
    folder.mkdir(mode=0o700)
    for slot in ("a.pem", "b.pem"):
        (folder / slot).write_text(slot)
    (folder / "current.pem").symlink_to("b.pem")
    made = hub.created()
    (folder / "a.pem").write_text("renewed since")

    assert hub.types("restore", made.name, "--yes").status == 0
    assert (folder / "a.pem").read_text() == "renewed since"
    shutil.rmtree(folder)
    assert hub.types("restore", made.name, "--yes").status == 0

    assert (folder / "current.pem").readlink() == Path("b.pem")
    assert (folder / "current.pem").read_text() == "b.pem"
    assert (folder.stat().st_mode & 0o777, (folder / "a.pem").stat().st_mode & 0o777) == (0o700, 0o600)


def test_a_file_of_an_editor_in_the_identity_is_left_out_and_is_in_no_backups_way(hub: Stopped) -> None:
    folder = hub.state / "identity"
    folder.mkdir(mode=0o700)
    for name in ("a.pem", ".a.pem.swp", ".a.pem.new", "a.pem~", "a copy.pem", os.fsdecode(b"\xff.pem")):
        (folder / name).write_text("a certificate")
    (folder / ".link").symlink_to("a.pem")

    made = hub.created()

    assert [path.name for path in (made / "identity").iterdir()] == ["a.pem"]
    assert hub.types("restore", made.name, "--yes").status == 0


def test_a_long_log_of_an_agent_that_was_killed_comes_along(hub: Stopped) -> None:
    """Nobody writes meanwhile: it does not grow."""
    with closing(connect_writer(hub.state / "hub.db")) as killed:
        killed.execute("PRAGMA wal_autocheckpoint = 0")
        killed.execute("CREATE TABLE filler AS SELECT zeroblob(?)", (LONGEST_LOG,))
        assert (hub.state / "hub.db-wal").stat().st_size > LONGEST_LOG

        made = hub.created()

    assert (made / "hub.db").stat().st_size > LONGEST_LOG


def test_what_health_advises_for_damage_is_what_works(hub: Stopped) -> None:
    """Such as an index that does not fit its table: no copy of that is whole."""
    with closing(connect_writer(hub.state / "hub.db")) as connection:
        connection.execute("CREATE TABLE names (name TEXT PRIMARY KEY)")
        connection.executemany("INSERT INTO names VALUES (?)", [(str(number),) for number in range(100)])
        cut_log(connection)
    made = hub.created()
    spoil_index(hub.state / "hub.db", "names", b"42")
    assert Side(hub.state / "hub.db").damage()
    assert "not whole" in hub.types("create").err

    assert "edgeagent backup restore" in RESTORE
    assert "backup create" not in RESTORE
    assert hub.types("restore", made.name, "--yes").status == 0

    assert Side(hub.state / "hub.db").damage() == ""
    [kept] = hub.state.glob("replaced-*")
    assert Side(kept / "hub.db").damage()


def test_they_are_listed_and_the_oldest_go(hub: Stopped) -> None:
    made = [hub.created("--without-keys") for _ in range(3)]

    said = hub.types("list")

    assert [path.exists() for path in made] == [False, True, True]
    assert [line.split()[0] for line in said.out.splitlines()[1:3]] == [path.name for path in made[:0:-1]]
    assert said.out.splitlines()[-1] == f"in {hub.state / 'backups'}"


def newer(made: Path) -> None:
    """Let a backup be one of an edgeagent to come, in every respect."""
    from hashlib import sha256

    signed = json.loads((made / "manifest.json").read_text())
    signed["manifest"]["tables"] = 9000
    text = json.dumps(signed["manifest"], sort_keys=True, separators=(",", ":"))
    signed["sha256"] = sha256(text.encode()).hexdigest()
    (made / "manifest.json").write_text(json.dumps(signed))


def spoilt(made: Path) -> None:
    raw = bytearray((made / "hub.db").read_bytes())
    raw[5000] ^= 1
    (made / "hub.db").write_bytes(raw)


def linked(made: Path) -> None:
    (made / "hub.db").rename(made.parent / "elsewhere.db")
    (made / "hub.db").symlink_to(made.parent / "elsewhere.db")


@pytest.mark.threat("T25")
@pytest.mark.parametrize(
    ("ruin", "told"),
    [
        pytest.param(newer, "of a newer edgeagent", id="newer"),
        pytest.param(spoilt, "is damaged: hub.db is not the sha256", id="a flipped bit"),
        pytest.param(linked, "no whole backup", id="a link"),
        pytest.param(shutil.rmtree, "has no manifest", id="none"),
        pytest.param(
            lambda made: (made / "manifest.json").write_text("{}"), "cannot be read", id="no manifest"
        ),
        pytest.param(lambda made: (made / "hub.db").unlink(), "no whole backup", id="no database"),
    ],
)
def test_what_cannot_be_put_back_is_refused_and_nothing_changes(
    hub: Stopped, ruin: Callable[[Path], object], told: str
) -> None:
    made = hub.created()
    ruin(made)
    before = hub.everything()

    said = hub.types("restore", str(made), "--yes")

    assert (said.status, said.out) == (1, "")
    assert told in said.err
    assert hub.everything() == before
    assert sorted(path.name for path in hub.state.iterdir() if path.is_dir()) == ["backups"]


def test_another_hubs_is_refused(hub: Stopped, tmp_path: Path) -> None:
    made = hub.created()
    (tmp_path / "other").mkdir()
    other = Stopped(tmp_path / "other", "venue-8")
    unpack(KEPT[-1], other.state)
    before = other.everything()

    said = other.types("restore", str(made), "--yes")

    assert said.status == 1
    assert "is a backup of the hub venue-7, this is venue-8" in said.err
    assert other.everything() == before


def test_nothing_is_done_while_another_holds_the_state_nor_unasked(hub: Stopped) -> None:
    made = hub.created()
    with sole_owner(hub.state / "agent.lock"):
        before = hub.everything()
        for words in (("restore", made.name, "--yes"), ("create",)):
            said = hub.types(*words)
            assert said.status == 78
            assert "another edgeagent is running" in said.err
    unasked = hub.types("restore", made.name)

    assert unasked.status == 1
    assert f"edgeagent backup restore {made.name} --yes" in unasked.err
    assert hub.everything() == before


def test_where_there_is_none_yet_that_is_told(hub: Stopped) -> None:
    said = hub.types("list")

    assert (said.status, said.out) == (0, f"there is no backup in {hub.state / 'backups'}\n")


def test_where_there_is_no_state_that_is_told(hub: Stopped) -> None:
    made = hub.created()
    moved = shutil.move(made, hub.config.parent / "away")
    shutil.rmtree(hub.state)

    assert "there is no database" in hub.types("create").err
    said = hub.types("restore", str(moved), "--yes")

    assert said.status == 78
    assert "there is no folder" in said.err
    assert not hub.state.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_root_opens_what_it_may_and_writes_as_the_user_whose_state_it_is(tmp_path: Path) -> None:
    """So a link in a folder of the agent's leads root nowhere, and the agent can use what it finds."""
    # A test's own folder is root's alone.
    with tempfile.TemporaryDirectory(prefix="edgeagent-") as folder:
        Path(folder).chmod(0o755)
        hub = Stopped(Path(folder))
        unpack(KEPT[-1], hub.state)
        for path in (hub.state, *hub.state.rglob("*")):
            os.chown(path, NOBODY, NOBODY)

        copied = hub.created("--to", str(tmp_path))
        done = hub.types("restore", str(copied), "--yes")

        assert done.status == 0, done.err
        assert {path.stat().st_uid for path in copied.rglob("*")} == {0}
        assert {path.stat().st_uid for path in (hub.state, *hub.state.rglob("*"))} == {NOBODY}
        assert query(hub.state / "hub.db", "SELECT count(*) FROM audit WHERE kind = 'restored'") == [(1,)]
        assert os.geteuid() == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_who_may_not_read_a_backup_is_told_how_to_copy_it_before_one_is_made() -> None:
    """Such as a member of the group whose members may have things done."""
    with tempfile.TemporaryDirectory(prefix="edgeagent-") as folder:
        Path(folder).chmod(0o755)
        hub = Stopped(Path(folder))
        unpack(KEPT[-1], hub.state)
        hub.state.chmod(0o700)
        before = hub.everything()

        with acting_as(NOBODY, NOBODY):
            said = hub.types("create", "--to", "/media/my stick", "--without-keys")
            alone = hub.types("create")

        assert (alone.status, alone.out) == (1, "")
        assert "sudo edgeagent backup create\n" in alone.err
        assert (said.status, said.out) == (1, "")
        assert "nothing was made" in said.err
        assert "sudo edgeagent backup create --to '/media/my stick' --without-keys" in said.err
        assert hub.everything() == before
        assert not (hub.state / "backups").exists()
