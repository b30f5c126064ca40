"""From the bytes of an envelope to a command that a known key has signed."""

from edgeagent.contracts.command import COMMAND_BYTES, COMMAND_TYPE, Command
from edgeagent.contracts.door import decode
from edgeagent.contracts.reasons import Reason
from edgeagent.core.envelope import Keyring, RefusedEnvelopeError, verify
from edgeagent.core.gate.verdict import Opened
from edgeagent.errors import MalformedError


def opened(raw: bytes, keys: Keyring) -> Opened:
    """Verify an envelope and read the command in it.

    Raises:
        RefusedEnvelopeError: with the reason.
    """
    verified = verify(raw, keys, COMMAND_TYPE, limit=COMMAND_BYTES)
    try:
        return Opened(decode(Command, verified.payload, limit=COMMAND_BYTES), verified)
    except MalformedError as why:
        raise RefusedEnvelopeError(Reason.MALFORMED, str(why)) from why
