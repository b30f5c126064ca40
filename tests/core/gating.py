"""Worlds and commands of the gate with boring defaults: a lamp that an operator may switch and dim."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from edgeagent.clock import BootId, ClockSource, Wall
from edgeagent.contracts.actions import ActionName, Arguments
from edgeagent.contracts.command import COMMAND_TYPE, Command
from edgeagent.contracts.door import encode
from edgeagent.contracts.policy import ActionRule, Level, Policy, Role, RoleKind, Tier, TierRule
from edgeagent.core.envelope import Signer, sign
from edgeagent.core.gate.judging import judge
from edgeagent.core.gate.opening import opened
from edgeagent.core.gate.verdict import Moment, Opened, Verdict
from edgeagent.core.gate.world import World
from edgeagent.core.shadow import Shadow, StateReading, etag
from edgeagent.errors import MalformedError, RejectedError
from edgeagent.ids import CommandId, DeviceId, HubId, Operation, ReadingName, new_epoch
from tests.support.clocks import FIRST_BOOT, NOON
from tests.support.keys import MemoryKey

HUB: Final = HubId("venue-7")
EPOCH: Final = new_epoch(1_800_000_000_000, 7)
LAMP: Final = DeviceId("lamp-1")
POWER: Final = ReadingName("power")
HOUR: Final = timedelta(hours=1)
MINUTE: Final = timedelta(minutes=1)
SECOND: Final = timedelta(seconds=1)
NOW: Final = (BootId(FIRST_BOOT), HOUR)

DESK, NIGHT, STRANGER, OWN = MemoryKey(), MemoryKey(), MemoryKey(), MemoryKey()
CHIEF, DEPUTY = MemoryKey(), MemoryKey()
"""``DESK`` and ``NIGHT`` are operators, ``STRANGER`` is in no policy, ``OWN`` is the hub's, ``CHIEF`` and
``DEPUTY`` approve where a policy says so."""

LOW, MEDIUM = ActionRule(tier=Tier.LOW), ActionRule(tier=Tier.MEDIUM)
OPERATORS: Final = Role(kind=RoleKind.COMMAND, keys=frozenset({"desk", "night"}), actions="*", devices="*")
LOCAL: Final = Role(kind=RoleKind.LOCAL_OPERATOR, hubs=frozenset({HUB}), actions="*", devices="*")


@dataclass(frozen=True, slots=True)
class Lamp:
    """What the gate may ask of a lamp: it can be switched, dimmed while it is on, and toggled.

    Attributes:
        level: the best that it can prove.
    """

    level: Level = Level.VERIFIED

    def check(self, action: ActionName, arguments: Arguments) -> None:
        """It knows three actions, and is not dimmed below 10 %."""
        if action not in {ActionName.POWER, ActionName.BRIGHTNESS, ActionName.TOGGLE}:
            raise RejectedError(f"a lamp has no {action}")
        level = arguments.get("level")
        if isinstance(level, int) and level < 10:
            raise MalformedError("the argument 'level' is not in the lamp's range")

    def best(self, action: ActionName) -> Level:
        """The same for all that it can do."""
        self.check(action, {})
        return self.level

    def unfit(self, action: ActionName, arguments: Arguments, shadow: Shadow) -> str:
        """It is dimmed only while it is on."""
        held = shadow.state.get(POWER)
        is_off = held is not None and held.value is False
        return "power is False, not True" if action is ActionName.BRIGHTNESS and is_off and arguments else ""


def shadow(*, on: bool = True, version: int = 5) -> Shadow:
    """What is known of the lamp."""
    return Shadow(version, etag({POWER: on}), {POWER: StateReading(on, version, 0)})


def wall(*, error: timedelta | None = timedelta(milliseconds=20), ahead: timedelta = timedelta(0)) -> Wall:
    """The time of day, as far as it is known; ``ahead`` of noon."""
    now = NOON + ahead
    if error is None:
        return Wall(best=now, earliest=now, latest=None, source=ClockSource.NONE)
    return Wall(best=now, earliest=now - error, latest=now + error, source=ClockSource.STATEMENT)


def policy(**changes: object) -> Policy:
    """Two operators, and whoever types at the hub, may do everything."""
    fields: dict[str, object] = {
        "version": 1,
        "issued_at": NOON - HOUR,
        "expires_at": NOON + 1000 * HOUR,
        "keys": {"desk": DESK.public.hex(), "night": NIGHT.public.hex()},
        "roles": {"operators": OPERATORS, "local": LOCAL},
        "actions": {
            ActionName.POWER: LOW,
            ActionName.BRIGHTNESS: LOW,
            ActionName.TOGGLE: MEDIUM,
            ActionName.VOLUME: LOW,
        },
        "tiers": {Tier.LOW: TierRule(), Tier.MEDIUM: TierRule()},
    }
    return Policy(**(fields | changes))  # type: ignore[arg-type]  # checked as it is built


def world(**changes: object) -> World:
    """A hub that knows the time, with a lamp that is on, and nothing stored."""
    whole = World(
        hub=HUB,
        epoch=EPOCH,
        policy=policy(),
        operator_key=OWN.public,
        wall=wall(),
        boot=NOW,
        device=Lamp(),
        shadow=shadow(),
    )
    return replace(whole, **changes)  # type: ignore[arg-type]  # checked by the tests that use it


def command(**changes: object) -> Command:
    """Switch the lamp on, within five minutes from noon."""
    fields: dict[str, object] = {
        "id": CommandId("c-1"),
        "hub": HUB,
        "epoch": EPOCH,
        "devices": [LAMP],
        "action": ActionName.POWER,
        "arguments": {"on": True},
        "operation": Operation("c-1"),
        "sequence": 7,
        "issued_at": NOON - SECOND,
        "expires_at": NOON + 5 * MINUTE,
    }
    return Command(**(fields | changes))  # type: ignore[arg-type]  # checked as it is built


def envelope(asked: Command, *signers: Signer) -> bytes:
    """A command as it is sent; signed by ``DESK`` where nobody is named."""
    return sign(encode(asked), COMMAND_TYPE, signers or [DESK])


def asked(*signers: Signer, **changes: object) -> Opened:
    """A command for one device that was verified against every key of these tests."""
    keys = {key.id: key.public for key in (DESK, NIGHT, STRANGER, OWN, CHIEF, DEPUTY)}
    [one] = opened(envelope(command(**changes), *signers), keys)
    return one


def judged(around: World, moment: Moment = Moment.ADMIT, *signers: Signer, **changes: object) -> Verdict:
    """What the gate says to a command in a world."""
    return judge(asked(*signers, **changes), around, moment)
