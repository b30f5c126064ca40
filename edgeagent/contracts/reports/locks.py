"""The locks under which devices are worked, and asking for one to be released."""

from typing import Annotated

from pydantic import Field

from edgeagent.contracts.door import Contract
from edgeagent.contracts.scalars import Words


class ReleaseRequest(Contract):
    """Asks for a device's lock to be taken from whoever holds it.

    Attributes:
        reason: for the record.
    """

    reason: Annotated[Words, Field(min_length=1, max_length=200)]


class LockReport(Contract):
    """A lock that is held.

    Attributes:
        device: whose.
        command: for which command.
        run: for which run of it.
        action: what is done.
        lane: by which lane.
        holder: who works it.
        fence: under which every step is sent.
        held: for how many seconds it has been held.
        left: how many seconds are left of its lease.
        parent: what is occupied beside the device.
    """

    device: str
    command: str
    run: int
    action: str
    lane: str
    holder: str
    fence: int
    held: float
    left: float
    parent: str | None = None


class LocksReport(Contract):
    """All locks that are held."""

    locks: list[LockReport]
