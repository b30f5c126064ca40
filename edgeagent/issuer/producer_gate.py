"""The producer's gate: what can be known of a command before it is queued (SPEC V7).

The hub trusts none of it and judges everything again; but what is refused here is answered at once,
counted by origin, and reaches no hub. Cheapest and most certain first, as at the hub:

    size > DSSE shape, payload type > [policy] signatures > schema > hub, epoch > validity > arguments
        > [policy] the hub's own gate, as far as it can be asked without the hub

Without a policy nobody's signature can be checked; then the command's shape, address and time are.
What only the hub knows (devices and their ranges, states, sequences, operations) is left to it.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from edgeagent.clock import BootId, ClockSource, Wall
from edgeagent.contracts.actions import CATALOGUE, ActionName, Arguments
from edgeagent.contracts.command import COMMAND_BYTES, COMMAND_TYPE, Command
from edgeagent.contracts.door import decode
from edgeagent.contracts.envelope import Envelope
from edgeagent.contracts.order import Order
from edgeagent.contracts.policy import Level, Policy
from edgeagent.contracts.reasons import Reason
from edgeagent.core.catalogue import Catalogue
from edgeagent.core.envelope import Keyring, RefusedEnvelopeError, Verified, digest_of, verify
from edgeagent.core.gate.judging import judge as judge_at_hub
from edgeagent.core.gate.roles import keyring
from edgeagent.core.gate.verdict import Moment, Opened, Refuse
from edgeagent.core.gate.world import World
from edgeagent.core.shadow import Shadow
from edgeagent.errors import MalformedError, RejectedError
from edgeagent.ids import CommandId, Digest, Epoch, HubId, KeyId
from edgeagent.values import dataclass

# Issuers' clocks may be ahead of the queue's by so much.
_SKEW: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateWorld:
    """What the queue knows when it judges.

    Attributes:
        hub: the hub whose queue is asked.
        epoch: the life of its database, by its newest hello; None before the first.
        now: the queue's time.
        policy: who may sign what; None when the queue was not given it.
        policy_until: when what stands behind the policy ends, if that is not the policy's own end alone.
        catalogue: what is signed of artifacts; None where no repository says it.
    """

    hub: HubId
    epoch: Epoch | None
    now: datetime
    policy: Policy | None
    policy_until: datetime | None = None
    catalogue: Catalogue | None = None

    @property
    def wall(self) -> Wall:
        """The queue's time as a clock has it. The queue is who tells hubs the time: it is sure of its own."""
        return Wall(best=self.now, earliest=self.now, latest=self.now, source=ClockSource.STATEMENT)


@dataclass(frozen=True, slots=True)
class Passed:
    """A command that may be queued.

    Attributes:
        command: what it says.
        sha256: of its payload; its identity.
        signers: the keys that verified; none without a policy.
    """

    command: Command
    sha256: Digest
    signers: tuple[KeyId, ...]


class GateRefusedError(RejectedError):
    """A command that is not queued.

    Attributes:
        reason: the code.
        origin: the key that verified; None when none did.
        command: the command's id, where it could be read.
        action: what it asks, where it could be read.
    """

    def __init__(
        self,
        reason: Reason,
        why: str,
        *,
        origin: KeyId | None = None,
        command: CommandId | None = None,
        action: ActionName | None = None,
    ) -> None:
        super().__init__(why)
        self.reason = reason
        self.origin = origin
        self.command = command
        self.action = action


def judge(raw: bytes, world: GateWorld) -> Passed:
    """Decide whether an envelope may be queued for a hub.

    Raises:
        GateRefusedError: it may not; see the module's docstring for the order.
    """
    keys = None if world.policy is None else keyring(world.policy, world.hub, None)
    verified = verified_envelope(raw, keys, COMMAND_TYPE, limit=COMMAND_BYTES)
    origin = verified.signers[0] if verified.signers else None
    try:
        command = decode(Command, verified.payload, limit=COMMAND_BYTES)
    except MalformedError as why:
        raise GateRefusedError(Reason.MALFORMED, str(why), origin=origin) from why
    for reason, words in _objections(command, verified, world):
        raise GateRefusedError(
            reason, words or reason.sentence, origin=origin, command=command.id, action=command.action
        )
    return Passed(command, verified.sha256, verified.signers)


