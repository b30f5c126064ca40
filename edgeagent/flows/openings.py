"""Envelopes that were opened in this process, so that a command is verified once and not at every look.

What is remembered is what was verified: the command that was read from exactly these bytes, under exactly
this keyring. It is given for the same bytes only, compared byte for byte and not by a digest, and while the
same keys count: under another keyring every signature is looked at again, so that whoever lost a role in
between is refused as before (SPEC T3). Whether a key may ask for this, now, is the gate's to say each time;
nothing of that is remembered, and no refusal is.

Bounded by count and bytes: the one that came first goes, and costs another look.
"""

from dataclasses import field
from typing import Final

from edgeagent.contracts.command import Command
from edgeagent.core.envelope import Keyring, Verified
from edgeagent.core.gate.opening import for_device, read
from edgeagent.core.gate.verdict import Opened
from edgeagent.ids import DeviceId
from edgeagent.values import dataclass

MOST: Final = 512
"""How many envelopes are remembered."""

MOST_BYTES: Final = 1024 * 1024
"""How many bytes of envelopes are remembered."""


@dataclass(slots=True)
class Openings:
    """The envelopes that were opened under one keyring. To be used on the event loop only.

    Attributes:
        keys: the keyring.
        verified: how often signatures were looked at.
    """

    keys: Keyring = field(default_factory=dict)
    verified: int = 0
    _known: dict[bytes, tuple[Command, Verified]] = field(default_factory=dict)
    _bytes: int = 0

    def __len__(self) -> int:
        return len(self._known)

    def opened(self, raw: bytes, keys: Keyring) -> list[Opened]:
        """What an envelope asks of each of its devices.

        Raises:
            RefusedEnvelopeError: with the reason.
        """
        command, verified = self._read(raw, keys)
        return [Opened(command, verified, device) for device in command.devices]

    def opened_for(self, device: DeviceId, raw: bytes, keys: Keyring) -> Opened:
        """What an envelope that was stored for a device asks of it.

        Raises:
            RefusedEnvelopeError: with the reason; ``MALFORMED`` where it does not name that device.
        """
        return for_device(device, *self._read(raw, keys))

    def _read(self, raw: bytes, keys: Keyring) -> tuple[Command, Verified]:
        if keys != self.keys:
            self.keys, self._bytes = dict(keys), 0
            self._known.clear()
        known = self._known.get(raw)
        if known is None:
            self.verified += 1
            known = self._known[raw] = read(raw, keys)
            self._bytes += len(raw)
            while len(self._known) > MOST or self._bytes > MOST_BYTES:
                first = next(iter(self._known))
                del self._known[first]
                self._bytes -= len(first)
        return known
