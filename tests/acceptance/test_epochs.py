"""A database that is lost, damaged or put back to an earlier copy, under the real agent.

Whatever becomes of it, nothing that was signed for the life before is done again, readings go on, and the
hub says what to do. What a power cut leaves is none of these.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.event import EventType, Stream
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.ids import Epoch
from tests.acceptance.replaying_queue import ReplayingQueue
from tests.support.agents_venue import PLUG, Venue
from tests.support.brokers import free_port, wait_until
from tests.support.stores import query

DATABASE: Final = ("hub.db", "hub.db-wal", "hub.db-shm")
SLOTS: Final = ("floor.a", "floor.b")

pytestmark = [pytest.mark.slow, pytest.mark.requirement("T8", "R3")]


@pytest.fixture
def venue(tmp_path: Path) -> Iterator[Venue]:
    """A venue with one plug, admitted; its agent runs."""
    with Venue(tmp_path) as running:
        running.open()
        yield running


def kept(venue: Venue, names: tuple[str, ...], to: Path) -> None:
    """Copy files of a stopped agent's state."""
    to.mkdir()
    for name in names:
        if (venue.agent.state_dir / name).exists():
            shutil.copy2(venue.agent.state_dir / name, to / name)


def put_back(venue: Venue, names: tuple[str, ...], frm: Path) -> None:
    """Put copies in the place of a stopped agent's files."""
    for name in names:
        (venue.agent.state_dir / name).unlink(missing_ok=True)
        if (frm / name).exists():
            shutil.copy2(frm / name, venue.agent.state_dir / name)


def hello(venue: Venue, before: Epoch) -> dict[str, object]:
    """What the hub's first hello of a later epoch says."""
    wait_until(lambda: venue.cloud.epoch != before, "the hello of the new epoch")
    told = [event for event in venue.cloud.events(Stream.RECORD) if event.type is EventType.HUB_HELLO]
    return dict(told[0].data)


def warning(venue: Venue) -> str:
    """What health says of the epoch."""
    lines = venue.agent.run("health").stdout.splitlines()
    [line] = [line for line in lines[1:] if line.split()[1:2] == ["epoch"]]
    return line


def begun(venue: Venue) -> list[object]:
    """What the audit trail says of epochs that began."""
    return [
        row[0] for row in query(venue.agent.database, "SELECT detail FROM audit WHERE kind = 'epoch_begun'")
    ]


def done(venue: Venue) -> None:
    """A command for the present epoch is done, whoever sends it."""
    count = venue.effects(PLUG, ActionName.TOGGLE)
    receipt = venue.end_of(venue.order(PLUG, ActionName.TOGGLE))
    assert receipt.outcome is Outcome.SUCCEEDED
    assert venue.effects(PLUG, ActionName.TOGGLE) == count + 1


@pytest.mark.threat("T4", "T26")
def test_an_earlier_copy_that_is_put_back_is_noticed_and_does_nothing_again(tmp_path: Path) -> None:
    """Neither what was open in it, nor what it does not remember to have done."""
    port = free_port()
    with Venue(tmp_path, cloud_port=port) as venue, ReplayingQueue(venue.server, port) as queue:
        venue.open()
        venue.unplug()
        wait_until(lambda: venue.agent.device(PLUG).online is False, "the plug to be gone")
        open_then = venue.sign(PLUG, ActionName.TOGGLE)
        queue.lend(open_then.envelope)
        queue.wait_until_taken()
        assert venue.agent.stop() == 0
        kept(venue, DATABASE, tmp_path / "backup")
        venue.agent.start()
        venue.plug_in()
        wait_until(lambda: bool(venue.cloud.receipts(open_then.command.id)), "its receipt")
        later = venue.sign(PLUG, ActionName.TOGGLE)
        queue.lend(later.envelope)
        wait_until(lambda: bool(venue.cloud.receipts(later.command.id)), "its receipt")
        venue.catch_up()
        before, count = venue.cloud.epoch, venue.effects(PLUG, ActionName.TOGGLE)
        assert count == 2
        assert venue.agent.stop() == 0

        put_back(venue, DATABASE, tmp_path / "backup")
        venue.agent.start()

        told = hello(venue, before)
        assert (told["reason"], told["previous"]) == ("restored", before)
        assert query(venue.agent.database, "SELECT command, state, reason FROM inbox") == [
            (open_then.command.id, "refused", "wrong_epoch")
        ]
        queue.lend(open_then.envelope, times=20)
        queue.lend(later.envelope, times=20)
        queue.wait_until_taken()
        venue.agent.wait_for_broker()
        assert "WARNING" in warning(venue)
        assert "issuer command resign" in venue.agent.run("health").stdout
        assert venue.agent.send(PLUG, ActionName.TOGGLE).refused is None
        venue.catch_up()
        assert venue.effects(PLUG, ActionName.TOGGLE) == count + 1
        assert "WARNING" in warning(venue)
        again = venue.sign(PLUG, ActionName.TOGGLE)
        queue.lend(again.envelope)
        wait_until(lambda: bool(venue.cloud.receipts(again.command.id)), "its receipt")
        venue.catch_up()

        assert venue.effects(PLUG, ActionName.TOGGLE) == count + 2
        assert "WARNING" not in warning(venue)
        assert venue.records_are_whole()
        assert venue.agent.stop() == 0
        assert venue.audit_break() is None


def zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def halved(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 + 100])


def flipped(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    for place in range(4096, len(raw), 97):
        raw[place] ^= 0x5A
    path.write_bytes(bytes(raw))


@pytest.mark.parametrize(
    ("ruin", "reason"),
    [
        pytest.param(Path.unlink, "lost", id="deleted"),
        pytest.param(lambda path: path.write_bytes(b""), "lost", id="empty"),
        pytest.param(zeros, "damaged", id="zeros"),
        pytest.param(halved, "damaged", id="cut off"),
        pytest.param(flipped, "damaged", id="flipped bits"),
    ],
)
def test_a_database_that_is_gone_or_broken_begins_a_new_epoch(
    venue: Venue, ruin: Callable[[Path], object], reason: str
) -> None:
    done(venue)
    before, count = venue.cloud.epoch, venue.effects(PLUG, ActionName.TOGGLE)
    old = venue.sign(PLUG, ActionName.TOGGLE)
    incarnation = venue.agent.status().incarnation
    assert venue.agent.stop() == 0
    ruin(venue.agent.database)

    venue.agent.start()

    told = hello(venue, before)
    assert (told["reason"], told["previous"]) == (reason, before)
    assert "WARNING" in warning(venue)
    assert venue.agent.status().incarnation == incarnation + 1
    with pytest.raises(Exception, match="wrong_epoch"):
        venue.cloud.send(old.envelope)
    venue.settle()
    done(venue)
    assert venue.effects(PLUG, ActionName.TOGGLE) == count + 1
    assert "WARNING" not in warning(venue)
    aside = [path for path in venue.agent.state_dir.iterdir() if ".damaged-" in path.name]
    assert bool(aside) == (reason == "damaged")
    assert venue.records_are_whole()


@pytest.mark.requirement("B3")
def test_what_was_stopped_stays_stopped_when_the_database_is_lost(venue: Venue) -> None:
    before = venue.cloud.epoch
    assert venue.agent.run("hub", "stop", "action:toggle", "--why", "repairs").returncode == 0
    wait_until(
        lambda: any(b"action:toggle" in slot.read_bytes() for slot in venue.agent.state_dir.glob("floor.?")),
        "the floor file to name it",
    )
    venue.agent.kill()
    for name in DATABASE:
        (venue.agent.state_dir / name).unlink(missing_ok=True)

    venue.agent.start()

    assert hello(venue, before)["reason"] == "lost"
    assert "action:toggle  stopped" in venue.agent.run("hub", "stops").stdout
    venue.settle()
    receipt = venue.end_of(venue.order(PLUG, ActionName.TOGGLE))
    assert receipt.reason is Reason.STOPPED
    assert venue.effects(PLUG, ActionName.TOGGLE) == 0
    assert venue.agent.run("hub", "resume", "action:toggle").returncode == 0
    done(venue)


def test_a_floor_file_that_is_lost_alone_or_another_hubs_changes_nothing(venue: Venue) -> None:
    before = venue.cloud.epoch
    assert venue.agent.stop() == 0
    for slot in SLOTS:
        (venue.agent.state_dir / slot).unlink()

    venue.agent.start()

    assert venue.agent.status().epoch == before
    assert "no floor file beside the database" in venue.agent.log
    assert any((venue.agent.state_dir / slot).exists() for slot in SLOTS)
    done(venue)
    assert len(begun(venue)) == 1
    assert venue.agent.stop() == 0
    for slot in SLOTS:
        path = venue.agent.state_dir / slot
        path.write_bytes(path.read_bytes().replace(b"venue-7", b"venue-8"))
    venue.agent.start()
    assert venue.agent.status().epoch == before


def test_a_power_cut_between_a_commit_and_the_floor_file_is_no_restored_backup(
    venue: Venue, tmp_path: Path
) -> None:
    """The database is ahead of the file then, by a start, by many commands, or by an epoch."""
    first = venue.cloud.epoch
    assert venue.agent.stop() == 0
    kept(venue, SLOTS, tmp_path / "earlier")
    venue.agent.start()
    venue.agent.wait_for_broker()
    done(venue)
    venue.agent.kill()
    put_back(venue, SLOTS, tmp_path / "earlier")
    venue.agent.start()
    assert venue.agent.status().epoch == first
    assert venue.agent.stop() == 0

    kept(venue, SLOTS, tmp_path / "first")
    venue.agent.database.unlink()
    venue.agent.start()
    second = venue.agent.status().epoch
    venue.agent.kill()
    put_back(venue, SLOTS, tmp_path / "first")
    venue.agent.start()

    assert second != first
    assert venue.agent.status().epoch == second
    assert [reason for reason in begun(venue) if "restored" in str(reason)] == []
