"""``edgeagent audit``: looking at the record, following it, and handing it out."""

import asyncio
import json
import shutil
import sqlite3
from contextlib import closing
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest

from edgeagent.contracts.checkpoint import Checkpoint
from edgeagent.contracts.reports.audit import AuditRowReport, AuditRowsReport, VerifyReport
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.evidence import told_checkpoint
from edgeagent.store import audit
from edgeagent.store.audit import Act
from tests.cli.building import Terminal, lonely_terminal, typed
from tests.cli.commanded import Commanded, commanded
from tests.support.stores import query, reads_wait
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("A1", "A3")


async def records(terminal: Commanded, count: int, subject: str = "lamp") -> None:
    """Put so many acts on record."""
    now = terminal.hub.now
    acts = [
        Act(kind=AuditKind.STARTED, subject=subject, actor="agent", detail={"n": n}) for n in range(count)
    ]
    await now.store.write(partial(audit.append, acts=acts, stamp=now.around.stamp()))


def agent_is_away(terminal: Terminal, hub_path: Path, seed: bytes) -> None:
    """Lay a hub's files where the configuration says that they are."""
    folder = terminal.config.parent / "state"
    folder.mkdir()
    for suffix in ("", "-wal"):
        shutil.copy(hub_path.with_name(hub_path.name + suffix), folder / f"hub.db{suffix}")
    (folder / "hub.key").write_bytes(seed)
    (folder / "hub.key").chmod(0o600)


