"""Named places where a test may end the process."""

from enum import StrEnum
from typing import Protocol


class CrashPoint(StrEnum):
    """A place where a test may end the process. Named after what has just happened."""

    EVENTS_COMMITTED = "events_committed"
    """Readings are committed; no PUBACK has left."""
    EVENTS_UPLOADED = "events_uploaded"
    """The cloud has acknowledged; the outbox does not know yet."""
    COMMAND_ADMITTED = "command_admitted"
    """A command stands in the inbox; the cloud's copy is not acknowledged."""
    COMMAND_CLAIMED = "command_claimed"
    """A lock is taken; nothing was sent."""
    STEP_RECORDED = "step_recorded"
    """It is recorded that a step is about to be sent; it was not."""
    STEP_SENT = "step_sent"
    """The message has gone to the broker; nothing is known of its effect."""
    STEP_CHECKPOINTED = "step_checkpointed"
    """It is recorded what became of a part; the next has not begun."""
    EFFECT_CONFIRMED = "effect_confirmed"
    """The effect is known; the final commit has not begun."""
    CERTIFICATE_GIVEN = "certificate_given"
    """The queue has certified the hub's next key; the hub has not stored it."""
    CERTIFICATE_STORED = "certificate_stored"
    """The next certificate lies in the slot that is not shown; the queue has not seen it yet."""
    CERTIFICATE_TRIED = "certificate_tried"
    """The queue takes the next certificate; the one before is still the one that is shown."""
    CERTIFICATE_SHOWN = "certificate_shown"
    """A claim code's certificate is the one that is shown; the set-up has made no further step."""
    COMMAND_SETTLED = "command_settled"
    """The final commit is done; the receipt has not gone up."""


class CrashPoints(Protocol):
    """Told when the agent passes one of the named points; does nothing in the product."""

    def reached(self, point: CrashPoint) -> None:
        """Note that ``point`` was passed."""
        ...
