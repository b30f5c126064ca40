"""The kill switch: what is stopped, and asking for it to be thrown."""

from typing import Annotated

from pydantic import Field, field_validator

from edgeagent.contracts.door import Contract
from edgeagent.contracts.order import Kind, check_kind
from edgeagent.contracts.scalars import Timestamp


class SwitchRequest(Contract):
    """Asks for a kind of command to be stopped or resumed.

    Attributes:
        kind: which.
        why: for people.
    """

    kind: Kind
    why: Annotated[str, Field(max_length=200)] = ""

    @field_validator("kind")
    @classmethod
    def _is_one(cls, kind: str) -> str:
        check_kind(kind)
        return kind


class StopReport(Contract):
    """The last word on a kind of command.

    Attributes:
        kind: which.
        stopped: whether it is stopped; else it was and has been resumed.
        by: who said so: a key id, or who typed it.
        why: for people.
        at: when.
    """

    kind: Kind
    stopped: bool
    by: str
    why: str
    at: Timestamp


class StopsReport(Contract):
    """The last word on each kind that there was one on."""

    stops: list[StopReport]