async def test_the_newest_rows_are_listed_by_kind_and_subject(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        await records(terminal, 3)
        await records(terminal, 1, "tv-1")

        listed = await terminal.types("audit", "list", "--kind", "started", "--most", "2", "--json")
        about = await terminal.types("audit", "list", "--subject", "tv-1")
        late = await terminal.types("audit", "list", "--since", "2999-01-01T00:00:00Z")

        rows = listed.report(AuditRowsReport).rows
        assert [row.subject for row in rows] == ["lamp", "tv-1"]
        assert len(about.out.splitlines()) == len(late.out.splitlines()) + 1 == 2

        shown = await terminal.types("audit", "show", str(rows[-1].number), "--json")
        assert shown.report(AuditRowReport) == rows[-1]
        assert rows[-1].hash in (await terminal.types("audit", "show", str(rows[-1].number))).out


async def test_what_there_is_not_is_told(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        for words in (
            ("show", "9999"),
            ("show", "-1"),
            ("list", "--since", "yesterday"),
            ("list", "--most", "0"),
            ("list", "--most", "1000000"),
            ("verify", "--head", "x"),
            ("verify", "--head", "3-abc"),
        ):
            said = await terminal.types("audit", *words)
            assert (said.status, said.out) in {(1, ""), (2, "")}, words
            assert said.err


async def test_a_hostile_row_acts_on_no_terminal(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        await records(terminal, 1, "\x1b[2J\u202e")

        for words in (("list",), ("list", "--json"), ("show", "2")):
            assert "\x1b" not in (await terminal.types("audit", *words)).out


async def test_a_whole_record_ends_with_0_and_a_broken_one_with_2_naming_the_row(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        await records(terminal, 20)

        whole = await terminal.types("audit", "verify")
        head = whole.out.splitlines()[-1].split()[-1]
        assert (whole.status, whole.err) == (0, "")
        assert (await terminal.types("audit", "verify", "--head", head)).status == 0
        other = f"{head.partition('-')[0]}-{sha256(b'x').hexdigest()}"
        assert (await terminal.types("audit", "verify", "--head", other)).status == 2

        store = terminal.hub.store
        await store.write(lambda tx: tx.execute("UPDATE audit SET actor = 'nobody' WHERE number = 7"))
        broken = await terminal.types("audit", "verify")
        assert (broken.status, broken.out) == (2, "")
        assert "row 7" in broken.err
        found = (await terminal.types("audit", "verify", "--json")).report(VerifyReport).broken
        assert found is not None
        assert found.number == 7


async def test_without_an_agent_the_record_is_followed_from_its_files(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        await records(terminal, 20)
        await terminal.hub.store.write(terminal.hub.now.checkpoints.sign)
        seed = terminal.hub.keys.hub.private.private_bytes_raw()
        path = terminal.hub.path
        away = tmp_path / "away"
        away.mkdir()
        async with lonely_terminal(away) as lonely:
            agent_is_away(lonely, path, seed)

            whole = await lonely.types("audit", "verify")
            with_log = (away / "state" / "hub.db-wal").stat().st_size
            with closing(sqlite3.connect(away / "state" / "hub.db")) as database, database:
                database.execute("UPDATE audit SET actor = 'nobody' WHERE number = 7")
            broken = await lonely.types("audit", "verify")
            listed = await lonely.types("audit", "list")

    assert with_log, "what is still in the log counts"
    assert (whole.status, whole.err) == (0, "")
    assert "1 checkpoints" in whole.out
    assert broken.status == 2
    assert "row 7" in broken.err
    assert listed.status == 69


async def test_without_files_nothing_is_made(tmp_path: Path) -> None:
    async with lonely_terminal(tmp_path) as lonely:
        said = await lonely.types("audit", "verify")

    assert said.status == 78
    assert not (tmp_path / "state").exists()


async def test_an_export_holds_every_row_and_every_signed_head_and_is_its_owners_alone(
    tmp_path: Path,
) -> None:
    file = tmp_path / "trail.jsonl"
    async with commanded(tmp_path) as terminal:
        await records(terminal, 600)
        await terminal.hub.store.write(terminal.hub.now.checkpoints.sign)
        await records(terminal, 600)

        said = await terminal.types("audit", "export", str(file))

        assert (said.status, said.out) == (0, "")
        assert file.stat().st_mode & 0o777 == 0o600
        lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        trail, rows = lines[0]["trail"], [line for line in lines if "row" in line]
        assert trail["key"] == terminal.hub.keys.hub.public.hex()
        previous = bytes.fromhex(trail["basis"]["hash"])
        for line in rows:
            text = json.dumps(line["row"], ensure_ascii=False, separators=(",", ":"))
            previous = sha256(previous + text.encode()).digest()
            assert previous.hex() == line["hash"]
        signed = [
            Checkpoint.model_validate_json(json.dumps(x["checkpoint"])) for x in lines if "checkpoint" in x
        ]
        assert len(signed) == 2
        for each in signed:
            told_checkpoint(each, terminal.hub.keys.hub.public)
        assert (signed[-1].audit.number, signed[-1].audit.hash) == (rows[-1]["row"][0], rows[-1]["hash"])
        assert query(terminal.hub.path, "SELECT exported FROM checkpoints ORDER BY number") == [(0,), (1,)]
        [act] = await terminal.hub.audited(AuditKind.EXPORTED)
        assert act["subject"] == "trail.jsonl"
        assert str(act["actor"]).startswith("uid:")


async def test_an_export_begins_anew_where_its_first_rows_are_dropped_while_it_is_written(
    tmp_path: Path,
) -> None:
    file = tmp_path / "trail.jsonl"
    async with commanded(tmp_path) as terminal:
        await records(terminal, 600)
        store = terminal.hub.store
        head = await store.write(terminal.hub.now.checkpoints.sign)
        await records(terminal, 600)

        async with reads_wait(store):
            typing = asyncio.create_task(terminal.types("audit", "export", str(file)))
            await eventually(lambda: terminal.hub.rows("SELECT 1 FROM audit WHERE kind = 'exported'"))
            await store.write(partial(audit.drop, upto=head.number))
        said = await typing

        assert said.status == 0
        first, *lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        numbers = [line["row"][0] for line in lines if "row" in line]
        assert first["trail"]["basis"]["number"] == head.number
        assert numbers == list(range(head.number + 1, first["trail"]["upto"]["number"] + 1))


async def test_an_export_takes_no_other_files_place_and_lets_nothing_go_then(tmp_path: Path) -> None:
    file = tmp_path / "trail.jsonl"
    file.write_text("mine", "utf-8")
    async with commanded(tmp_path) as terminal:
        said = await terminal.types("audit", "export", str(file))
        nowhere = await terminal.types("audit", "export", str(tmp_path / "no" / "file"))

        assert (said.status, nowhere.status) == (1, 1)
        assert file.read_text("utf-8") == "mine"
        assert await terminal.hub.audited(AuditKind.EXPORTED) == []


async def test_an_export_that_fails_leaves_no_half_file(tmp_path: Path) -> None:
    file = tmp_path / "trail.jsonl"
    async with lonely_terminal(tmp_path) as lonely:
        said = await lonely.types("audit", "export", str(file))

    assert said.status == 69
    assert not file.exists()


def test_words_that_are_missing_or_none_end_with_2() -> None:
    for words in (("audit",), ("audit", "erase"), ("audit", "show", "first"), ("audit", "export")):
        assert typed(*words).status == 2
