"""Why a request to the agent was not done."""

from enum import StrEnum
from typing import Final, Literal

from pydantic import Field

from edgeagent.contracts.door import Contract

TIME_HEADER: Final = "Edgeagent-Time"
"""Says beside an answer when it was given, as RFC 3339 has it; absent while that is not proven."""


class Kind(StrEnum):
    """What stands in the way, for programs; what people type next hangs on it."""

    MALFORMED = "malformed"
    """What was asked is nothing that can be asked."""
    UNKNOWN = "unknown"
    """Nothing is called what was said."""
    AMBIGUOUS = "ambiguous"
    """Several things are called what was said."""
    REFUSED = "refused"
    """It cannot be done as things stand."""
    FORBIDDEN = "forbidden"
    """Whoever asked may not."""
    BUSY = "busy"
    """Not at the moment."""
    FAILED = "failed"
    """The agent itself is at fault."""


class Refusal(Contract):
    """Why a request was not done.

    Attributes:
        kind: what stands in the way.
        error: for people.
        advice: what to type next; empty where that hangs on what was typed.
    """

    type: Literal["refusal"] = "refusal"
    kind: Kind = Field(default=Kind.REFUSED, strict=False)
    error: str
    advice: str = ""
