"""From the bytes of an envelope to a command that a known key has signed."""

from edgeagent.contracts.command import COMMAND_BYTES, COMMAND_TYPE, Command
from edgeagent.contracts.door import decode
from edgeagent.contracts.reasons import Reason
from edgeagent.core.envelope import Keyring, RefusedEnvelopeError, Verified, verify
from edgeagent.core.gate.verdict import Opened
from edgeagent.errors import MalformedError
from edgeagent.ids import DeviceId


def read(raw: bytes, keys: Keyring) -> tuple[Command, Verified]:
    """Verify an envelope, and read the command in it.

    Raises:
        RefusedEnvelopeError: with the reason.
    """
    verified = verify(raw, keys, COMMAND_TYPE, limit=COMMAND_BYTES)
    try:
        return decode(Command, verified.payload, limit=COMMAND_BYTES), verified
    except MalformedError as why:
        raise RefusedEnvelopeError(Reason.MALFORMED, str(why)) from why


def opened(raw: bytes, keys: Keyring) -> list[Opened]:
    """Verify an envelope, and read the command in it as it is asked of each of its devices.

    Raises:
        RefusedEnvelopeError: with the reason.
    """
    command, verified = read(raw, keys)
    return [Opened(command, verified, device) for device in command.devices]


def opened_for(device: DeviceId, raw: bytes, keys: Keyring) -> Opened:
    """Verify an envelope that was stored for a device.

    Raises:
        RefusedEnvelopeError: with the reason; ``MALFORMED`` where it does not name that device.
    """
    return for_device(device, *read(raw, keys))


def for_device(device: DeviceId, command: Command, verified: Verified) -> Opened:
    """A command that was read, as it is asked of one device.

    Raises:
        RefusedEnvelopeError: ``MALFORMED`` where it does not name that device.
    """
    if device not in command.devices:
        raise RefusedEnvelopeError(Reason.MALFORMED, f"it does not name {device}")
    return Opened(command, verified, device)
