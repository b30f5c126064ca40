"""What a hub calls for a person about: the codes of the event ``edgeagent.alert`` (SPEC O4, Q7).

Alerts about a single device or command carry a code of ``contracts/reasons`` instead.
"""

from enum import StrEnum
from typing import Self


class Alert(StrEnum):
    """Something that a person should look at. Each has a code and a sentence."""

    sentence: str

    def __new__(cls, code: str, sentence: str) -> Self:
        """Make a member of a code and a sentence."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.sentence = sentence
        return member

    WORK_STUCK = "work_stuck", "A command is unfinished well past its time."
    WORKER_UNHEALTHY = "worker_unhealthy", "A worker is silent, or nobody works what is due in a lane."
    LANE_BEHIND = "lane_behind", "Commands wait long for their turn in a lane."
    LOCK_HELD = "lock_held", "A device has been locked for very long."
    OUTBOX_STUCK = "outbox_stuck", "What waits for the cloud does not go up."
    REPLAY_BURST = "replay_burst", "Somebody sends the same commands again and again."
    PROCESSED_TWICE = "processed_twice", "What was to happen once has happened twice, or may have."
    DEAD_LETTERS = "dead_letters", "A suspicious command was kept, or many wait that have ended badly."
    CERTIFICATE_ENDING = "certificate_ending", "A certificate that the hub uses ends soon, or is over."
    POLICY_ENDING = "policy_ending", "The policy or its metadata end soon, are over, or cannot be renewed."
    DISK_LOW = "disk_low", "The disk is nearly full."
    DATABASE_DAMAGED = "database_damaged", "Pages of the database do not hang together."
    MACHINE_STRAINED = (
        "machine_strained",
        "The machine lacks memory or voltage, is hot, or wears its disk out.",
    )
    BROKER_BROKEN = "broker_broken", "The broker sends what no broker may send."


class AlertTurn(StrEnum):
    """What has become of an alert."""

    RAISED = "raised"
    """It began."""
    STANDING = "standing"
    """It goes on; told once a day."""
    CLEARED = "cleared"
    """It is over."""