def verified_envelope(raw: bytes, keys: Keyring | None, payload_type: str, *, limit: int) -> Verified:
    """The payload of an envelope, and who is known to have signed it: nobody where there are no keys to ask.

    Raises:
        GateRefusedError: it is none of that kind, or nobody who counts has signed it.
    """
    if keys is not None:
        try:
            return verify(raw, keys, payload_type, limit=limit)
        except RefusedEnvelopeError as why:
            raise GateRefusedError(why.reason, str(why)) from why
    if len(raw) > limit:
        raise GateRefusedError(Reason.TOO_LARGE, f"{len(raw)} bytes, of which {limit} are allowed")
    try:
        envelope = decode(Envelope, raw, limit=limit)
    except MalformedError as why:
        raise GateRefusedError(Reason.MALFORMED, str(why)) from why
    if envelope.payloadType != payload_type:
        raise GateRefusedError(Reason.WRONG_PAYLOAD_TYPE, "a document of another kind")
    return Verified(envelope.payload, digest_of(envelope.payload), ())


def misaddressed(asked: Command | Order, world: GateWorld) -> Iterator[tuple[Reason, str]]:
    """What speaks against hub, epoch and expiry of a document."""
    if asked.hub != world.hub:
        yield Reason.WRONG_HUB, f"it is for {asked.hub}"
    if world.epoch is None:
        yield Reason.WRONG_EPOCH, "the hub has not said hello yet"
    elif asked.epoch != world.epoch:
        yield Reason.WRONG_EPOCH, f"the hub's epoch is {world.epoch}"
    if asked.expires_at <= world.now:
        yield Reason.EXPIRED, f"it expired at {asked.expires_at:%Y-%m-%dT%H:%M:%SZ}"


def _objections(command: Command, verified: Verified, world: GateWorld) -> Iterator[tuple[Reason, str]]:
    """What speaks against a command, in the gate's order; whoever asks takes the first."""
    yield from misaddressed(command, world)
    if command.issued_at > world.now + _SKEW:
        yield Reason.NOT_YET_VALID, f"it is issued at {command.issued_at:%Y-%m-%dT%H:%M:%SZ}"
    try:
        CATALOGUE[command.action].check(command.arguments)
    except MalformedError as why:
        yield Reason.BAD_ARGUMENTS, str(why)
    if world.policy is not None and world.epoch is not None:
        of_each = (Opened(command, verified, device) for device in command.devices)
        objections = [
            next(_objections_of_policy(one, world, world.policy, world.epoch), None) for one in of_each
        ]
        # The hub judges each device on its own: what may be done on one of them is worth its way.
        if objections[0] is not None and None not in objections:
            yield objections[0]


def _objections_of_policy(
    asked: Opened, world: GateWorld, policy: Policy, epoch: Epoch
) -> Iterator[tuple[Reason, str]]:
    """The hub's own gate, in a world where every device is there and nothing was said before."""
    if policy.hubs != "*" and world.hub not in policy.hubs:
        yield Reason.NO_POLICY, f"policy {policy.version} is not for {world.hub}"
    verdict = judge_at_hub(
        asked,
        World(
            hub=world.hub,
            epoch=epoch,
            policy=policy,
            policy_until=world.policy_until,
            operator_key=None,
            wall=world.wall,
            boot=(BootId(""), timedelta(0)),
            device=_AnyDevice(),
            catalogue=world.catalogue,
        ),
        Moment.ADMIT,
    )
    if isinstance(verdict, Refuse):
        yield verdict.reason, verdict.detail


class _AnyDevice:
    """Stands for the device, of which the queue knows too little to refuse anything."""

    def check(self, action: ActionName, arguments: Arguments) -> None:
        """Nothing is refused."""

    def unfit(self, action: ActionName, arguments: Arguments, shadow: Shadow) -> str:  # noqa: ARG002 - the protocol's
        """Nothing is unfit."""
        return ""

    def best(self, action: ActionName) -> Level:  # noqa: ARG002 - the protocol's
        """Any level may be reached."""
        return Level.VERIFIED
