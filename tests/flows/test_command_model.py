"""Two workers, deaths, broken links and time in any order: what holds of every command, whatever happens.

Never is anything sent under an old fence; no command is lost; each run ends once and for all; no command
is tried more often than its tier lets it, and a one-shot never twice.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from typing_extensions import override

from edgeagent.contracts.actions import CATALOGUE, ActionName, Effect, made_of
from edgeagent.contracts.command import Command
from edgeagent.contracts.event import EventType
from edgeagent.contracts.policy import Tier
from edgeagent.core.lease import SHORTEST as LEASE
from edgeagent.core.lifecycle import FINAL, OPEN, State
from edgeagent.core.work import Claim
from edgeagent.errors import LostRaceError
from edgeagent.ids import CommandId, DeviceId, topic
from edgeagent.ports.crash import CrashPoint
from edgeagent.store import audit, locks
from tests.flows.commanding import Hub
from tests.flows.points import KilledError
from tests.flows.scripted import Television
from tests.flows.signing import (
    INPUT,
    MILLISECOND,
    MINUTE,
    OTHER_TV,
    POWER,
    REBOOT,
    SECOND,
    TOGGLE,
    TV,
    VOLUME,
)

T = TypeVar("T")

PRESENT: Final = ActionName.PRESENT
ATTEMPTS: Final = 3
WORKERS: Final = ("worker-1", "worker-2")
LANES: Final = (Tier.LOW, Tier.MEDIUM)
LONG_AFTER: Final = 20 * MINUTE

devices = st.sampled_from([TV, OTHER_TV])
workers = st.sampled_from(WORKERS)
points = st.sampled_from(
    [
        CrashPoint.STEP_RECORDED,
        CrashPoint.STEP_SENT,
        CrashPoint.STEP_CHECKPOINTED,
        CrashPoint.EFFECT_CONFIRMED,
    ]
)
moods = st.sampled_from(["obeys", "silent", "deaf", "deaf and mute", "refuses"])
lengths = st.sampled_from([MILLISECOND, SECOND, LEASE / 2, LEASE, 2 * LEASE, 2 * MINUTE])
Make = Callable[[Hub, DeviceId], Command]
WISHES: Final[dict[str, Make]] = {
    "on": lambda hub, device: hub.command(POWER, device=device, on=True),
    "off": lambda hub, device: hub.command(POWER, device=device, on=False),
    "louder": lambda hub, device: hub.command(VOLUME, device=device, level=30),
    "toggle": lambda hub, device: hub.command(TOGGLE, device=device),
    "present": lambda hub, device: hub.command(PRESENT, device=device, input="HDMI 2", volume=30),
    "reboot": lambda hub, device: hub.command(REBOOT, device=device),
}
wishes = st.sampled_from(sorted(WISHES))


class CommandsOverTime(RuleBasedStateMachine):
    """One hub, two televisions, two workers."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = TemporaryDirectory()
        self._runner = asyncio.Runner()
        self._hub = Hub(Path(self._folder.name))
        self._televisions: dict[DeviceId, Television] = {}
        self._commands: dict[CommandId, Command] = {}
        self._claims: dict[str, Claim] = {}
        self._ended: dict[CommandId, tuple[object, ...]] = {}
        self._is_up = True

    def _run(self, work: Coroutine[None, None, T]) -> T:
        return self._runner.run(work)

    @override
    def teardown(self) -> None:
        try:
            if self._hub.is_running:
                self._run(self._all_comes_to_an_end())
        finally:
            # A database that is left open keeps the whole process from ending.
            if self._hub.is_running:
                self._run(self._hub.dies())
            self._runner.close()
            self._folder.cleanup()

    @initialize(first=st.lists(st.tuples(wishes, devices), min_size=2, max_size=4))
    def begin(self, first: list[tuple[str, DeviceId]]) -> None:
        """A hub with a policy, two televisions that are online, and something to do."""
        self._run(self._begin())
        for wish, device in first:
            self.a_command_comes(wish, device, by_night=False, copies=1)

    async def _begin(self) -> None:
        await self._hub.starts()
        policy = self._hub.keys.policy()
        await self._hub.has_policy(version=2, actions={**policy.actions, PRESENT: policy.actions[POWER]})
        for device in (TV, OTHER_TV):
            self._televisions[device] = await self._hub.television(device)

    # What happens.

    @rule(wish=wishes, device=devices, by_night=st.booleans(), copies=st.integers(1, 2))
    def a_command_comes(
        self,
        wish: str,
        device: DeviceId,
        by_night: bool,  # noqa: FBT001 - drawn
        copies: int,
    ) -> None:
        """From one of two issuers; the queue may deliver it twice."""
        command = WISHES[wish](self._hub, device)
        key = self._hub.keys.night if by_night else self._hub.keys.desk
        self._run(self._hub.admits(*[self._hub.signed(command, key)] * copies))
        self._commands[command.id] = command

    @rule(worker=workers)
    def a_worker_claims(self, worker: str) -> None:
        """What is due, if anything is."""
        for lane in LANES:
            if worker not in self._claims and self._run(self._hub.has_work(lane)):
                self._claims[worker] = self._run(self._hub.claims(lane, worker))

    @rule(worker=workers, mood=moods)
    def a_worker_works(self, worker: str, mood: str) -> None:
        """Its claim, which may have lapsed long ago; or what is due."""
        self.a_worker_claims(worker)
        claim = self._claims.pop(worker, None)
        if claim is not None:
            self._is_in_the_mood(claim.device, mood)
            self._run(self._work(claim))

    @precondition(lambda self: len(self._claims) == len(WORKERS))
    @rule(mood=moods)
    def both_workers_work(self, mood: str) -> None:
        """At the same time; one of them may be late, for the same command."""
        claims = [self._claims.pop(worker) for worker in WORKERS]
        for claim in claims:
            self._is_in_the_mood(claim.device, mood)

        async def work() -> None:
            await asyncio.gather(*(self._work(claim) for claim in claims))

        self._run(work())

    @rule(worker=workers, point=points, mood=moods)
    def the_process_dies_at_work(self, worker: str, point: CrashPoint, mood: str) -> None:
        """At a named point on the way, if the way leads there."""
        self.a_worker_claims(worker)
        claim = self._claims.pop(worker, None)
        if claim is None:
            return
        self._is_in_the_mood(claim.device, mood)
        self._hub.points.dies_at(point)
        with suppress(KilledError):
            self._run(self._work(claim))
            self._hub.points.dies_at(None)
            return
        self._starts_anew()

    @precondition(lambda self: self._claims)
    @rule()
    def the_process_dies(self) -> None:
        """And another one starts: nobody holds anything any more."""
        self._starts_anew()

    @rule()
    def the_power_fails(self) -> None:
        """Another boot, in which the time is proven a little later."""
        self._claims.clear()
        self._run(self._hub.reboots())
        self._hub.passes(SECOND)
        self._hub.time_is_known()

    @rule(length=lengths)
    def time_passes(self, length: timedelta) -> None:
        """Leases lapse and commands expire."""
        self._hub.passes(length)

    @rule()
    def upkeep_looks(self) -> None:
        """It wakes and ends what it can."""
        self._run(self._hub.now.upkeep.look())

    @rule()
    def the_broker_goes_or_comes(self) -> None:
        """Its connections break, or stand again."""
        if self._is_up:
            self._hub.bus.goes_down()
        else:
            self._hub.bus.comes_up()
        self._is_up = not self._is_up
        self._run(self._hub.settles())

    @precondition(lambda self: self._is_up)
    @rule(device=devices, comes=st.booleans())
    def a_television_comes_or_goes(self, device: DeviceId, comes: bool) -> None:  # noqa: FBT001 - drawn
        """Its last will says so."""
        television = self._televisions[device]
        if comes:
            television.comes_online()
        else:
            television.goes_offline()
        self._run(self._hub.settles())

    # What holds.

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

    # Behind them.

    async def _work(self, claim: Claim) -> None:
        """Work a claim; whatever is sent for it leaves under the last fence of its device."""
        lane = LANES[CATALOGUE[claim.asked.command.action].effect is Effect.ONE_SHOT]
        before = len(self._hub.bus.published)
        fence = await self._hub.now.store.read(partial(locks.fence, device=claim.device))
        with suppress(LostRaceError):
            await self._hub.now.dispatch[lane].work(claim)
        if claim.fence != fence:
            ours = [sent for sent in self._hub.bus.published[before:] if self._is_act_of(claim, sent.topic)]
            others = [each for each in self._claims.values() if each.run == claim.run]
            assert not ours or others, "sent under an old fence"

    @staticmethod
    def _is_act_of(claim: Claim, to: str) -> bool:
        return to in {f"{claim.device}/set/{action}" for action in made_of(claim.asked.command.action)}

    def _is_in_the_mood(self, device: DeviceId, mood: str) -> None:
        television = self._televisions[device]
        television.obeys()
        if mood == "silent":
            television.is_silent()
        if "deaf" in mood:
            television.is_deaf()
        if "mute" in mood:
            television.is_mute()
        if mood == "refuses":
            television.refuses("child lock")

    def _starts_anew(self) -> None:
        self._claims.clear()
        self._run(self._hub.starts_anew())
        self._is_up = True

    async def _all_comes_to_an_end(self) -> None:
        """The broker is there, the televisions obey, and time passes: nothing stays open."""
        if not self._is_up:
            self._hub.bus.comes_up()
        self._hub.time_is_known()
        for television in self._televisions.values():
            television.obeys()
            television.comes_online()
        await self._hub.settles()
        for length in (2 * LEASE, LONG_AFTER):
            self._hub.passes(length)
            for _ in range(ATTEMPTS + 1):
                await self._hub.now.upkeep.look()
                await self._hub.works_all(*LANES)
                self._hub.passes(LEASE)
        states = [State(str(state)) for (state,) in self._hub.rows("SELECT state FROM inbox")]
        assert set(states) <= FINAL
        told = [number for number, _ in await self._hub.records(EventType.RECEIPT)]
        assert len(told) == len(set(told)) == len(states)
        assert self._hub.rows("SELECT count(*) FROM operations WHERE state = 'processing'") == [(0,)]
        assert self._hub.rows("SELECT count(*) FROM locks WHERE token IS NOT NULL") == [(0,)]
        assert await self._hub.now.store.read(audit.verify) is None


@pytest.mark.slow
@pytest.mark.timeout(600)  # to bring a failing history down to its core takes a while
@pytest.mark.requirement("L1", "L2", "L3", "Q4", "I3", "R5", "S1", "S2", "S3")
def test_whatever_happens_to_commands_in_whatever_order_their_promises_hold() -> None:
    run_state_machine_as_test(CommandsOverTime, settings=settings(max_examples=30, stateful_step_count=30))
