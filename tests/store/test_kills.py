"""SIGKILL at any moment: what was reported as saved is there, whole, and nothing is there by half."""

import random
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import pytest

from edgeagent.store.database import Snapshot
from tests.support.crashing import WRITERS
from tests.support.stores import migrations_of, query, use

pytestmark = pytest.mark.requirement("R1", "R5")

ROOT = Path(__file__).parents[2]
TABLES = """
CREATE TABLE debit (writer INTEGER, number INTEGER, PRIMARY KEY (writer, number)) STRICT, WITHOUT ROWID;
CREATE TABLE credit (writer INTEGER, number INTEGER, PRIMARY KEY (writer, number)) STRICT, WITHOUT ROWID;
"""

Pair = tuple[int, int]


@pytest.mark.parametrize("seed", range(3))
def test_no_reported_transaction_is_lost_and_none_is_halved_however_often_it_dies(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - moments to die at, not secrets
    path, migrations = tmp_path / "pairs.db", migrations_of(tmp_path / "migrations", TABLES)
    reported: set[Pair] = set()

    for _ in range(6):
        reported |= killed_in_the_middle(path, migrations, after=chance.randrange(1, 400))

        debit, credit = pairs(path, "debit"), pairs(path, "credit")
        assert reported <= debit
        assert debit == credit
        assert_without_holes(debit)
        assert query(path, "PRAGMA integrity_check") == [("ok",)]

    assert use(path, migrations, lambda tx: count(tx) == len(debit))


def killed_in_the_middle(path: Path, migrations: Path, *, after: int) -> set[Pair]:
    """Let the victim write until it has reported ``after`` transactions, and kill it.

    Returns:
        All that it had reported.
    """
    victim = subprocess.Popen(
        [sys.executable, "-m", "tests.support.crashing", path, migrations],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    assert victim.stdout is not None
    with victim, victim.stdout as output:
        told = [pair for _, pair in zip(range(after), lines(output), strict=False)]
        victim.kill()
        told += lines(output)
    assert victim.returncode == -signal.SIGKILL
    return set(told)


def lines(output: IO[bytes]) -> Iterable[Pair]:
    """What the victim reports, whole lines only."""
    for line in iter(output.readline, b""):
        if line.endswith(b"\n"):
            writer, number = map(int, line.split())
            yield writer, number


def pairs(path: Path, table: str) -> set[Pair]:
    """The rows of a table, as another program finds them."""
    found = query(path, f"SELECT writer, number FROM {table}")  # noqa: S608 - constant names
    return {(int(str(writer)), int(str(number))) for writer, number in found}


def assert_without_holes(found: set[Pair]) -> None:
    """Each writer waits for one transaction before it begins the next."""
    for writer in range(WRITERS):
        numbers = sorted(number for whose, number in found if whose == writer)
        assert numbers == list(range(1, len(numbers) + 1))


def count(db: Snapshot) -> int:
    """How many pairs there are."""
    return int(db.rows("SELECT count(*) FROM debit")[0][0])
