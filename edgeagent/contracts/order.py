"""Orders to the hub itself: stop a kind of command at once, or take that back (SPEC B3).

The payload of a DSSE envelope of type ``ORDER_TYPE``, signed by a key of role ``stop``. It comes by the
same queue as commands do and is bound to hub, epoch and time as they are. Of two orders about the same
kind the one with the higher sequence counts, whoever signed it and in whatever order they come.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from edgeagent.contracts.actions import ActionName, made_of
from edgeagent.contracts.command import Sequence
from edgeagent.contracts.door import Contract
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.scalars import CommandIdField, EpochField, HubIdField, Timestamp

ORDER_TYPE: Final = "application/vnd.edgeagent.order.v1+json"
"""The DSSE payload type of an order."""
ORDER_BYTES: Final = 8 * 1024
"""The most bytes of an envelope around one."""

Kind = Annotated[str, Field(pattern=r"^(all|tier:[a-z]{1,16}|action:[a-z_]{1,32})$")]
"""A kind of command: ``all``, ``tier:high``, ``action:power``."""


class Verb(StrEnum):
    """What an order says."""

    STOP = "stop"
    """Refuse such commands, those that wait included. Holds with an unsure clock too."""
    RESUME = "resume"
    """Take them again. Never with an unsure clock."""


class Order(Contract):
    """Stop or resume a kind of command.

    Attributes:
        id: chosen by whoever signs.
        hub: the hub that is to obey.
        epoch: the life of its database.
        verb: what to do.
        kind: with which commands.
        why: for people.
        sequence: time-ordered, as that of a command.
        issued_at: when it was signed.
        expires_at: from when on it is not obeyed.
    """

    type: Literal["order"] = "order"
    id: CommandIdField
    hub: HubIdField
    epoch: EpochField
    verb: Verb = Field(strict=False)
    kind: Kind
    why: Annotated[str, Field(max_length=200)] = ""
    sequence: Sequence
    issued_at: Timestamp
    expires_at: Timestamp

    @model_validator(mode="after")
    def _hangs_together(self) -> "Order":
        if self.expires_at <= self.issued_at:
            raise ValueError("it expires before it is issued")
        check_kind(self.kind)
        return self


def check_kind(kind: str) -> None:
    """Refuse a kind that names no tier or action of ours.

    Raises:
        ValueError: it does.
    """
    family, _, name = kind.partition(":")
    if family == "tier" and name not in set(Tier):
        raise ValueError(f"no tier {name}")
    if family == "action" and name not in set(ActionName):
        raise ValueError(f"no action {name}")


def covers(kind: str, action: ActionName, tier: Tier) -> bool:
    """Whether a kind of command takes in an action that the policy puts into ``tier``.

    One that is made of others is taken in with any of them.
    """
    return kind in {"all", f"tier:{tier}", *(f"action:{each}" for each in made_of(action))}
