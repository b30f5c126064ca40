"""Commands at this hub, and asking for one."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from edgeagent.contracts.actions import ActionName, ArgumentValue
from edgeagent.contracts.command import ArgumentName, Precondition
from edgeagent.contracts.door import Contract
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Receipt
from edgeagent.contracts.scalars import (
    CommandIdField,
    DeviceIdField,
    DigestField,
    Duration,
    KeyIdField,
    OperationField,
    Timestamp,
)
from edgeagent.contracts.update import Stage


class UpdateReport(Contract):
    """How far an update of firmware is.

    Attributes:
        stage: where it stands.
        earlier: the version before.
        wanted: the version of the file.
        percent: how far the device said last that it was.
        runs: the version that it told last; empty for none.
    """

    stage: Stage = Field(strict=False)
    earlier: str
    wanted: str
    percent: int | None = None
    runs: str = ""


class CommandReport(Contract):
    """A command at this hub, on one of its devices.

    Attributes:
        command: its id.
        device: whom it is for.
        action: what it asks.
        arguments: with what.
        state: where it stands.
        reason: why, where there is more to say.
        meaning: what that reason means.
        lane: where it is worked.
        run: which run of it.
        attempts: how often it was sent.
        issuer: the key in whose name.
        actor: who is on record for it.
        received_at: when it came.
        expires_at: from when on it is not begun.
        last_error: what went wrong last.
        update: how far it is, of an update that has begun.
        sha256: of its payload; what is approved.
        receipt: its result, once it has one.
    """

    command: CommandIdField
    device: DeviceIdField
    action: ActionName = Field(strict=False)
    arguments: dict[str, ArgumentValue]
    state: str
    reason: Reason | None = Field(default=None, strict=False)
    meaning: str = ""
    lane: Tier = Field(strict=False)
    run: int
    attempts: int
    issuer: KeyIdField
    actor: str
    received_at: Timestamp
    expires_at: Timestamp
    last_error: str | None = None
    update: UpdateReport | None = None
    sha256: DigestField
    receipt: Receipt | None = None


class CommandsReport(Contract):
    """Commands, each on each of its devices: those that came last, newest first; or all of one."""

    commands: list[CommandReport]


class SendRequest(Contract):
    """Asks for a command to be made, signed with the hub's own key, and carried out.

    Attributes:
        device: whom for.
        action: what.
        arguments: with what.
        operation: the intent, if it is the same as that of an earlier command.
        precondition: the state that it was decided on.
        wait: how long to wait for its end.
    """

    device: DeviceIdField
    action: ActionName = Field(strict=False)
    arguments: dict[ArgumentName, ArgumentValue] = Field(default_factory=dict, max_length=8)
    operation: OperationField | None = None
    precondition: Precondition | None = None
    wait: Annotated[Duration, Field(le=timedelta(minutes=2))] = timedelta(seconds=30)


class SendReport(Contract):
    """What became of a command that was asked for.

    Attributes:
        refused: why it was not let in; None if it was.
        detail: of that, for people.
        command: the command; None when it was not stored.
    """

    refused: Reason | None = Field(default=None, strict=False)
    detail: str = ""
    command: CommandReport | None = None
