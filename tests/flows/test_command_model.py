"""Two workers, deaths, broken links and time in any order: what holds of every command, whatever happens.

One of them works inside the agent, the other one beside it and is not believed. Whatever leaves for a device
leaves under its live lock; no command is lost; each run ends once and for all; no command is tried more
often than its tier lets it, and a one-shot never twice; what was only claimed has not been tried; fences
only grow; and while everything is stopped nothing leaves.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from typing_extensions import override

from edgeagent.contracts.actions import CATALOGUE, Effect
from edgeagent.contracts.command import Command
from edgeagent.contracts.event import EventType
from edgeagent.contracts.order import Verb
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reports.switch import SwitchRequest
from edgeagent.core.lease import SHORTEST as LEASE
from edgeagent.core.lifecycle import FINAL, State
from edgeagent.core.work import Claim
from edgeagent.errors import LostRaceError
from edgeagent.flows.dispatch import Dispatch
from edgeagent.flows.wary import WaryDesk
from edgeagent.ids import DeviceId
from edgeagent.ports.crash import CrashPoint
from edgeagent.store import audit
from tests.flows.commanding import Hub
from tests.flows.points import KilledError
from tests.flows.promised import ATTEMPTS, PRESENT, WORKING, Promised
from tests.flows.scripted import Television
from tests.flows.signing import (
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

INSIDE, BESIDE = "worker-1", "worker-2"
WORKERS: Final = (INSIDE, BESIDE)
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
naps = st.sampled_from(
    [CrashPoint.COMMAND_CLAIMED, CrashPoint.STEP_RECORDED, CrashPoint.STEP_SENT, CrashPoint.STEP_CHECKPOINTED]
)
leaps = st.sampled_from([timedelta(days=days) for days in (-400, -1, 1, 400)])
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


class CommandsOverTime(Promised):
    """One hub, two televisions, two workers."""

    def __init__(self) -> None:
        super().__init__()
        self._beside: WaryDesk | None = None
        self._televisions: dict[DeviceId, Television] = {}
        self._claims: dict[str, Claim] = {}
        self._is_up = True

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

    @initialize(first=st.lists(st.tuples(wishes, devices), min_size=2, max_size=4), is_shared=st.booleans())
    def begin(self, first: list[tuple[str, DeviceId]], is_shared: bool) -> None:  # noqa: FBT001 - drawn
        """A hub with a policy, two televisions that are online, behind one bridge or not, and work."""
        self._run(self._begin({"bridge": "attic"} if is_shared else {}))
        for wish, device in first:
            self.a_command_comes(wish, device, by_night=False, copies=1)

    async def _begin(self, parameters: dict[str, str]) -> None:
        await self._hub.starts()
        self._beside = self._desk_beside()
        policy = self._hub.keys.policy()
        await self._hub.has_policy(version=2, actions={**policy.actions, PRESENT: policy.actions[POWER]})
        for device in (TV, OTHER_TV):
            self._televisions[device] = await self._hub.television(device, **parameters)

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
                self._claims[worker] = self._run(self._claim(lane, worker))

    @rule(worker=workers, mood=moods)
    def a_worker_works(self, worker: str, mood: str) -> None:
        """Its claim, which may have lapsed long ago; or what is due."""
        self.a_worker_claims(worker)
        claim = self._claims.pop(worker, None)
        if claim is not None:
            self._is_in_the_mood(claim.device, mood)
            self._run(self._work(claim, worker))

    @rule(worker=workers, point=naps, length=lengths, mood=moods)
    def a_worker_sleeps_at_work(self, worker: str, point: CrashPoint, length: timedelta, mood: str) -> None:
        """For so long that its lease may be over when it wakes."""
        self._hub.points.happens_at(point, partial(self._hub.passes, length))
        self.a_worker_works(worker, mood)
        self._hub.points.happens_at(point, lambda: None)

    @precondition(lambda self: BESIDE in self._claims)
    @rule()
    def the_worker_beside_dies(self) -> None:
        """Its connection ends, and what it had is somebody else's at once."""
        claim = self._claims.pop(BESIDE)
        desk, before = self._beside, self._attempts()
        assert desk is not None
        with suppress(LostRaceError):
            self._run(desk.abandon(claim))
        self._run(self._hub.now.upkeep.look())
        assert self._attempts() == before

    @precondition(lambda self: len(self._claims) == len(WORKERS))
    @rule(mood=moods)
    def both_workers_work(self, mood: str) -> None:
        """At the same time; one of them may be late, for the same command."""
        claims = {worker: self._claims.pop(worker) for worker in WORKERS}
        for claim in claims.values():
            self._is_in_the_mood(claim.device, mood)

        async def work() -> None:
            await asyncio.gather(*(self._work(claim, worker) for worker, claim in claims.items()))

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
            self._run(self._work(claim, worker))
            self._hub.points.dies_at(None)
            return
        self._starts_anew()

    @precondition(lambda self: self._claims)
    @rule()
    def the_process_dies(self) -> None:
        """And another one starts: nobody holds anything any more, and what was only claimed was not tried."""
        before = self._attempts()
        self._starts_anew()
        assert self._attempts() == before

    @rule(lane=st.sampled_from(LANES))
    def the_process_dies_between_a_claim_and_its_start(self, lane: Tier) -> None:
        """The command is free again, and no attempt is spent."""
        if not self._run(self._hub.has_work(lane)):
            return
        before = self._attempts()
        self._hub.points.dies_at(CrashPoint.COMMAND_CLAIMED)
        with suppress(KilledError):
            self._run(self._hub.claims(lane))
            raise AssertionError
        self._starts_anew()
        self._run(self._hub.now.upkeep.look())
        assert self._attempts() == before

    @rule(leap=leaps)
    def somebody_sets_the_clock(self, leap: timedelta) -> None:
        """Far forward or back: neither a lease nor a deadline goes by that clock."""
        self._hub.clock_is_set(leap)

    @rule()
    def the_switch_is_thrown(self) -> None:
        """Everything is stopped, or goes on."""
        is_stopped = self._left_when_stopped is not None
        verb = Verb.RESUME if is_stopped else Verb.STOP
        self._run(self._hub.now.switch.throw(SwitchRequest(kind="all", why="a drill"), verb, "uid:0 root"))
        self._left_when_stopped = None if is_stopped else self._left

    @rule()
    def the_power_fails(self) -> None:
        """Another boot, in which the time is proven a little later."""
        self._claims.clear()
        self._run(self._hub.reboots())
        self._beside = self._desk_beside()
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

    # Behind them.

    async def _claim(self, lane: Tier, worker: str) -> Claim:
        desk = self._hub.now.desk if worker == INSIDE else self._beside
        assert desk is not None
        return await desk.claim(lane, worker)

    async def _work(self, claim: Claim, worker: str) -> None:
        """Work a claim, as its worker does; in a task of its own, so that it is known who sends what."""
        lane = LANES[CATALOGUE[claim.asked.command.action].effect is Effect.ONE_SHOT]
        dispatch = self._hub.now.dispatch[lane]
        if worker == BESIDE:
            around, desk = self._hub.now.around, self._beside
            assert desk is not None
            dispatch = Dispatch(desk, lane, around.clock, around.chance, around.metrics)

        async def work() -> None:
            WORKING.set(claim)
            with suppress(LostRaceError):
                await dispatch.work(claim)

        await asyncio.create_task(work())

    def _desk_beside(self) -> WaryDesk:
        """What stands behind the work socket of the process that runs."""
        now = self._hub.now
        return WaryDesk(now.desk, frozenset(LANES), self._hub.clock, now.around.metrics)

    def _attempts(self) -> list[tuple[object, ...]]:
        """How often each run was tried."""
        return self._hub.rows("SELECT run, attempts FROM inbox ORDER BY run")

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
        self._beside = self._desk_beside()
        self._is_up = True

    async def _all_comes_to_an_end(self) -> None:
        """The broker is there, the televisions obey, and time passes: nothing stays open."""
        if not self._is_up:
            self._hub.bus.comes_up()
        self._hub.time_is_known()
        if self._left_when_stopped is not None:
            await self._hub.now.switch.throw(SwitchRequest(kind="all", why="over"), Verb.RESUME, "uid:0 root")
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
@pytest.mark.requirement("L1", "L2", "L3", "Q4", "I3", "R5", "S1", "S2", "S3")
def test_whatever_happens_to_commands_in_whatever_order_their_promises_hold() -> None:
    run_state_machine_as_test(CommandsOverTime, settings=settings(max_examples=25, stateful_step_count=25))
