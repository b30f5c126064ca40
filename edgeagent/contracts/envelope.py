"""The JSON of a DSSE envelope (DSSE protocol v1.0.2), as it crosses a boundary.

What it proves is found out in ``core/envelope``.
"""

from typing import Annotated, Final

from pydantic import Field

from edgeagent.contracts.door import Contract
from edgeagent.contracts.scalars import Base64, KeyIdField

MOST_SIGNATURES: Final = 8


class Signature(Contract):
    """One signature of an envelope. DSSE lets ``keyid`` be absent; we do not."""

    keyid: KeyIdField
    sig: Base64


class Envelope(Contract):
    """Signed bytes, the kind of document that they are, and who signed them."""

    payload: Base64
    payloadType: Annotated[str, Field(min_length=1, max_length=128)]  # noqa: N815 - the standard's name
    signatures: Annotated[list[Signature], Field(min_length=1, max_length=MOST_SIGNATURES)]
