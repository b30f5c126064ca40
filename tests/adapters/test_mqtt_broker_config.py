"""What mosquitto's own configuration says of the limits that no protocol tells."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.adapters.mqtt.broker_config import BrokerDoor, BrokerLimits, read_door, read_limits


def write(folder: Path, text: str) -> Path:
    path = folder / "mosquitto.conf"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_that_sets_nothing_means_mosquittos_defaults(tmp_path: Path) -> None:
    limits = read_limits(write(tmp_path, "# nothing\n\nlistener 1883\n"))

    assert limits == BrokerLimits(
        queued=1000, largest=None, persistent=False, saved_every=timedelta(minutes=30)
    )
    assert len(limits.concerns) == 2


def test_what_is_set_counts_and_zero_means_no_limit(tmp_path: Path) -> None:
    limits = read_limits(
        write(
            tmp_path,
            "persistence true\nmax_queued_messages 0\nmessage_size_limit 8192\n  autosave_interval 60\n",
        )
    )

    assert limits == BrokerLimits(
        queued=None, largest=8192, persistent=True, saved_every=timedelta(minutes=1)
    )
    assert limits.concerns == []


def test_included_files_count_in_mosquittos_order_and_the_last_word_wins(tmp_path: Path) -> None:
    folder = tmp_path / "conf.d"
    folder.mkdir()
    (folder / "B.conf").write_text("max_queued_messages 2\n", encoding="utf-8")
    (folder / "a.conf").write_text("max_queued_messages 1\ninclude_dir /\n", encoding="utf-8")
    (folder / "c.txt").write_text("max_queued_messages 3\n", encoding="utf-8")

    limits = read_limits(write(tmp_path, f"max_queued_messages 9\ninclude_dir {folder}\n"))

    assert limits is not None
    assert limits.queued == 2


def test_sessions_that_are_saved_only_at_the_end_are_a_concern(tmp_path: Path) -> None:
    limits = read_limits(write(tmp_path, "persistence true\nautosave_interval 0\nmax_queued_messages 0\n"))

    assert limits is not None
    assert limits.saved_every is None
    assert "autosave_interval" in limits.concerns[0]


@pytest.mark.parametrize("text", ["max_queued_messages many\n", "include_dir /nowhere/at/all\n", "\xff"])
def test_what_is_not_understood_is_not_guessed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mosquitto.conf"
    path.write_bytes(text.encode("latin-1"))

    assert read_limits(path) is None


def test_a_file_that_is_missing_or_not_ours_to_read_tells_nothing(tmp_path: Path) -> None:
    forbidden = write(tmp_path, "")
    forbidden.chmod(0)

    assert read_limits(tmp_path / "none.conf") is None
    if os.geteuid():  # root may read it all the same
        assert read_limits(forbidden) is None


@pytest.mark.parametrize(
    ("text", "door"),
    [
        ("# nothing\n", BrokerDoor(anonymous=True, rules=False, is_local=True)),
        ("listener 1883\n", BrokerDoor(anonymous=False, rules=False, is_local=False)),
        (
            "listener 1883\nallow_anonymous true\n",
            BrokerDoor(anonymous=True, rules=False, is_local=False),
        ),
        (
            "port 1883\nallow_anonymous true\nallow_anonymous false\npassword_file /a\nacl_file /b\n",
            BrokerDoor(anonymous=False, rules=True, is_local=False),
        ),
        ("plugin /a.so\n", BrokerDoor(anonymous=True, rules=True, is_local=True)),
    ],
)
def test_whom_it_lets_in_stands_there_too(tmp_path: Path, text: str, door: BrokerDoor) -> None:
    assert read_door(write(tmp_path, text)) == door
    assert read_door(tmp_path / "none.conf") is None
