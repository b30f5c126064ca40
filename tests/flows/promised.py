"""What holds of every command, whatever happens: the promises that are checked after each step of a machine.

They are read from the database, as another program sees it, and at the broker, at the instant at which
something leaves.
"""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

from hypothesis.stateful import RuleBasedStateMachine, invariant
from typing_extensions import override

from edgeagent.clock import ProvenClock
from edgeagent.contracts.actions import CATALOGUE, ActionName, Effect, made_of
from edgeagent.contracts.command import Command
from edgeagent.contracts.mqtt import Outgoing, PublishResult
from edgeagent.core.lifecycle import FINAL, OPEN
from edgeagent.core.work import Claim
from edgeagent.ids import CommandId, DeviceId, topic
from edgeagent.store import locks
from edgeagent.store.inbox_row import Now
from tests.flows.commanding import Hub
from tests.flows.signing import INPUT, OTHER_TV, POWER, REBOOT, TOGGLE, TV, VOLUME
from tests.support.fake_bus import FakeBus

T = TypeVar("T")

PRESENT: Final = ActionName.PRESENT
ATTEMPTS: Final = 3
"""How often a tier of these tests lets an absolute command be tried."""
WORKING: Final[ContextVar[Claim | None]] = ContextVar("WORKING", default=None)
"""Whose work it is that something leaves for."""


class WatchedBus(FakeBus):
    """A broker that looks, whenever something leaves that changes a device, whether that is right.

    Attributes:
        wrong: what was not.
    """

    def __init__(self, hub: Hub) -> None:
        super().__init__(ProvenClock(hub.readings))
        self._hub = hub
        self.wrong: list[str] = []

    @override
    async def publish(self, message: Outgoing) -> PublishResult:
        """Note what leaves for no claim, or for one whose lock is not live at this instant."""
        if "/set/" in message.topic:
            claim = WORKING.get()
            if claim is None:
                self.wrong.append(f"{message.topic} leaves for nobody")
            elif not message.topic.startswith(f"{claim.device}/"):
                self.wrong.append(f"{message.topic} leaves for a command of {claim.device}")
            elif claim.token != self._live(claim.device, self._hub.lease_time()):
                self.wrong.append(f"{message.topic} leaves under no live lock, fence {claim.fence}")
        return await super().publish(message)

    def _live(self, device: DeviceId, now: Now) -> object:
        """The token of the live lock of a device, as another program reads it; None if there is none."""
        for found, token, until, boot, incarnation in self._hub.rows(
            "SELECT device, token, lease_until, boot, incarnation FROM locks WHERE token IS NOT NULL"
        ):
            is_live = (boot, incarnation) == (now.boot, now.incarnation) and int(
                str(until)
            ) > now.milliseconds
            if found == device and is_live:
                return token
        return None


