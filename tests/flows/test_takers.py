"""Who waits for work: one asks for all, nobody is forgotten, and nobody asks for nothing."""

import asyncio
import dataclasses
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.reports.locks import ReleaseRequest
from edgeagent.core.lifecycle import State
from edgeagent.core.work import Claim, Ending, Later
from edgeagent.flows.bells import Bell
from edgeagent.flows.claims import Found, Taker
from edgeagent.flows.lockdesk import Locks
from edgeagent.flows.takers import Answer, Takers
from edgeagent.store.inbox_row import Row
from edgeagent.store.memory import Memory
from tests.flows.commanding import Hub, new_hub
from tests.flows.signing import MILLISECOND, OTHER_TV, POWER, TOGGLE, TV
from tests.store.commands import new
from tests.support.waiting import DEADLINE, eventually

REFUSED = Ending(outcome=Outcome.REFUSED, reason=Reason.STOPPED)
MOMENT: Final = 20 * MILLISECOND
NOTHING: Final = Memory(
    sha256=None,
    state=None,
    signers=frozenset(),
    actor="",
    sequence_of=None,
    superseded_by=None,
    forgotten=None,
    operation=None,
    stops=frozenset(),
    approvals=(),
    breaker=None,
)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub with two televisions."""
    async with new_hub(tmp_path) as made:
        await made.television()
        await made.television(OTHER_TV)
        yield made


async def waiting(hub: Hub, *holders: str, lane: Tier = Tier.LOW) -> "list[asyncio.Task[Claim]]":
    """Workers that have looked, found nothing, and wait."""
    commits = hub.now.store.commits
    tasks = [asyncio.create_task(hub.now.desk.claim(lane, holder)) for holder in holders]
    await eventually(lambda: hub.now.store.commits > commits)
    await hub.breathes()
    assert not any(task.done() for task in tasks)
    return tasks


async def ended(tasks: "Sequence[asyncio.Task[Claim]]") -> None:
    """End those that wait."""
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def claims_of(tasks: "Sequence[asyncio.Task[Claim]]") -> list[Claim]:
    """What they have got."""
    async with asyncio.timeout(DEADLINE):
        return [await task for task in tasks]


@pytest.mark.requirement("Q5", "Q8")
async def test_all_who_wait_are_served_by_one_transaction(hub: Hub) -> None:
    # Given two that wait, and the commits until then.
    tasks = await waiting(hub, "worker-1", "worker-2")
    before = hub.now.store.commits

    # When two commands come together.
    await hub.admits(hub.command(POWER), hub.command(POWER, device=OTHER_TV))
    claims = await claims_of(tasks)

    # Then each has one, under a token and name of its own, by one commit more than their admission's.
    assert {claim.device for claim in claims} == {TV, OTHER_TV}
    assert claims[0].token != claims[1].token
    assert hub.rows("SELECT DISTINCT holder FROM locks ORDER BY holder") == [("worker-1",), ("worker-2",)]
    assert hub.now.store.commits == before + 2


@pytest.mark.requirement("Q5", "L3")
async def test_who_has_asked_last_is_served_first_since_who_waits_for_long_may_have_been_stopped(
    hub: Hub,
) -> None:
    # Given one that has waited for long, and one that has just come.
    first, second = await waiting(hub, "stopped", "awake")

    # When there is one command.
    await hub.admits(hub.command(POWER))

    # Then the one that has just come has it, and the other waits on.
    [claim] = await claims_of([second])
    assert claim.device == TV
    assert hub.rows("SELECT holder FROM locks WHERE token IS NOT NULL") == [("awake",)]
    assert not first.done()
    await ended([first])


@pytest.mark.requirement("Q8")
async def test_whoever_asks_for_all_may_go_and_another_asks(hub: Hub) -> None:
    # Given two that wait, of which the first that came asks.
    first, second = await waiting(hub, "worker-1", "worker-2")

    # When that one is gone, and then a command comes.
    await ended([first])
    await hub.admits(hub.command(POWER))

    # Then the other has it.
    [claim] = await claims_of([second])
    assert claim.device == TV


@pytest.mark.requirement("Q8", "L3")
async def test_what_was_asked_for_all_reaches_the_others_when_whoever_asked_is_gone(hub: Hub) -> None:
    # Given two commands, and a database that is busy.
    await hub.admits(hub.command(POWER), hub.command(POWER, device=OTHER_TV))
    free = threading.Event()
    busy = asyncio.create_task(hub.now.store.write(lambda _: free.wait(DEADLINE)))
    await asyncio.sleep(0)

    # When two ask, and the one that does it for both is gone before there is an answer.
    first, second = (asyncio.create_task(hub.now.desk.claim(Tier.LOW, f"worker-{n}")) for n in (1, 2))
    for _ in range(5):
        await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    free.set()
    await busy

    # Then the other has the command that was claimed for it, nothing was claimed twice, and what was claimed
    # for the one that is gone is queued again: nobody has lost it, since nobody had begun it.
    [claim] = await claims_of([second])
    assert [(claim.device, "worker-2")] == hub.rows(
        "SELECT device, holder FROM locks WHERE holder = 'worker-2'"
    )
    await eventually(lambda: hub.rows("SELECT count(*) FROM inbox WHERE state = 'running'") == [(1,)])
    again = await hub.claims()
    assert (again.device != claim.device, again.force_refresh) == (True, False)
    assert hub.rows("SELECT losses, attempts FROM inbox") == [(0, 0), (0, 0)]


@pytest.mark.requirement("Q8")
async def test_all_who_wait_may_go_at_once_and_whoever_comes_later_asks(hub: Hub) -> None:
    tasks = await waiting(hub, "worker-1", "worker-2", "worker-3")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    await hub.admits(hub.command(POWER))

    assert (await hub.claims(holder="worker-4")).device == TV


@pytest.mark.requirement("Q8")
async def test_a_device_that_is_free_again_wakes_the_other_lane_that_waits_for_it(
    hub: Hub,
) -> None:
    # Given a device that is worked, and a command of another lane for it, for which somebody waits.
    await hub.admits(hub.command(POWER))
    claim = await hub.claims()
    await hub.admits(hub.command(TOGGLE))
    tasks = await waiting(hub, "worker-2", lane=Tier.MEDIUM)

    # When it is worked no more.
    await hub.now.desk.finish(claim, REFUSED)

    # Then that one has it.
    [other] = await claims_of(tasks)
    assert other.device == TV


@pytest.mark.requirement("Q8")
async def test_a_device_that_is_free_again_wakes_nobody_for_whom_nothing_was_left(hub: Hub) -> None:
    # Given a device that is worked, and somebody who waits in a lane where nothing is queued.
    await hub.admits(hub.command(POWER))
    claim = await hub.claims()
    tasks = await waiting(hub, "worker-2", lane=Tier.MEDIUM)
    before = hub.now.store.commits
    await hub.breathes()
    breath = hub.now.store.commits - before

    # When the device is free again.
    await hub.now.desk.finish(claim, REFUSED)
    await hub.breathes()

    # Then nobody has asked the database again: there is the final commit, and what a breath takes.
    assert hub.now.store.commits == before + 2 * breath + 1
    await ended(tasks)


@pytest.mark.requirement("Q8", "E3")
async def test_whoever_waits_is_told_when_what_another_has_given_back_is_due(hub: Hub) -> None:
    # Given a command that is worked, and another worker of its lane who has nothing to do.
    await hub.admits(hub.command(POWER))
    claim = await hub.claims()
    tasks = await waiting(hub, "worker-2")

    # When it is given back, to be tried again in a moment.
    await hub.now.desk.postpone(claim, Later(reason=Reason.RETRYING, after=MOMENT))
    hub.passes(MOMENT)

    # Then that worker has it when its time has come, and not when the first lease would have been over.
    [again] = await claims_of(tasks)
    assert again.run == claim.run


@pytest.mark.requirement("L3")
async def test_what_a_holder_that_is_gone_has_left_goes_to_whoever_waits_at_once(hub: Hub) -> None:
    await hub.admits(hub.command(POWER))
    claim = await hub.claims()
    tasks = await waiting(hub, "worker-2")

    await hub.now.desk.abandon(claim)

    [again] = await claims_of(tasks)
    assert (again.run, again.fence, again.force_refresh) == (claim.run, claim.fence + 1, True)


@pytest.mark.requirement("L3", "Q5")
async def test_what_a_person_has_taken_from_its_holder_goes_to_whoever_waits_at_once(hub: Hub) -> None:
    await hub.admits(hub.command(POWER))
    claim = await hub.claims()
    tasks = await waiting(hub, "worker-2")

    locks = Locks(hub.now.store, hub.now.desk, hub.now.around)
    await locks.release(TV, ReleaseRequest(reason="it hangs"), "uid 0 (root)")

    [again] = await claims_of(tasks)
    assert (again.run, again.fence, again.force_refresh) == (claim.run, claim.fence + 1, True)


# By themselves: who comes when another's question is answered, or long after it.


class Lane:
    """Answers questions when it is told to."""

    def __init__(self) -> None:
        self.bell = Bell()
        self.takers = Takers(self.bell, self._ask, self._take_back)
        self.asked: list[asyncio.Future[Answer]] = []
        self.taken_back: list[tuple[str, int]] = []

    def takes(self, holder: str) -> "asyncio.Task[tuple[Taker, Found]]":
        """Somebody waits for a command."""
        return asyncio.create_task(self.takers.take(holder))

    async def _ask(self, _takers: Sequence[Taker]) -> Answer:
        self.asked.append(asyncio.get_running_loop().create_future())
        return await self.asked[-1]

    async def _take_back(self, taker: Taker, found: Found) -> None:
        self.taken_back.append((taker.holder, found.row.run))


def found(run: int) -> Found:
    """A command that was claimed."""
    plain = new()
    fields = {field.name: getattr(plain, field.name) for field in dataclasses.fields(plain)}
    row = Row(
        **fields,
        run=run,
        ordinal=1,
        state=State.QUEUED,
        reason=None,
        available=None,
        attempts=0,
        sent=False,
        force_refresh=False,
        last_error=None,
    )
    return Found(row, 1, NOTHING)


@pytest.mark.requirement("Q8")
async def test_whoever_comes_just_when_one_that_is_gone_is_answered_asks_anew() -> None:
    # Given one that has asked, and is gone before it is answered.
    lane = Lane()
    gone = lane.takes("gone")
    await eventually(lambda: bool(lane.asked))
    gone.cancel()
    await asyncio.wait([gone])

    # When the answer comes, and in the same turn of the loop somebody else.
    lane.asked[0].set_result(Answer([found(1)]))
    task = lane.takes("next")

    # Then that one asks for itself, and does not wait for what is over: that would be for ever.
    await eventually(lambda: len(lane.asked) == 2)
    lane.asked[1].set_result(Answer([found(2)]))
    taker, command = await task
    assert (taker.holder, command.row.run) == ("next", 2)
    assert lane.taken_back == [("gone", 1)]


@pytest.mark.requirement("Q8", "L3")
async def test_what_was_claimed_for_somebody_who_goes_before_hearing_of_it_is_given_back() -> None:
    # Given two that wait, of whom one asks for both.
    lane = Lane()
    stays, goes = lane.takes("stays"), lane.takes("goes")
    await eventually(lambda: bool(lane.asked))

    # When both have something, and one goes in the turn of the loop in which it would have heard of it.
    lane.asked[0].set_result(Answer([found(1), found(2)]))
    await asyncio.sleep(0)
    assert not goes.done()
    goes.cancel()

    # Then the other has its own, and that one is nobody's again.
    taker, command = await stays
    assert (taker.holder, command.row.run) == ("stays", 2)
    await eventually(lambda: lane.taken_back == [("goes", 1)])


@pytest.mark.requirement("Q8", "L3")
async def test_what_was_claimed_for_somebody_who_goes_while_it_is_put_together_is_given_back() -> None:
    lane, begun = Lane(), asyncio.Event()

    async def puts_together(_found: Found, _taker: Taker) -> None:
        begun.set()
        await asyncio.Event().wait()

    goes = asyncio.create_task(lane.takers.lend("goes", puts_together))
    await eventually(lambda: bool(lane.asked))
    lane.asked[0].set_result(Answer([found(1)]))
    await begun.wait()

    goes.cancel()

    await asyncio.wait([goes])
    await eventually(lambda: lane.taken_back == [("goes", 1)])


@pytest.mark.requirement("Q8")
async def test_what_somebody_was_told_who_is_gone_holds_up_nobody_who_comes_later() -> None:
    # Given one that is told when there will be work, and was gone by then.
    lane = Lane()
    gone = lane.takes("gone")
    await eventually(lambda: bool(lane.asked))
    gone.cancel()
    await asyncio.wait([gone])
    lane.asked[0].set_result(Answer(within=timedelta(hours=1)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    # When somebody comes later.
    task = lane.takes("next")

    # Then that one asks at once.
    await eventually(lambda: len(lane.asked) == 2)
    lane.asked[1].set_result(Answer([found(1)]))
    assert (await task)[1].row.run == 1
