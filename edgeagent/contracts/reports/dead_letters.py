"""Dead letters: what lies there, and what somebody wants done with it."""

from typing import Annotated

from pydantic import Field, model_validator

from edgeagent.contracts.actions import ActionName, ArgumentValue
from edgeagent.contracts.door import Contract
from edgeagent.contracts.envelope import Envelope
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.scalars import CommandIdField, DeviceIdField, DigestField, KeyIdField, Timestamp

Number = Annotated[int, Field(ge=1, lt=2**53)]


class LettersWanted(Contract):
    """Which letters are meant: those that fit all that is said.

    Attributes:
        number: this one.
        action: of this action.
        device: for this device.
        reason: that ended for this reason.
        since: buried since then.
        dealt: also those that somebody has dealt with.
        after: with higher numbers than this.
        most: at most so many, the oldest first.
    """

    number: Number | None = None
    action: ActionName | None = Field(default=None, strict=False)
    device: DeviceIdField | None = None
    reason: Reason | None = Field(default=None, strict=False)
    since: Timestamp | None = None
    dealt: bool = False
    after: Annotated[int, Field(ge=0, lt=2**53)] = 0
    most: Annotated[int, Field(ge=1, le=500)] = 100

    @property
    def is_explicit(self) -> bool:
        """Whether a letter or a filter was named: nobody deals with all by forgetting to say which."""
        said = (self.number, self.action, self.device, self.reason, self.since)
        return any(each is not None for each in said)


class ReplayRequest(Contract):
    """Asks for letters to run again.

    Attributes:
        wanted: which.
        dry_run: only say what the gate says.
    """

    wanted: LettersWanted
    dry_run: bool = False


class DiscardRequest(Contract):
    """Asks for letters to be put away.

    Attributes:
        wanted: which.
        why: for the record.
        dry_run: only say which.
    """

    wanted: LettersWanted
    why: Annotated[str, Field(min_length=1, max_length=200)]
    dry_run: bool = False


class LetterReport(Contract):
    """A dead letter.

    Attributes:
        number: by which it is named.
        command: its command.
        device: whom it was for.
        action: what it asked.
        arguments: with what; only where it is shown whole.
        issuer: the key in whose name.
        actor: who is on record for it.
        lane: where it was worked.
        sha256: of its payload.
        run: which run of the command it was; 0 of one that got no row.
        outcome: how it ended.
        blame: the class of its reason: ``transient`` (attempts spent), ``permanent``, ``suspicious``.
        reason: why.
        meaning: what that means.
        detail: more of it.
        attempts: how often it was sent.
        steps: what was sent; of one that is made of several, and shown whole, what became of each step.
        fence: of its lock; 0 if it was never claimed.
        worker: who worked it.
        received_at: when it came.
        buried_at: when it ended.
        expires_at: from when on it is not begun.
        dealt: ``replayed`` or ``discarded``; None while it waits.
        dealt_by: by whom.
        dealt_at: when.
        dealt_why: why.
        replayed_as: the run that it became.
        envelope: as it came; only where it is shown whole.
    """

    number: Number
    command: CommandIdField
    device: DeviceIdField
    action: ActionName = Field(strict=False)
    arguments: dict[str, ArgumentValue] | None = None
    issuer: KeyIdField
    actor: str
    lane: Tier = Field(strict=False)
    sha256: DigestField
    run: int
    outcome: Outcome = Field(strict=False)
    blame: str
    reason: Reason | None = Field(default=None, strict=False)
    meaning: str = ""
    detail: str = ""
    attempts: int
    steps: list[str]
    fence: int
    worker: str | None = None
    received_at: Timestamp
    buried_at: Timestamp
    expires_at: Timestamp
    dealt: str | None = None
    dealt_by: str | None = None
    dealt_at: Timestamp | None = None
    dealt_why: str = ""
    replayed_as: int | None = None
    envelope: Envelope | None = None


class LettersReport(Contract):
    """Dead letters, oldest first."""

    letters: list[LetterReport]


class DealtReport(Contract):
    """What became of one letter that somebody dealt with, or would.

    Attributes:
        number: of the letter.
        command: its command.
        device: for this device.
        done: ``queued``, ``held``, ``discarded``, or ``refused``.
        reason: why it is held or refused.
        detail: more of it.
        run: the run that it became.
    """

    number: Number
    command: CommandIdField
    device: DeviceIdField
    done: str
    reason: Reason | None = Field(default=None, strict=False)
    detail: str = ""
    run: int | None = None


class DealtsReport(Contract):
    """What became of letters.

    Attributes:
        dry_run: nothing was done; this is what would be.
        letters: each.
    """

    dry_run: bool
    letters: list[DealtReport]

    @model_validator(mode="after")
    def _dry_runs_do_nothing(self) -> "DealtsReport":
        if self.dry_run and any(letter.run is not None for letter in self.letters):
            raise ValueError("a dry run makes no run")
        return self
