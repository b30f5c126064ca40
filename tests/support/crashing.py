"""Programs that die in the middle of writing a database.

Run as a program it is the victim of ``tests/store/test_kills.py``: it writes through the agent's own
writer for as long as it lives, and tells each transaction on its standard output once it is reported as
saved.
"""

import asyncio
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

from edgeagent.store.database import Transaction
from tests.support.stores import opened

# Enough to have several functions share a commit.
WRITERS = 4


def killed_after(path: Path, script: str) -> None:
    """Let another program run SQL statements and die of SIGKILL, with the database open."""
    source = (
        "import os, signal, sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.executescript(sys.argv[2])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    died = subprocess.run([sys.executable, "-c", source, path, script], check=False)
    assert died.returncode == -signal.SIGKILL


def _both(tx: Transaction, *, writer: int, number: int) -> None:
    """Two rows that belong together, so that half a transaction shows."""
    tx.execute("INSERT INTO debit VALUES (?, ?)", (writer, number))
    tx.execute("INSERT INTO credit VALUES (?, ?)", (writer, number))


async def _write_until_killed(path: Path, migrations: Path) -> None:
    async with opened(path, migrations) as database:
        rows = await database.read(
            lambda db: db.rows("SELECT writer, max(number) FROM debit GROUP BY writer")
        )
        last = {int(row[0]): int(row[1]) for row in rows}

        async def write(writer: int) -> None:
            number = last.get(writer, 0)
            while True:
                number += 1
                await database.write(partial(_both, writer=writer, number=number))
                # One write of a few bytes: a pipe takes it whole or not at all.
                os.write(1, f"{writer} {number}\n".encode())

        await asyncio.gather(*(write(writer) for writer in range(WRITERS)))


if __name__ == "__main__":
    asyncio.run(_write_until_killed(Path(sys.argv[1]), Path(sys.argv[2])))
