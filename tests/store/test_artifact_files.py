"""A file's slot on the disk: old or new by its digest, and used through the handle that was verified."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pytest

from edgeagent.errors import StorageError, UnknownError
from edgeagent.store.artifact_files import ArtifactFiles, StillWrittenError, WrongBytesError
from tests.support.clocks import NOON
from tests.support.fetching import sha256_of, some_bytes

pytestmark = pytest.mark.requirement("F2", "R1")

CONTENT = some_bytes(50_000)
SHA256 = sha256_of(CONTENT)
EVIL = some_bytes(50_000, seed=6)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "artifacts"


@pytest.fixture
def files(folder: Path) -> ArtifactFiles:
    return ArtifactFiles(folder)


def came(files: ArtifactFiles, content: bytes = CONTENT) -> Path:
    part = files.part(SHA256)
    part.write_bytes(content)
    return part


def taken(files: ArtifactFiles) -> None:
    came(files)
    files.take(SHA256, len(CONTENT), NOON)


def read(files: ArtifactFiles) -> bytes:
    """What whoever uses the file gets."""
    handle = files.open(SHA256, len(CONTENT), NOON)
    with os.fdopen(handle, "rb") as file:
        return file.read()


def test_what_came_whole_becomes_a_file_that_nobody_writes_to(files: ArtifactFiles, folder: Path) -> None:
    part = came(files)

    files.take(SHA256, len(CONTENT), NOON)

    assert read(files) == CONTENT
    assert stat.S_IMODE((folder / SHA256).stat().st_mode) == 0o400
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not part.exists()
    assert sorted(path.name for path in folder.iterdir()) == [SHA256, "part"]


@pytest.mark.parametrize(
    "content", [b"", CONTENT[:-1], CONTENT + b"x", EVIL], ids=["nothing", "short", "long", "other bytes"]
)
def test_what_is_not_the_file_is_gone_and_what_was_there_stays(
    files: ArtifactFiles, folder: Path, content: bytes
) -> None:
    taken(files)
    part = came(files, content)

    with pytest.raises(WrongBytesError):
        files.take(SHA256, len(CONTENT), NOON)

    assert not part.exists()
    assert read(files) == CONTENT
    assert sorted(path.name for path in folder.iterdir()) == [SHA256, "part"]


def test_without_a_file_there_is_none(files: ArtifactFiles) -> None:
    with pytest.raises(UnknownError):
        files.open(SHA256, len(CONTENT), NOON)
    with pytest.raises(StorageError):
        files.take(SHA256, len(CONTENT), NOON)


@pytest.mark.threat("T36")
def test_what_somebody_could_still_write_to_is_not_taken(files: ArtifactFiles, folder: Path) -> None:
    part = came(files)

    with part.open("r+b") as writer:
        with pytest.raises(StillWrittenError):
            files.take(SHA256, len(CONTENT), NOON)
        writer.write(b"x")

    assert not (folder / SHA256).exists()
    with pytest.raises(WrongBytesError):
        files.take(SHA256, len(CONTENT), NOON)


@pytest.mark.threat("T36")
def test_a_file_that_was_changed_is_not_used(files: ArtifactFiles, folder: Path) -> None:
    taken(files)
    path = folder / SHA256
    path.chmod(0o600)
    path.write_bytes(EVIL)
    os.utime(path, (NOON.timestamp(), NOON.timestamp()))

    with pytest.raises(WrongBytesError, match="damaged"):
        read(files)

    assert not path.exists()


@pytest.mark.threat("T36")
def test_after_a_restart_a_file_is_verified_before_it_is_used(files: ArtifactFiles, folder: Path) -> None:
    taken(files)
    assert read(ArtifactFiles(folder)) == CONTENT
    (folder / SHA256).unlink()
    (folder / SHA256).write_bytes(EVIL)

    with pytest.raises(WrongBytesError):
        read(ArtifactFiles(folder))


@pytest.mark.threat("T34")
@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "device"])
def test_what_is_no_file_is_neither_taken_nor_used(files: ArtifactFiles, folder: Path, kind: str) -> None:
    other = folder.parent / "other"
    other.write_bytes(CONTENT)
    part = files.part(SHA256)
    for path in (part, folder / SHA256):
        if kind == "link":
            path.symlink_to(other)
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "device":
            path.symlink_to("/dev/zero")
        else:
            path.mkdir()

    with pytest.raises((WrongBytesError, StorageError)):
        files.take(SHA256, len(CONTENT), NOON)
    with pytest.raises((WrongBytesError, StorageError)):
        files.open(SHA256, len(CONTENT), NOON)

    assert other.read_bytes() == CONTENT


@pytest.mark.slow
@pytest.mark.threat("T36")
def test_however_names_are_swapped_only_what_was_signed_is_ever_used(
    files: ArtifactFiles, folder: Path
) -> None:
    """Somebody who may rename things there does so as fast as he can."""
    files.part(SHA256)
    over, swaps, used = Event(), [0], set[bytes]()
    evil = folder / "evil"

    def swap() -> None:
        while not over.is_set():
            evil.write_bytes(EVIL)
            evil.rename(folder / SHA256 if swaps[0] % 2 else folder / "part" / SHA256)
            swaps[0] += 1

    thief = Thread(target=swap)
    thief.start()
    try:
        while swaps[0] < 4000:
            with suppress(WrongBytesError, StorageError, OSError):
                came(files)
                files.take(SHA256, len(CONTENT), NOON)
            with suppress(WrongBytesError, StorageError, UnknownError):
                used.add(read(files))
    finally:
        over.set()
        thief.join()
    evil.unlink(missing_ok=True)
    (folder / "part" / SHA256).unlink(missing_ok=True)
    taken(files)

    assert used <= {CONTENT}
    assert read(files) == CONTENT


def test_everything_is_listed_the_least_recently_used_first(files: ArtifactFiles, folder: Path) -> None:
    taken(files)
    other = sha256_of(b"other")
    files.part(other).write_bytes(b"oth")
    os.utime(folder / SHA256, (100, 100))
    os.utime(folder / "part" / other, (50, 50))
    (folder / "strange").write_bytes(b"not ours")

    found = [(each.sha256, each.size, each.is_part) for each in files.all()]
    read(files)

    assert found == [(other, 3, True), (SHA256, len(CONTENT), False)]
    assert files.all()[-1].used == NOON.timestamp()


def test_what_a_killed_agent_left_between_two_steps_is_cleared(files: ArtifactFiles, folder: Path) -> None:
    taken(files)
    (folder / f"{SHA256}.new").write_bytes(CONTENT)

    files.clear_strangers(frozenset())

    assert sorted(path.name for path in folder.iterdir()) == [SHA256, "part"]
    assert read(files) == CONTENT


def test_who_has_a_file_open_may_read_on_when_it_is_removed(files: ArtifactFiles, folder: Path) -> None:
    taken(files)
    handle = files.open(SHA256, len(CONTENT), NOON)

    files.remove(SHA256)

    with os.fdopen(handle, "rb") as file:
        assert file.read() == CONTENT
    assert not (folder / SHA256).exists()
    files.remove(SHA256)


def test_what_was_sealed_when_the_agent_was_killed_can_be_added_to_again(files: ArtifactFiles) -> None:
    came(files, CONTENT[:100]).chmod(0o400)

    part = files.part(SHA256)

    assert stat.S_IMODE(part.stat().st_mode) == 0o600


def test_a_file_is_not_unsealed_by_a_second_name_among_the_parts(files: ArtifactFiles, folder: Path) -> None:
    taken(files)
    (folder / "part" / SHA256).hardlink_to(folder / SHA256)

    files.part(SHA256)

    assert stat.S_IMODE((folder / SHA256).stat().st_mode) == 0o400


def test_what_is_between_two_steps_now_is_left_alone(files: ArtifactFiles, folder: Path) -> None:
    files.part(SHA256)
    between = folder / f"{SHA256}.new"
    between.touch()

    files.clear_strangers({SHA256})
    assert between.exists()

    files.clear_strangers(frozenset())
    assert not between.exists()


@pytest.mark.parametrize("damage", ["a link", "a folder", "other bytes", "none"])
def test_whether_a_file_is_whole_is_told_and_changes_nothing(
    files: ArtifactFiles, folder: Path, damage: str
) -> None:
    assert files.is_whole(SHA256, len(CONTENT)) is None
    taken(files)
    if damage != "none":
        (folder / SHA256).rename(folder / "aside")
    if damage == "a link":
        (folder / SHA256).symlink_to(folder / "aside")
    elif damage == "a folder":
        (folder / SHA256).mkdir()
    elif damage == "other bytes":
        (folder / SHA256).write_bytes(EVIL)

    assert files.is_whole(SHA256, len(CONTENT)) is (damage == "none")
    assert (folder / SHA256).exists()
