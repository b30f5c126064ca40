"""What the gate is asked, and what it says."""

from enum import StrEnum

from edgeagent.contracts.command import Command
from edgeagent.contracts.policy import ActionRule
from edgeagent.contracts.reasons import Reason
from edgeagent.core.envelope import Verified
from edgeagent.ids import CommandId, DeviceId, KeyId
from edgeagent.values import dataclass


class Moment(StrEnum):
    """When the gate is asked."""

    ADMIT = "admit"
    """The command has come."""
    ACT = "act"
    """Its device is locked for it; the next thing is to send."""
    REPLAY = "replay"
    """A person wants a dead letter to run again."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A command as it is asked of one of its devices, and the bytes that prove it.

    Attributes:
        command: the whole of what was signed.
        verified: its bytes, and who signed them.
        device: the one of its devices that is meant here.
    """

    command: Command
    verified: Verified
    device: DeviceId


@dataclass(frozen=True, slots=True)
class Accept:
    """It may be done.

    Attributes:
        issuer: the key in whose name.
        rule: how the policy wants it carried out.
        stale: what the precondition would be refused for now; advisory, at ADMIT only.
    """

    issuer: KeyId
    rule: ActionRule
    stale: str = ""


@dataclass(frozen=True, slots=True)
class Refuse:
    """It may not be done, now or ever.

    Attributes:
        reason: why, as a code.
        detail: why, for people.
        answer: the command whose stored result is the answer.
    """

    reason: Reason
    detail: str = ""
    answer: CommandId | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """It cannot be said yet."""

    reason: Reason
    issuer: KeyId
    rule: ActionRule


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The same payload has come before: its stored result is the answer."""


@dataclass(frozen=True, slots=True)
class AddSignatures:
    """The same payload has come before and is held; this envelope carries signatures that it lacks."""


Verdict = Accept | Refuse | Hold | Duplicate | AddSignatures
