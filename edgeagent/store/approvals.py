"""The word of people at the hub on commands that wait for it (SPEC T7).

Owns ``approvals``. A row is bound to one payload, one device and one run of it, and is good for a while of
boot time. A run is let in once, so that no word counts twice.
"""

from datetime import timedelta
from typing import Final

from edgeagent.clock import BootId
from edgeagent.core.freshness import BootDeadline
from edgeagent.core.gate.world import Approval
from edgeagent.ids import DeviceId, Digest
from edgeagent.store.database import Snapshot, Transaction
from edgeagent.values import dataclass

_MILLISECOND: Final = timedelta(milliseconds=1)
_ADD: Final = """
INSERT INTO approvals (number, sha256, device, run, actor, at, boot, until)
VALUES ((SELECT coalesce(max(number), 0) + 1 FROM approvals),
        :sha256, :device, :run, :actor, :at, :boot, :until)
"""
_OPEN: Final = """
SELECT actor, boot, until FROM approvals
 WHERE run = :run AND sha256 = :sha256 AND device = :device ORDER BY number
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApproval:
    """Somebody agrees.

    Attributes:
        sha256: to this payload.
        device: for this device.
        run: for this run.
        at: when; microseconds since 1970.
        approval: who, and for how long.
    """

    sha256: Digest
    device: DeviceId
    run: int
    at: int
    approval: Approval


def add(tx: Transaction, new: NewApproval) -> None:
    """Store somebody's word."""
    tx.execute(
        _ADD,
        {
            "sha256": new.sha256,
            "device": new.device,
            "run": new.run,
            "actor": new.approval.by,
            "at": new.at,
            "boot": new.approval.until.boot_id,
            "until": new.approval.until.until // _MILLISECOND,
        },
    )


def of_run(db: Snapshot, sha256: Digest, device: DeviceId, run: int) -> tuple[Approval, ...]:
    """The words on one run of a payload, whether or not they are still good."""
    return tuple(
        Approval(str(row["actor"]), BootDeadline(BootId(row["boot"]), int(row["until"]) * _MILLISECOND))
        for row in db.rows(_OPEN, {"sha256": sha256, "device": device, "run": run})
    )
