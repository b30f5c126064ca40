"""What an isolated worker says of a command's parts, where the hub has seen something else (SPEC W1)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.policy import ActionRule, Level, Tier
from edgeagent.core.lease import SHORTEST as LEASE
from edgeagent.core.lifecycle import State
from edgeagent.core.saga import Mark, Phase
from edgeagent.core.work import Claim, StepName
from edgeagent.errors import LostRaceError, SuspiciousError
from tests.adapters.working import Bench, new_bench
from tests.flows.signing import MINUTE, SECOND

pytestmark = pytest.mark.requirement("W1", "S1")

STEPS = "SELECT name, phase, level FROM steps ORDER BY part"


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """A hub whose policy lets screens present, and its work socket."""
    async with new_bench(tmp_path) as made:
        await made.hub.has_policy(version=2, actions={ActionName.PRESENT: ActionRule(tier=Tier.LOW)})
        yield made


async def begun(bench: Bench) -> Claim:
    """A claim of which nothing was sent."""
    await bench.hub.admits(bench.hub.command(ActionName.PRESENT, input="HDMI 2", volume=30))
    return await bench.desk.claim(Tier.LOW, "worker-1")


def said(phase: Phase, *, part: int = 0, level: Level | None = Level.APPLIED) -> Mark:
    """What a worker says of a part."""
    return Mark(part=part, name="", phase=phase, level=level)


async def test_a_part_whose_effect_nobody_has_seen_is_not_done(bench: Bench) -> None:
    tv = await bench.hub.television()
    tv.is_deaf()
    claim = await begun(bench)
    await bench.desk.publish(claim, StepName.ACT, 0)
    await bench.desk.await_confirmation(claim, level=Level.APPLIED, within=SECOND)
    await bench.hub.settles()
    await bench.hub.breathes()
    before = bench.hub.contents()

    for phase in (Phase.DONE, Phase.FAILED):
        with pytest.raises(SuspiciousError):
            await bench.desk.checkpoint(claim, said(phase))

    assert bench.hub.contents() == before
    assert bench.hub.rows(STEPS) == [("power", "begun", None)]


async def test_a_part_that_the_device_does_not_show_was_not_found_so(bench: Bench) -> None:
    await bench.hub.television()
    claim = await begun(bench)

    with pytest.raises(SuspiciousError):
        await bench.desk.checkpoint(claim, said(Phase.FOUND))

    assert bench.hub.rows(STEPS) == []


async def test_an_effect_is_not_surer_than_it_was_seen_to_be(bench: Bench) -> None:
    await bench.hub.television()
    claim = await begun(bench)
    await bench.desk.publish(claim, StepName.ACT, 0)
    await bench.desk.await_confirmation(claim, level=Level.APPLIED, within=SECOND)

    for level in (Level.VERIFIED, Level.ACCEPTED, None):
        with pytest.raises(SuspiciousError):
            await bench.desk.checkpoint(claim, said(Phase.DONE, level=level))
    await bench.desk.checkpoint(claim, said(Phase.DONE))

    assert bench.hub.rows(STEPS) == [("power", "done", "applied")]


async def test_what_was_heard_of_one_part_proves_nothing_of_another(bench: Bench) -> None:
    tv = await bench.hub.television()
    tv.is_deaf(to="input")
    claim = await begun(bench)
    await bench.desk.publish(claim, StepName.ACT, 0)
    await bench.desk.await_confirmation(claim, level=Level.APPLIED, within=SECOND)
    await bench.desk.checkpoint(claim, said(Phase.DONE))
    await bench.desk.publish(claim, StepName.ACT, 1)
    await bench.desk.await_confirmation(claim, level=Level.APPLIED, within=SECOND)

    with pytest.raises(SuspiciousError):
        await bench.desk.checkpoint(claim, said(Phase.DONE, part=1))

    assert bench.hub.rows(STEPS) == [("power", "done", "applied"), ("input", "begun", None)]


async def test_a_part_that_nobody_has_seen_undone_is_not_undone(bench: Bench) -> None:
    tv = await bench.hub.television()
    claim = await begun(bench)
    await bench.desk.publish(claim, StepName.ACT, 0)
    await bench.desk.await_confirmation(claim, level=Level.APPLIED, within=SECOND)
    await bench.desk.checkpoint(claim, said(Phase.DONE))
    await bench.desk.checkpoint(claim, said(Phase.BARRED, part=1))
    tv.is_deaf()
    await bench.desk.publish(claim, StepName.UNDO, 0)
    await bench.desk.await_confirmation(claim, level=Level.APPLIED, within=SECOND)

    with pytest.raises(SuspiciousError):
        await bench.desk.checkpoint(claim, said(Phase.UNDONE))

    assert tv.shows["power"] is True
    assert bench.hub.rows(STEPS)[0] == ("power", "undoing", "applied")


async def test_a_part_is_sent_once_in_a_claim(bench: Bench) -> None:
    tv = await bench.hub.television()
    tv.is_deaf()
    claim = await begun(bench)
    await bench.desk.publish(claim, StepName.ACT, 0)

    with pytest.raises(SuspiciousError):
        await bench.desk.publish(claim, StepName.ACT, 0)

    assert len(bench.hub.bus.published) == 1


async def test_what_has_expired_in_the_middle_is_sent_no_further_whatever_the_worker_asks(
    bench: Bench,
) -> None:
    tv = await bench.hub.television()
    claim = await begun(bench)
    await bench.desk.publish(claim, StepName.ACT, 0)
    await bench.desk.await_confirmation(claim, level=Level.APPLIED, within=SECOND)
    await bench.desk.checkpoint(claim, said(Phase.DONE))
    for _ in range(14):
        bench.hub.passes(LEASE - SECOND)
        await bench.desk.renew(claim)

    with pytest.raises(LostRaceError):
        await bench.desk.publish(claim, StepName.ACT, 1)
    [row] = bench.hub.rows("SELECT state FROM inbox")
    assert (row, tv.effects) == ((State.RUNNING,), [("power", True)])

    # Let go of, it is taken over, and what was done is undone.
    bench.hub.passes(MINUTE)
    await bench.works()
    assert tv.effects == [("power", True), ("power", False)]
    assert bench.hub.rows("SELECT state FROM inbox") == [(State.ROLLED_BACK,)]
