"""A signed statement of the time, in answer to a nonce.

The payload of a DSSE envelope of type ``TIME_TYPE``, signed by a key of role ``time``. The hub takes
it only as the answer to the nonce that it has just made, so that an old one is worth nothing; how
far it may be off is the round trip, measured on boot time.
"""

from typing import Final, Literal

from edgeagent.contracts.door import Contract
from edgeagent.contracts.scalars import HubIdField, Nonce, Timestamp

TIME_TYPE: Final = "application/vnd.edgeagent.time.v1+json"
"""The DSSE payload type of a time statement."""
TIME_BYTES: Final = 4 * 1024
"""The most bytes of an envelope around one."""


class TimeStatement(Contract):
    """At ``time`` the signer saw ``nonce`` from ``hub``."""

    type: Literal["time"] = "time"
    hub: HubIdField
    nonce: Nonce
    time: Timestamp
