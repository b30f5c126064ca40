"""Several steps, broken off anywhere: whatever the television does and wherever the process dies.

What leaves is looked at as it leaves, against what is recorded at that instant: a step that is finished is
never sent again, each is recorded before it is sent, and what was done is undone in the reverse order. It
ends, once, and the television is as the end says.
"""

import asyncio
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from edgeagent.clock import ProvenClock
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import Command
from edgeagent.contracts.event import EventType
from edgeagent.contracts.mqtt import Outgoing, PublishResult
from edgeagent.contracts.policy import ActionRule, Tier
from edgeagent.contracts.receipt import Outcome
from edgeagent.ports.crash import CrashPoint
from edgeagent.store import audit
from tests.flows.commanding import Hub
from tests.flows.points import KilledError
from tests.flows.scripted import Television
from tests.flows.signing import INPUT, MINUTE, POWER, VOLUME
from tests.support.fake_bus import FakeBus

PARTS: Final = (POWER, INPUT, VOLUME)
BEFORE: Final = {"power": False, "input": "HDMI 1", "volume": 10}
WISHED: Final = {"power": True, "input": "HDMI 2", "volume": 30}
PAYLOADS: Final = {
    f'{{"value":{word}}}': name
    for values in (("true", '"HDMI 2"', "30"), ("false", '"HDMI 1"', "10"))
    for name, word in zip(PARTS, values, strict=True)
}
DOING: Final = frozenset(list(PAYLOADS)[: len(PARTS)])
LATER: Final = timedelta(seconds=100)
VALID: Final = 9 * MINUTE

# What may stand before a step that is sent, and behind one that is undone.
FINISHED: Final = frozenset({"found", "done"})
TURNED: Final = frozenset({"failed", "barred", "undone", "stuck"})
ENDS: Final = FINISHED | TURNED


class Try(NamedTuple):
    """How it goes for a while.

    Attributes:
        deaf: to which parts the television does not listen.
        silent: it does not show what it does.
        mute: it answers no question.
        refuses: to which part it says no.
        dies: at which point the process does, and at which passing of it.
        is_cut: the power fails with it.
    """

    deaf: frozenset[str]
    silent: bool
    mute: bool
    refuses: str
    dies: tuple[CrashPoint, int] | None
    is_cut: bool


names = st.sampled_from([str(part) for part in PARTS])
deaths = st.tuples(
    st.sampled_from(
        [
            CrashPoint.COMMAND_CLAIMED,
            CrashPoint.STEP_RECORDED,
            CrashPoint.STEP_SENT,
            CrashPoint.STEP_CHECKPOINTED,
            CrashPoint.EFFECT_CONFIRMED,
            CrashPoint.COMMAND_SETTLED,
        ]
    ),
    st.integers(1, 4),
)
tries = st.builds(
    Try,
    st.frozensets(names, max_size=2),
    st.booleans(),
    st.sampled_from([False, False, True]),
    st.sampled_from(["", "", "", "", "input", "volume"]),
    st.none() | deaths | deaths | deaths,
    st.booleans(),
)


class WatchedBus(FakeBus):
    """A broker that compares what leaves with what is recorded at that instant.

    Attributes:
        wrong: what did not fit.
    """

    def __init__(self, hub: Hub) -> None:
        super().__init__(ProvenClock(hub.readings))
        self._hub = hub
        self.wrong: list[str] = []

    @override
    async def publish(self, message: Outgoing) -> PublishResult:
        """Look at what changes the television."""
        if "/set/" in message.topic:
            self._look(message.payload.decode())
        return await super().publish(message)

    def _look(self, payload: str) -> None:
        part = PARTS.index(PAYLOADS[payload])
        found = self._hub.rows("SELECT part, phase FROM steps")
        phases = {int(str(number)): str(phase) for number, phase in found}
        earlier = {phase for number, phase in phases.items() if number < part}
        later = {phase for number, phase in phases.items() if number > part}
        if payload in DOING:
            fits = phases.get(part) == "begun" and len(earlier - FINISHED) == 0 and not later
        else:
            fits = phases.get(part) == "undoing" and later <= TURNED | {"found"} and earlier <= FINISHED
        if not fits:
            self.wrong.append(f"{payload} leaves while {phases} is recorded")


async def is_at_work(hub: Hub, television: Television, each: Try) -> None:
    """Let it be worked for a while, as far as it goes."""
    television.obeys()
    for part in each.deaf:
        television.is_deaf(to=part)
    if each.silent:
        television.is_silent()
    if each.mute:
        television.is_mute()
    if each.refuses:
        television.refuses("no", of=each.refuses)
    await hub.now.upkeep.look()
    point, nth = each.dies or (None, 1)
    hub.points.dies_at(point, nth=nth)
    if await hub.has_work():
        try:
            await hub.works()
        except KilledError:
            if each.is_cut:
                await hub.reboots()
                hub.time_is_known()
            else:
                await hub.starts_anew()
            return
    hub.points.dies_at(None)


async def is_played(folder: Path, goes: list[Try]) -> None:
    """Play it to its end."""
    hub = Hub(folder)
    bus = hub.bus = WatchedBus(hub)
    await hub.starts()
    try:
        rule = ActionRule(tier=Tier.LOW)
        await hub.has_policy(actions=dict.fromkeys((ActionName.PRESENT, *PARTS), rule))
        television = await hub.television()
        command = hub.command(ActionName.PRESENT, valid_for=VALID, input="HDMI 2", volume=30)
        await hub.admits(command)
        for each in goes:
            await is_at_work(hub, television, each)
            hub.passes(LATER)
            assert bus.wrong == []
        await is_over(hub, television, command)
        assert bus.wrong == []
    finally:
        with suppress(AssertionError):
            await hub.dies()


async def is_over(hub: Hub, television: Television, command: Command) -> None:
    """The television obeys from now on, and it ends, once, in what the record says."""
    television.obeys()
    television.reports()
    await hub.settles()
    for _ in range(12):
        await hub.now.upkeep.look()
        await hub.works_all()
        hub.passes(LATER)
    receipt = await hub.ended(command)
    found = hub.rows("SELECT name, phase FROM steps ORDER BY part")
    phases = {str(name): str(phase) for name, phase in found}
    assert set(phases.values()) <= ENDS
    assert len(await hub.records(EventType.RECEIPT)) == 1
    assert hub.rows("SELECT count(*) FROM locks WHERE token IS NOT NULL") == [(0,)]
    assert await hub.now.store.read(audit.verify) is None
    for name, phase in phases.items():
        if phase in FINISHED:
            assert television.shows[name] == WISHED[name]
        if phase in {"failed", "barred", "undone"}:
            assert television.shows[name] == BEFORE[name]
    if receipt.outcome is Outcome.SUCCEEDED:
        assert television.shows == WISHED
    elif receipt.outcome is Outcome.ROLLBACK_FAILED:
        assert "stuck" in phases.values()
    else:
        assert receipt.outcome in {Outcome.ROLLED_BACK, Outcome.FAILED, Outcome.REFUSED, Outcome.EXPIRED}
        assert television.shows == BEFORE


@pytest.mark.slow
@pytest.mark.requirement("S1", "S2", "R5")
def test_wherever_it_is_broken_off_no_finished_step_is_repeated_and_the_end_is_known() -> None:
    @settings(max_examples=25, deadline=None)
    @given(st.lists(tries, min_size=2, max_size=5))
    def holds(goes: list[Try]) -> None:
        with TemporaryDirectory() as folder:
            asyncio.run(is_played(Path(folder), goes))

    holds()
