"""Signing commands: from an intent to the bytes that a queue carries.

A command is bound to everything that it means (``contracts/command``). Its id and sequence need no
shared counter: both begin with the time, the sequence as 41 bits of milliseconds over 20 bits of
chance (SPEC T4). One ``Issuer`` never gives a smaller sequence than before, so that of two commands
signed in the same millisecond the later one supersedes the earlier, and not chance decides.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import Final

from pydantic import ValidationError

from edgeagent.clock import EPOCH, Clock
from edgeagent.contracts.actions import CATALOGUE, ActionName, Arguments
from edgeagent.contracts.command import COMMAND_BYTES, COMMAND_TYPE, Command, Precondition
from edgeagent.contracts.door import decode, encode, faults
from edgeagent.contracts.envelope import MOST_SIGNATURES
from edgeagent.contracts.policy import id_of_key
from edgeagent.core.envelope import Signer, digest_of, merged, sign, type_of, unproven_payload
from edgeagent.errors import MalformedError, RejectedError
from edgeagent.ids import CommandId, DeviceId, Digest, Epoch, HubId, KeyId, Operation
from edgeagent.values import dataclass

CHANCE_BITS: Final = 20
"""The low bits of a sequence."""
_MILLISECOND_BITS: Final = 41
_ID_BITS: Final = 64
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What somebody wants to happen.

    Attributes:
        hub: the hub that is to act.
        epoch: the life of its database, as its newest hello says.
        devices: whom it is for; a group is named by its members.
        action: what to do.
        arguments: with what.
        valid_for: from now on, for how long it may be begun.
        operation: the same for each command that means the same happening; its own id where absent.
        precondition: the state that it was decided on; not compared where absent.
    """

    hub: HubId
    epoch: Epoch
    devices: Sequence[DeviceId]
    action: ActionName
    arguments: Arguments = field(default_factory=dict)
    valid_for: timedelta = timedelta(minutes=5)
    operation: Operation | None = None
    precondition: Precondition | None = None


@dataclass(frozen=True, slots=True)
class SignedCommand:
    """A command with the bytes that were signed.

    Attributes:
        command: what it says.
        sha256: of its payload; its identity.
        signers: the keys that signed it.
        envelope: what is sent.
    """

    command: Command
    sha256: Digest
    signers: tuple[KeyId, ...]
    envelope: bytes


class Issuer:
    """Whoever signs commands: one key or several, a clock, chance."""

    def __init__(
        self,
        signers: Sequence[Signer],
        clock: Clock,
        *,
        random_bits: Callable[[int], int] = secrets.randbits,
    ) -> None:
        self._signers = signers
        self._clock = clock
        self._random_bits = random_bits
        self._last_sequence = 0

    def sign(self, intent: Intent) -> SignedCommand:
        """Make a command of an intent and sign it with every key.

        Raises:
            MalformedError: the action has no such arguments, or a value is none that a command takes.
            RejectedError: no key, or more than an envelope may carry.

        A list of devices without one, with more than 256 or with one twice is malformed too.
        """
        if not 0 < len(self._signers) <= MOST_SIGNATURES:
            raise RejectedError(f"a command has 1 to {MOST_SIGNATURES} signatures")
        CATALOGUE[intent.action].check(intent.arguments)
        command = self._command(intent, self._clock.wall().best)
        payload = encode(command)
        envelope = sign(payload, COMMAND_TYPE, self._signers)
        if len(envelope) > COMMAND_BYTES:
            raise MalformedError(
                f"the command has {len(envelope)} bytes, of which {COMMAND_BYTES} are allowed"
            )
        signers = tuple(id_of_key(signer.public) for signer in self._signers)
        return SignedCommand(command, digest_of(payload), signers, envelope)

    def _command(self, intent: Intent, now: datetime) -> Command:
        milliseconds = (now - EPOCH) // _MILLISECOND
        id_ = CommandId(f"{milliseconds:012x}-{self._random_bits(_ID_BITS):016x}")
        try:
            return Command(
                id=id_,
                hub=intent.hub,
                epoch=intent.epoch,
                devices=list(intent.devices),
                action=intent.action,
                arguments=dict(intent.arguments),
                operation=intent.operation or Operation(id_),
                sequence=self._next_sequence(milliseconds),
                issued_at=now,
                expires_at=now + intent.valid_for,
                precondition=intent.precondition,
            )
        except ValidationError as why:
            raise MalformedError(faults(why)) from why
        except OverflowError as why:
            raise MalformedError("it would be valid beyond the end of the calendar") from why

    def _next_sequence(self, milliseconds: int) -> int:
        if milliseconds >= 2**_MILLISECOND_BITS:
            raise MalformedError("the clock is beyond the time that a sequence can hold")
        drawn = milliseconds << CHANCE_BITS | self._random_bits(CHANCE_BITS)
        self._last_sequence = max(drawn, self._last_sequence + 1)
        return self._last_sequence


def approved(envelope: bytes, signers: Sequence[Signer]) -> bytes:
    """Add signatures to a command that somebody else has issued (SPEC T7). The payload stays as it is.

    Raises:
        MalformedError: it is no command, or would have too many signatures or bytes.
        RejectedError: nobody signs.
    """
    if not signers:
        raise RejectedError("nobody signs")
    if type_of(envelope, limit=COMMAND_BYTES) != COMMAND_TYPE:
        raise MalformedError("not the envelope of a command")
    payload = unproven_payload(envelope)
    decode(Command, payload, limit=COMMAND_BYTES)
    both = merged(envelope, sign(payload, COMMAND_TYPE, signers))
    if len(both) > COMMAND_BYTES:
        raise MalformedError(f"the command has {len(both)} bytes, of which {COMMAND_BYTES} are allowed")
    return both
