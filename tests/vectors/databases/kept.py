"""The databases that are kept, for tests: unpacked where a test wants one."""

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
"""Where they lie."""
KEPT: Final = sorted(path.name.removesuffix(".db.gz") for path in FOLDER.glob("schema-*.db.gz"))
"""Their names, the oldest schema first."""
HUB: Final = "venue-7"
"""Whose they are."""
KEY: Final = bytes(range(32))
"""The key of their hub, which has signed heads of their trail; it is no secret."""


def put_key(state_dir: Path) -> None:
    """Make the folder of a state, and put the key there."""
    state_dir.mkdir(mode=0o700, exist_ok=True)
    (state_dir / "hub.key").write_bytes(KEY)
    (state_dir / "hub.key").chmod(0o600)


def unpack(name: str, state_dir: Path) -> Path:
    """Put one into a folder, with its key.

    Returns:
        Where it lies.
    """
    put_key(state_dir)
    target = state_dir / "hub.db"
    target.write_bytes(gzip.decompress((FOLDER / f"{name}.db.gz").read_bytes()))
    target.chmod(0o600)
    return target


def vacuumed(database: Path, folder: Path) -> bytes:
    """The bytes of a stopped agent's database, without a log and without free pages."""
    target = folder / "vacuumed.db"
    with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        connection.execute("VACUUM INTO ?", (str(target),))
    return target.read_bytes()
