"""Which retained commands at the broker were told.

Owns ``retained``. It holds what the last look found, and so at most as many as one look takes.
"""

from collections.abc import Mapping
from typing import Final

from edgeagent.ids import Digest
from edgeagent.store.database import Snapshot, Transaction

_ALL: Final = "SELECT topic, sha256 FROM retained"
_GONE: Final = "DELETE FROM retained WHERE topic = ?"
_NOTE: Final = """
INSERT INTO retained (topic, sha256) VALUES (?, ?)
    ON CONFLICT (topic) DO UPDATE SET sha256 = excluded.sha256
"""


def told(db: Snapshot) -> dict[str, Digest]:
    """The digest of what was told on each topic."""
    return {str(row["topic"]): Digest(str(row["sha256"])) for row in db.rows(_ALL)}


def note(tx: Transaction, found: Mapping[str, Digest]) -> None:
    """Note what was found and told; all else is gone."""
    before = told(tx)
    tx.execute_many(_GONE, [(topic,) for topic in before.keys() - found.keys()])
    tx.execute_many(_NOTE, list(found.items() - before.items()))
