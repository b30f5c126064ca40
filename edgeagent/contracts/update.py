"""An update of one device's firmware, as the hub records it and as the worker is told of it (SPEC F4)."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from edgeagent.contracts.door import Contract
from edgeagent.contracts.scalars import DigestField


class Stage(StrEnum):
    """Where an update stands; ``core/firmware`` has the moves."""

    STAGING = "staging"
    """The file is served to the device, which may know where; nothing was begun."""
    TRIGGERED = "triggered"
    """The message that sets it off is about to leave, or has left; it is never sent again."""
    INSTALLING = "installing"
    """The device was seen to have begun."""
    SOAKING = "soaking"
    """The new version runs; it has to stay for a while."""
    DONE = "done"
    """The new version runs and has stayed."""
    KEPT = "kept"
    """The earlier version runs and has stayed."""
    SILENT = "silent"
    """Nobody tells which version runs."""
    ASTRAY = "astray"
    """Neither version stays; the device is to go back to the earlier one."""
    REVERTING = "reverting"
    """The message that sets off the way back is about to leave, or has left; it is never sent again."""
    REVERTED = "reverted"
    """The earlier version runs again and has stayed."""
    STUCK = "stuck"
    """There is no way back, or it did not lead there: somebody has to go to the device."""


class Runs(StrEnum):
    """What a device says it runs, as an update sees it."""

    WANTED = "wanted"
    """What is being installed."""
    EARLIER = "earlier"
    """What ran before."""
    INTERIM = "interim"
    """What goes on to another by itself."""
    OTHER = "other"
    """Something else."""
    UNKNOWN = "unknown"
    """It has not said, since the message left or since it went away."""


class Overdue(StrEnum):
    """What did not come in time."""

    UNANSWERED = "unanswered"
    """Nothing says that it was begun."""
    STALLED = "stalled"
    """It was begun, and no progress was told for too long."""
    LATE = "late"
    """It was begun, and is not done in its time."""
    AWAY = "away"
    """It is said to be done, and the device was not seen to come back."""


VersionText = Annotated[str, Field(min_length=1, max_length=64)]
"""A version as a device tells it."""


class UpdateMark(Contract):
    """What became of an update, for its receipt.

    Attributes:
        sha256: of the file.
        stage: where it ended.
        earlier: the version before.
        wanted: the version of the file.
        runs: the version that was told last; absent where none was.
    """

    sha256: DigestField
    stage: Stage = Field(strict=False)
    earlier: VersionText
    wanted: VersionText
    runs: VersionText | None = None
