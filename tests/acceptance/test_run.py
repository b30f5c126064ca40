"""``./run``: a living venue in one command, with a verdict that is true, and nothing that stays behind.

These stories start ``python -m firmware_sim.venue``, as ``./run`` does once its packages are there.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from firmware_sim.venue.command_line import main
from tests.support.containers import missing

ROOT: Final = Path(__file__).parents[2]
ELSEWHERE: Final = pytest.mark.skipif(
    missing() is None, reason="it is played on a bare machine: tests/packaging/test_bare_machine.py"
)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["99"], "there is no chapter '99'", id="no such chapter"),
        pytest.param(["one"], "there is no chapter 'one'", id="no number"),
        pytest.param(["1", "--keep", str(ROOT)], "is not empty", id="a folder in use"),
        pytest.param(["1", "--keep", "/dev/null/x"], "/dev/null/x", id="no folder"),
        pytest.param(["1", "--keep", f"/tmp/{'x' * 120}"], "too long", id="too long a path"),  # noqa: S108 - not made
    ],
)
def test_wrong_arguments_are_told_and_nothing_is_started(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert said in capsys.readouterr().err


class _Venue:
    """A venue in a process of its own, with what it has said so far."""

    def __init__(self, folder: Path, words: Sequence[str]) -> None:
        self.folder = folder
        self.said = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "firmware_sim.venue", *words],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def until(self, words: str) -> None:
        """Read on until it has said something."""
        assert self.process.stdout is not None
        while words not in self.said:
            text = self.process.stdout.readline()
            assert text, self.said
            self.said += text

    def ended(self) -> int:
        """Read on to its end; return its exit status."""
        rest, _ = self.process.communicate()
        self.said += rest
        return self.process.returncode

    def children(self) -> list[int]:
        """The ids of its own processes."""
        return [pid for pid in _pids() if _parent(pid) == self.process.pid]


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a short path, as a socket needs it; ``tmp_path`` has a long one."""
    with tempfile.TemporaryDirectory(prefix="run-") as folder:
        yield Path(folder)


@contextmanager
def venue(folder: Path, *words: str) -> Iterator[_Venue]:
    """A running venue; its temporary folder lies in ``folder``. Ended if it still runs."""
    running = _Venue(folder, words)
    with running.process:
        try:
            yield running
        finally:
            running.process.terminate()


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _parent(pid: int) -> int | None:
    """The parent of a process; None when there is no such process."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # The name before it may hold anything, a bracket included (proc(5)).
    return int(status.rpartition(")")[2].split()[1])


@pytest.mark.slow
@pytest.mark.requirement(
    "Q1", "Q2", "Q3", "T4", "T5", "T7", "C2", "I3", "R5", "U1", "M7", "F6", "W1", "B4", "B5"
)
@pytest.mark.requirement("F1", "F2", "F4", "F5")
@pytest.mark.parametrize("broker", [pytest.param("mosquitto", marks=ELSEWHERE), "iotcore"])
def test_a_venue_plays_all_chapters_and_everything_is_true(broker: str, short: Path) -> None:
    with venue(short, "--once", "--broker", broker) as running:
        status = running.ended()

    assert status == 0, running.said
    assert "FALSE" not in running.said
    for title in (
        "7  The cloud cut off",
        "8  A reboot",
        "9  Incident: a burst",
        "10  Incident: commands",
        "11  Firmware",
    ):
        assert title in running.said
    assert ("not judged" in running.said) == (broker == "iotcore")
    assert list(short.iterdir()) == []


@pytest.mark.slow
def test_a_second_effect_in_the_journal_makes_the_venue_end_with_1(short: Path) -> None:
    kept = short / "kept"
    with venue(short, "2", "--keep", str(kept)) as running:
        running.until("2  A signed command")

        started = json.loads((kept / "journal.jsonl").read_text("utf-8").splitlines()[0])
        forged = {
            "what": "effect",
            "action": "power",
            "part": "switch:0",
            "cause": "command",
            "changed": True,
        }
        with (kept / "journal.jsonl").open("a", encoding="utf-8") as journal:
            journal.write(
                json.dumps({"at": started["at"], "n": 1, "appliance": started["appliance"], **forged}) + "\n"
            )
        status = running.ended()

    assert status == 1, running.said
    assert "FALSE  Coffee machine carried out power once" in running.said
    assert "FALSE  The appliances did what was asked and nothing else." in running.said
    assert (kept / "hub" / "state" / "hub.db").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "moment", "status"),
    [
        pytest.param(signal.SIGINT, "1  Readings go up", 130, id="Ctrl-C in a chapter"),
        pytest.param(signal.SIGTERM, "Cloud: the reference queue", 143, id="SIGTERM while it is put up"),
    ],
)
def test_a_venue_that_is_stopped_in_the_middle_leaves_nothing_behind(
    number: signal.Signals, moment: str, status: int, short: Path
) -> None:
    with venue(short, "--once") as running:
        running.until(moment)
        children = running.children()

        running.process.send_signal(number)
        ended = running.ended()

    assert ended == status, running.said
    assert len(children) >= 2
    assert [pid for pid in children if _parent(pid) is not None] == []
    assert list(short.iterdir()) == []


@pytest.mark.slow
def test_a_venue_whose_party_breaks_says_so_and_leaves_nothing_behind(short: Path) -> None:
    with venue(short, "--once") as running:
        running.until("1  Readings go up")
        children = running.children()

        for pid in children:
            os.kill(pid, signal.SIGKILL)
        status = running.ended()

    assert status == 1, running.said
    assert "venue: the " in running.said
    assert [pid for pid in children if _parent(pid) is not None] == []
    assert list(short.iterdir()) == []