class Promised(RuleBasedStateMachine):
    """One hub with two televisions; what happens there, a machine on top of this says."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = TemporaryDirectory()
        self._runner = asyncio.Runner()
        self._hub = Hub(Path(self._folder.name))
        self._bus = self._hub.bus = WatchedBus(self._hub)
        self._commands: dict[CommandId, Command] = {}
        self._ended: dict[CommandId, tuple[object, ...]] = {}
        self._fences: dict[object, int] = {}
        self._left_when_stopped: int | None = None

    def _run(self, work: Coroutine[None, None, T]) -> T:
        return self._runner.run(work)

    @property
    def _left(self) -> int:
        """How many messages have left that change a device."""
        return sum("/set/" in message.topic for message in self._bus.published)

    @invariant()
    def no_command_is_lost(self) -> None:
        """Every one that came has a row, open or final."""
        found = self._hub.rows("SELECT command, state FROM inbox") if self._commands else []
        assert {command for command, _ in found} == set(self._commands)
        assert {state for _, state in found} <= {str(state) for state in OPEN | FINAL}

    @invariant()
    def what_has_ended_stays_as_it_has_ended(self) -> None:
        """With one receipt, under one number."""
        if not self._commands:
            return
        ended = {
            command: tuple(rest)
            for command, *rest in self._hub.rows(
                "SELECT i.command, i.state, i.attempts, r.number, r.data"
                "  FROM inbox i LEFT JOIN receipts r ON r.run = i.run"
                " WHERE i.state NOT IN ('held', 'queued', 'waiting', 'running')"
            )
        }
        assert all(number is not None for _, _, number, _ in ended.values())
        for command, before in self._ended.items():
            assert ended[command] == before
        self._ended = {CommandId(str(command)): rest for command, rest in ended.items()}

    @invariant()
    def nothing_is_tried_too_often(self) -> None:
        """An absolute three times, a one-shot once; and each message that left was counted before."""
        if not self._commands:
            return
        tried: Counter[tuple[DeviceId, str]] = Counter()
        for name, attempts in self._hub.rows("SELECT command, attempts FROM inbox"):
            command = self._commands[CommandId(str(name))]
            most = ATTEMPTS if CATALOGUE[command.action].effect is Effect.ABSOLUTE else 1
            # Each part may be done and undone.
            most *= 2 * len(CATALOGUE[command.action].parts) or 1
            assert int(str(attempts)) <= most, command
            for action in made_of(command.action):
                tried[command.devices[0], action] += int(str(attempts))
        sent = Counter(message.topic for message in self._hub.bus.published)
        for device in (TV, OTHER_TV):
            for action in (POWER, VOLUME, INPUT, TOGGLE, REBOOT):
                assert sent[topic(f"{device}/set/{action}")] <= tried[device, action]

    @invariant()
    def what_is_made_of_parts_ends_as_its_parts_have(self) -> None:
        """All of them done, or none of them but those that are told to be stuck; at most one is under way."""
        if not self._commands:
            return
        parts: dict[object, list[str]] = {}
        state_of: dict[object, str] = {}
        for run, state, phase in self._hub.rows(
            "SELECT i.run, i.state, s.phase FROM steps s JOIN inbox i ON i.run = s.run ORDER BY s.run, s.part"
        ):
            state_of[run] = str(state)
            parts.setdefault(run, []).append(str(phase))
        for run, phases in parts.items():
            assert sum(phase in {"begun", "undoing"} for phase in phases) <= 1
            state = state_of[run]
            if state == "succeeded":
                assert set(phases) <= {"found", "done"}
                assert len(phases) == len(CATALOGUE[PRESENT].parts)
            if state in {"rolled_back", "failed", "refused", "expired"}:
                assert not {"begun", "done", "unsure", "undoing", "stuck"} & set(phases)
            if state == "rollback_failed":
                assert "stuck" in phases

    @invariant()
    def each_device_is_worked_by_one_at_most(self) -> None:
        """The running commands of a device are one, or were left by somebody who is gone."""
        if not self._commands:
            return
        now = self._hub.lease_time()
        held = self._run(self._hub.now.store.read(partial(locks.held, now=now)))
        running = self._hub.rows("SELECT run, device FROM inbox WHERE state = 'running'")
        assert len({lock.device for lock in held}) == len(held)
        assert {(lock.run, lock.device) for lock in held} <= set(running)
        parents = Counter(lock.parent for lock in held if lock.parent is not None)
        assert all(number == 1 for number in parents.values()), "two at work behind one bridge"

    @invariant()
    def whatever_leaves_leaves_under_the_live_lock_of_its_device(self) -> None:
        """At the very instant at which it leaves; and while all is stopped nothing does."""
        assert self._bus.wrong == []
        if self._left_when_stopped is not None:
            assert self._left == self._left_when_stopped

    @invariant()
    def fences_only_grow(self) -> None:
        """Through every start and boot."""
        if not self._commands:
            return
        fences = {
            device: int(str(fence)) for device, fence in self._hub.rows("SELECT device, fence FROM locks")
        }
        assert all(fences[device] >= before for device, before in self._fences.items())
        self._fences = fences
