"""What is remembered of a hub outside of its database, and why a new life of the database begins.

The mark is written beside the database after the commits that it names. A database that is *ahead* of
its mark is therefore normal; one that is *behind* it was put back to an earlier copy (SPEC T8).
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from edgeagent.contracts.door import Contract
from edgeagent.contracts.order import Kind
from edgeagent.contracts.scalars import DigestField, EpochField, HubIdField, Timestamp


class EpochReason(StrEnum):
    """Why a life of the database began."""

    FIRST = "first"
    """Nothing is known of an earlier one."""
    LOST = "lost"
    """The database was gone; the mark beside it was not."""
    DAMAGED = "damaged"
    """The database was damaged and is set aside."""
    RESTORED = "restored"
    """The database is an earlier copy than the mark beside it knows."""


class FloorMark(Contract):
    """What a later start must not find itself behind.

    Attributes:
        hub: whose it is.
        sequence: grows with each mark.
        epoch: the life of the database.
        incarnation: the start of the agent.
        audit_number: of the audit trail's last row.
        audit_hash: of that row.
        time_floor: the stored floor of time; None for none.
        floor_resets: how often a person has set that back; the floor of more resets counts.
        policy_version: in force; None for none.
        stops: the kinds of command that are stopped; None for none.
    """

    hub: HubIdField
    sequence: Annotated[int, Field(ge=1, lt=2**63)]
    epoch: EpochField
    incarnation: Annotated[int, Field(ge=1, lt=2**63)]
    audit_number: Annotated[int, Field(ge=0, lt=2**63)]
    audit_hash: DigestField
    time_floor: Timestamp | None = None
    floor_resets: Annotated[int, Field(ge=0, lt=2**63)] = 0
    policy_version: Annotated[int, Field(ge=1, lt=2**63)] | None = None
    stops: list[Kind] | None = None
