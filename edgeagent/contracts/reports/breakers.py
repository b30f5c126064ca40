"""Breakers: how they stand, and asking for one to be tripped or reset."""

from typing import Annotated

from pydantic import Field

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.door import Contract
from edgeagent.contracts.scalars import KeyIdField, Timestamp


class BreakerRequest(Contract):
    """Asks for a breaker to be tripped or reset.

    Attributes:
        action: of which action.
        origin: of whose: a key's id or the beginning of it, its name in the policy, or ``hub``.
        reason: for people.
    """

    action: ActionName = Field(strict=False)
    origin: Annotated[str, Field(min_length=1, max_length=64)]
    reason: Annotated[str, Field(min_length=1, max_length=200)]


class BreakerReport(Contract):
    """A breaker that is not closed, or towards which something is counted.

    Attributes:
        action: of which action.
        origin: of whose: a key id.
        name: that key's name in the policy, ``hub``, or empty.
        phase: ``closed``, ``open`` or ``half_open``.
        signal: what opened it.
        why: for people.
        opened_at: when.
        left: seconds until one may try; None for one that stays open until it is reset, or is closed.
        probe: the run that tries.
        counted: what was counted lately towards one that is closed, by signal.
    """

    action: ActionName = Field(strict=False)
    origin: KeyIdField
    name: str = ""
    phase: str
    signal: str = ""
    why: str = ""
    opened_at: Timestamp | None = None
    left: float | None = None
    probe: int | None = None
    counted: dict[str, int] = Field(default_factory=dict)


class BreakersReport(Contract):
    """All of them.

    Attributes:
        when_open: what becomes of commands while one is open.
        breakers: those that there is something to say of.
    """

    when_open: str
    breakers: list[BreakerReport]
