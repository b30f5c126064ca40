"""What the gate judges by, put together: policy, keys, time, device, and what the store remembers."""

from dataclasses import field, replace

from edgeagent.clock import Wall
from edgeagent.contracts.actions import slot_of
from edgeagent.core.breaker import Moment, shut
from edgeagent.core.envelope import Keyring
from edgeagent.core.freshness import LARGEST_SEQUENCE, BootDeadline, largest_sequence
from edgeagent.core.gate.roles import keyring, speaker
from edgeagent.core.gate.verdict import Opened
from edgeagent.core.gate.world import Known, World
from edgeagent.core.lease import ANY, Terms
from edgeagent.core.lifecycle import State
from edgeagent.core.operation import operation_key
from edgeagent.core.profile.facts import Facts
from edgeagent.core.stops import Stops
from edgeagent.flows.appliances import appliance_of
from edgeagent.flows.devices import Devices
from edgeagent.flows.holdtimes import HoldTimes
from edgeagent.flows.openings import Openings
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.trust import Trust
from edgeagent.ids import DeviceId, KeyId
from edgeagent.store.database import Snapshot
from edgeagent.store.memory import Memory, Question, recall
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True)
class Worlds:
    """Makes the worlds of the gate.

    Attributes:
        devices: the admitted devices.
        trust: the policy.
        around: time, and whose hub it is.
        operator_key: the hub's own public key.
        stops: what is stopped.
        holds: how long devices are locked.
        openings: the envelopes that were opened.
        serves_files: whether devices can fetch files from this hub.
    """

    devices: Devices
    trust: Trust
    around: Surroundings
    operator_key: bytes
    stops: Stops = field(default_factory=Stops)
    holds: HoldTimes = field(default_factory=HoldTimes)
    openings: Openings = field(default_factory=Openings)
    serves_files: bool = True

    def keys(self) -> Keyring:
        """The keys whose signature under a command counts now."""
        return keyring(self.trust.policy, self.around.origin.hub, self.operator_key)

    def around_device(self, device: DeviceId, local: BootDeadline | None) -> World:
        """Everything but what the store remembers. To be called on the event loop.

        The shadow is a copy: the judgement may be made in the database's thread.
        """
        found = self.devices.get(device)
        clock = self.around.clock
        return World(
            hub=self.around.origin.hub,
            epoch=self.around.origin.epoch,
            policy=self.trust.policy,
            policy_until=self.trust.until,
            operator_key=self.operator_key,
            wall=clock.wall(),
            boot=(clock.boot_id, clock.boot()),
            local=local,
            device=None if found is None else Facts(found.compiled),
            shadow=None if found is None else found.shadow.copied(),
            catalogue=self.trust.catalogue,
            appliance=None if found is None else appliance_of(found),
            serves_files=self.serves_files,
        )

    def terms(self, asked: Opened) -> Terms:
        """Under which terms the device is locked for a command. On the event loop only."""
        found, command = self.devices.get(asked.device), asked.command
        return ANY if found is None else self.holds.terms(found.compiled, command.action, command.arguments)

    @classmethod
    def remembered(cls, db: Snapshot, asked: Opened, world: World) -> tuple[KeyId, World]:
        """Add what the store remembers.

        Returns:
            The key in whose name the command speaks, and the whole world.
        """
        command = asked.command
        issuer = speaker(asked, world)
        question = Question(
            command=command.id,
            sha256=asked.verified.sha256,
            device=asked.device,
            issuer=issuer,
            action=command.action,
            sequence=command.sequence,
            slot=slot_of(command.action, command.arguments),
            largest=last_of_now(world.wall, is_local=world.local is not None),
            operation=operation_key(command, asked.device),
        )
        return issuer, cls.recalled(asked, world, recall(db, question))

    @staticmethod
    def recalled(asked: Opened, world: World, memory: Memory) -> World:
        """Add what was recalled of a command, in the name of the key that it speaks for."""
        sha256, state = memory.sha256, memory.state
        return replace(
            world,
            known=None
            if sha256 is None or (state is None and sha256 == asked.verified.sha256)
            else Known(sha256=sha256, held=state is State.HELD, signers=memory.signers),
            sequence_of=memory.sequence_of,
            superseded_by=memory.superseded_by,
            forgotten=memory.forgotten,
            operation=memory.operation,
            stops=memory.stops,
            approvals=memory.approvals,
            actor=memory.actor,
            shut=None
            if world.policy is None
            else shut(memory.breaker, world.policy.breaker, Moment(*world.boot)),
        )


def last_of_now(wall: Wall, *, is_local: bool) -> int:
    """The last sequence that may supersede another now.

    What is typed here follows the last sequence of its key, however far ahead the clock was then.
    """
    return LARGEST_SEQUENCE if is_local else largest_sequence(wall)
