"""The floor file: two slots, of which one is always whole."""

import json
import os
import subprocess
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from edgeagent.contracts.floormark import FloorMark
from edgeagent.errors import StorageError
from edgeagent.ids import HubId, digest, hub_id, new_epoch
from edgeagent.store.floorfile import SLOTS, FloorFile
from tests.support.clocks import NOON

pytestmark = pytest.mark.requirement("T8")

HUB = hub_id("venue-7")


def mark(sequence: int, hub: HubId = HUB) -> FloorMark:
    return FloorMark(
        hub=hub,
        sequence=sequence,
        epoch=new_epoch(1, 1),
        incarnation=sequence,
        audit_number=10 * sequence,
        audit_hash=digest(sha256(b"%d" % sequence).hexdigest()),
        time_floor=NOON,
        policy_version=3,
    )


def slot_of(folder: Path, sequence: int) -> Path:
    return folder / SLOTS[sequence % 2]


def test_there_is_none_before_the_first(tmp_path: Path) -> None:
    assert FloorFile(tmp_path, HUB).read() is None


def test_the_newest_mark_counts_and_the_one_before_it_stays(tmp_path: Path) -> None:
    file = FloorFile(tmp_path, HUB)

    for sequence in range(1, 6):
        file.write(mark(sequence))
        assert file.read() == mark(sequence)

    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(SLOTS)
    slot_of(tmp_path, 5).unlink()
    assert file.read() == mark(4)


@pytest.mark.parametrize(
    "ruin",
    [
        pytest.param(lambda raw: raw[:0], id="empty"),
        pytest.param(lambda raw: raw[: len(raw) // 2], id="torn"),
        pytest.param(lambda raw: bytes(len(raw)), id="zeros"),
        pytest.param(lambda raw: raw.replace(b'"incarnation":5', b'"incarnation":4'), id="a changed number"),
        pytest.param(lambda raw: raw.replace(b"venue-7", b"venue-8"), id="a changed hub"),
        pytest.param(lambda raw: raw + raw, id="twice"),
        pytest.param(lambda raw: b"[" * (len(raw) + 5000), id="too long and deep"),
        pytest.param(lambda raw: b"\xff" + raw, id="no UTF-8"),
    ],
)
def test_a_slot_that_is_not_whole_gives_way_to_the_other(
    tmp_path: Path, ruin: Callable[[bytes], bytes]
) -> None:
    file = FloorFile(tmp_path, HUB)
    file.write(mark(4))
    file.write(mark(5))
    path = slot_of(tmp_path, 5)
    path.write_bytes(ruin(path.read_bytes()))

    assert file.read() == mark(4)
    # The next goes where the broken one lies.
    file.write(mark(5))
    assert file.read() == mark(5)


def test_what_a_cut_leaves_beside_a_slot_is_in_nobodys_way(tmp_path: Path) -> None:
    file = FloorFile(tmp_path, HUB)
    file.write(mark(1))
    half = tmp_path / f".{SLOTS[0]}.new"
    half.write_bytes(b'{"mark":')

    assert file.read() == mark(1)
    file.write(mark(2))

    assert file.read() == mark(2)
    assert not half.exists()


def test_the_file_of_another_hub_is_ignored(tmp_path: Path) -> None:
    FloorFile(tmp_path, hub_id("venue-8")).write(mark(9, hub_id("venue-8")))

    assert FloorFile(tmp_path, HUB).read() is None
    FloorFile(tmp_path, HUB).write(mark(1))
    assert FloorFile(tmp_path, HUB).read() == mark(1)


def test_where_it_cannot_be_written_the_mark_before_stays(tmp_path: Path) -> None:
    file = FloorFile(tmp_path, HUB)
    file.write(mark(1))
    slot_of(tmp_path, 2).mkdir()

    with pytest.raises(StorageError, match="cannot write"):
        file.write(mark(2))

    assert file.read() == mark(1)


def test_others_may_not_read_it(tmp_path: Path) -> None:
    FloorFile(tmp_path, HUB).write(mark(1))

    assert slot_of(tmp_path, 1).stat().st_mode & 0o077 == 0


def test_its_hash_can_be_checked_with_jq_and_sha256sum(tmp_path: Path) -> None:
    FloorFile(tmp_path, HUB).write(mark(1))
    path = slot_of(tmp_path, 1)

    told = subprocess.run(
        ["/bin/sh", "-c", f'jq -jcS .mark "{path}" | sha256sum'],
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ),
    ).stdout.split()[0]

    assert told == json.loads(path.read_text("utf-8"))["sha256"]
