"""The shapes by which a hub gets its identity, and the next one, for both ends (``docs/openapi.yaml``)."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from edgeagent.contracts.door import Contract
from edgeagent.contracts.scalars import Base64, HubIdField, Timestamp
from edgeagent.core.certificates import CHAIN_BYTES, REQUEST_BYTES

AUTHORITY_BYTES: Final = CHAIN_BYTES
"""The most bytes of an answer that tells the authority."""

SecretText = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
"""A claim's secret in hexadecimal."""
SerialText = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{1,40}$")]
"""A certificate's serial number in hexadecimal (RFC 5280: at most 20 bytes)."""
RequestBytes = Annotated[Base64, Field(max_length=REQUEST_BYTES)]
"""A request for a certificate: PKCS #10, DER."""
ChainText = Annotated[str, StringConstraints(max_length=CHAIN_BYTES, pattern=r"^[\x0a\x20-\x7e]+$")]
"""Certificates in PEM, the one that is shown first."""


class Standing(StrEnum):
    """What the queue holds of a certificate of its authority."""

    VALID = "valid"
    """It counts."""
    REPLACED = "replaced"
    """A later one has taken its place, or the hub was enrolled anew."""
    REVOKED = "revoked"
    """It was taken back."""
    OVER = "over"
    """It has ended, or not begun, by the queue's clock."""
    UNKNOWN = "unknown"
    """It is the authority's, and the queue has no record of it: its database was lost, or put back."""


class EnrolmentRequest(Contract):
    """Make me the hub of this claim."""

    secret: SecretText
    request: RequestBytes


class RenewalRequest(Contract):
    """Give me a certificate for my next key; who asks is told by the present one."""

    request: RequestBytes


class CertificateAnswer(Contract):
    """A certificate.

    Attributes:
        hub: whose it is.
        chain: it, and what lies between it and the root.
    """

    hub: HubIdField
    chain: ChainText


class AuthorityAnswer(Contract):
    """The root that the queue's certificate and those of hubs go back to; believed by its sha256 only."""

    root: ChainText


class IdentityAnswer(Contract):
    """Who somebody is by their certificate.

    Attributes:
        hub: which hub.
        serial: of the certificate.
        standing: whether it counts.
        ends: when it ends.
        renew: whether it is of an earlier key of the authority: the hub is to renew it now.
    """

    hub: HubIdField
    serial: SerialText
    standing: Standing
    ends: Timestamp
    renew: bool = False
