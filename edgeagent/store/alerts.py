"""What the hub has called for a person about.

Owns ``alerts``: one row for each code, however often it was raised.
"""

from typing import Final

from edgeagent.contracts.alerts import Alert
from edgeagent.store.database import Snapshot, Transaction
from edgeagent.values import dataclass

_ALL: Final = "SELECT code, standing, since, told_at FROM alerts"
_SAVE: Final = """
INSERT INTO alerts (code, standing, since, told_at) VALUES (:code, :standing, :since, :told_at)
    ON CONFLICT (code) DO UPDATE
   SET standing = excluded.standing, since = excluded.since, told_at = excluded.told_at
"""


@dataclass(frozen=True, slots=True)
class Told:
    """The last turn of an alert.

    Attributes:
        standing: whether it stands.
        since: when it was raised, in microseconds since 1970.
        at: when it was told last, in the same.
    """

    standing: bool
    since: int
    at: int


def load(db: Snapshot) -> dict[Alert, Told]:
    """The last turn of every alert; one of a code that is not known any more is left out."""
    known = {str(alert): alert for alert in Alert}
    return {
        known[row["code"]]: Told(bool(row["standing"]), int(row["since"]), int(row["told_at"]))
        for row in db.rows(_ALL)
        if row["code"] in known
    }


def save(tx: Transaction, alert: Alert, told: Told) -> None:
    """Note the last turn of an alert."""
    tx.execute(
        _SAVE,
        {"code": alert, "standing": int(told.standing), "since": told.since, "told_at": told.at},
    )
