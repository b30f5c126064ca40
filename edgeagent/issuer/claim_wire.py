"""The shapes by which issuers make claim codes and take them, or hubs' certificates, back."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from edgeagent.adapters.cloud.identity_wire import SerialText
from edgeagent.contracts.door import Contract
from edgeagent.contracts.scalars import DigestField, HubIdField, Timestamp, Words

MOST_CLAIMS: Final = 200
"""The most claim codes in one answer; the newest."""


class ClaimState(StrEnum):
    """What has become of a claim code."""

    WAITING = "waiting"
    """It can be used, until its time is over."""
    USED = "used"
    """A hub was enrolled by it."""
    REVOKED = "revoked"
    """It was taken back, or a later one made for the same hub."""


class ClaimRequest(Contract):
    """Let a hub be claimed by whoever knows a secret.

    Attributes:
        secret: the sha256 of it.
        until: when the code is over.
    """

    secret: DigestField
    until: Timestamp


class ClaimStatus(Contract):
    """A claim code, as far as the queue knows it.

    Attributes:
        hub: whom it makes.
        state: what has become of it.
        made: when.
        by: which login made it.
        until: when it is over.
        used: when a hub was enrolled by it.
        serial: of the certificate that was given for it.
    """

    hub: HubIdField
    state: ClaimState
    made: Timestamp
    by: Words
    until: Timestamp
    used: Timestamp | None = None
    serial: SerialText | None = None


class ClaimsAnswer(Contract):
    """The newest claim codes, newest first."""

    claims: Annotated[list[ClaimStatus], Field(max_length=MOST_CLAIMS)]


class RevokedAnswer(Contract):
    """How many codes or certificates were taken back."""

    hub: HubIdField
    revoked: Annotated[int, Field(ge=0)]
