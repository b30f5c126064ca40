"""The work socket against whoever is at the other end: gone, stopped, confused, or lying."""

import asyncio
import json
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from edgeagent.adapters.work_socket.client import WorkClient
from edgeagent.adapters.work_socket.presence import Presence
from edgeagent.adapters.work_socket.server import MOST_CONNECTIONS, Pace, WorkSocket
from edgeagent.contracts.door import encode
from edgeagent.contracts.policy import Level, Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.work import (
    AwaitRequest,
    ClaimRequest,
    FinishRequest,
    Grip,
    Held,
    PostponeRequest,
    PublishRequest,
    ReadRequest,
    RenewRequest,
    WorkRequest,
)
from edgeagent.core.lease import SHORTEST as LEASE
from edgeagent.core.lifecycle import State
from edgeagent.core.work import StepName
from edgeagent.errors import ConfigurationError, TransientError
from edgeagent.flows.dispatch import Dispatch
from edgeagent.flows.wary import WaryDesk
from edgeagent.ports.crash import CrashPoint
from tests.adapters.working import Bench, Stranger, new_bench
from tests.flows.scripted import Television
from tests.flows.signing import OTHER_TV, POWER, REBOOT, SECOND, VOLUME
from tests.support.clocks import LoopTime, ManualClock
from tests.support.stores import full_disk
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("W1")

CLAIM: Final = encode(WorkRequest(request=ClaimRequest(lane=Tier.LOW, holder="low-1")))


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """A hub with a work socket."""
    async with new_bench(tmp_path) as made:
        yield made


@pytest.fixture
async def tv(bench: Bench) -> Television:
    """Its television, off."""
    return await bench.hub.television()


@dataclass(frozen=True, slots=True)
class Liar:
    """Somebody who holds a claim, and does with it what it likes."""

    line: Stranger
    grip: Grip

    async def asks(self, request: Held) -> str:
        """Ask, and be answered.

        Returns:
            The kind of failure; empty for none.
        """
        answer = await self.line.asks(WorkRequest(request=request))
        return "" if answer.failure is None else answer.failure.kind


async def liar_of(bench: Bench, lane: Tier = Tier.LOW) -> Liar:
    """Somebody who has claimed what is due."""
    line = await bench.stranger()
    answer = await line.asks(WorkRequest(request=ClaimRequest(lane=lane, holder="worker-1")))
    assert answer.claim is not None
    return Liar(line, answer.claim.grip)


async def is_taken_over(bench: Bench, command_state: tuple[State, bool] = (State.QUEUED, False)) -> bool:
    """Whether what the liar had is another's now, the device to be read afresh."""
    claim = await asyncio.wait_for(bench.worker().claim(Tier.LOW, "low-2"), 60)
    return claim.force_refresh and (State.QUEUED, claim.sent) == command_state


# Who is gone.


@pytest.mark.requirement("L3", "Q4")
@pytest.mark.parametrize("step", ["claimed", "read", "asked", "sent"])
async def test_a_connection_that_ends_lets_go_of_its_command_at_once(
    bench: Bench, tv: Television, step: str
) -> None:
    """No lease has to lapse: time stands still here. What may have been sent counts as sent."""
    tv.is_silent()
    command = bench.hub.command(POWER, on=True)
    await bench.hub.admits(command)
    gone = await liar_of(bench)
    requests: dict[str, Held] = {
        "read": ReadRequest(grip=gone.grip),
        "asked": PublishRequest(grip=gone.grip, step="read_back"),
        "sent": PublishRequest(grip=gone.grip, step="act"),
    }
    if step in requests:
        assert await gone.asks(requests[step]) == ""

    gone.line.hangs_up()

    claim = await asyncio.wait_for(bench.worker().claim(Tier.LOW, "low-2"), 60)
    is_sent = step == "sent"
    assert (claim.asked.command, claim.force_refresh) == (command, True)
    assert (claim.sent, claim.attempts) == (is_sent, int(is_sent))
    assert len(tv.effects) == int(is_sent)


async def test_who_waits_and_goes_leaves_nothing_behind(bench: Bench, tv: Television) -> None:
    line = await bench.stranger()
    line.sends(CLAIM)
    await eventually(lambda: bench.desk.presence.waiting == 1)

    line.hangs_up()
    await eventually(lambda: bench.desk.presence.waiting == 0)

    command = bench.hub.command(POWER, on=True)
    await bench.hub.admits(command)
    await bench.works()
    assert (await bench.hub.ended(command)).fence == 1
    assert len(tv.effects) == 1


@pytest.mark.requirement("L1", "L2", "Q5")
async def test_who_hangs_past_its_lease_finds_everything_taken(bench: Bench, tv: Television) -> None:
    """It keeps its connection, as a stopped process does; another has done the work when it wakes."""
    command = bench.hub.command(POWER, on=True)
    await bench.hub.admits(command)
    stopped = await liar_of(bench)
    bench.hub.passes(LEASE)
    await bench.works()
    before = bench.hub.contents()

    said = await stopped.asks(PublishRequest(grip=stopped.grip, step="act"))
    then = await stopped.asks(FinishRequest(grip=stopped.grip, outcome=Outcome.UNKNOWN))

    assert (said, then) == ("lost", "lost")
    assert bench.hub.contents() == before
    assert tv.effects == [("power", True)]
    assert (await bench.hub.ended(command)).fence == 2


@pytest.mark.slow
@pytest.mark.requirement("Q4", "Q5")
async def test_a_process_that_says_no_word_to_its_command_is_lent_no_other(
    bench: Bench, tv: Television
) -> None:
    """A stopped process waits on many connections: the command must not go from one to the next of them."""
    stopped = [await bench.stranger() for _ in range(8)]
    for line in stopped:
        line.sends(CLAIM)
    await eventually(lambda: bench.desk.presence.waiting == len(stopped))
    command = bench.hub.command(POWER, on=True)
    await bench.hub.admits(command)

    await eventually(lambda: bench.desk.presence.waiting == 0)
    await bench.works()

    receipt = await bench.hub.ended(command)
    assert (receipt.outcome, receipt.fence, receipt.attempts) == (Outcome.SUCCEEDED, 2, 1)
    assert len(tv.effects) == 1
    given = [line for line in stopped if not line.is_at_end]
    assert len(given) == 1
    answer = await given[0].hears()
    assert answer.claim is not None
    late = await given[0].asks(WorkRequest(request=PublishRequest(grip=answer.claim.grip, step="act")))
    assert late.failure is not None
    assert late.failure.kind == "lost"
    assert len(tv.effects) == 1


@pytest.mark.requirement("L7", "Q5")
async def test_a_process_that_dies_takes_its_command_through_no_other_of_its_connections(
    bench: Bench, tv: Television
) -> None:
    """The kernel ends one after the other: meanwhile the command must not go from one to the next."""
    dying = [await bench.stranger() for _ in range(8)]
    for line in dying:
        line.sends(CLAIM)
    await eventually(lambda: bench.desk.presence.waiting == len(dying))
    command = bench.hub.command(POWER, on=True)
    await bench.hub.admits(command)
    hearing = {asyncio.create_task(line.hears()): line for line in dying}
    given, waiting = await asyncio.wait(hearing, return_when=asyncio.FIRST_COMPLETED)
    [holder] = [hearing[each] for each in given]

    holder.hangs_up()

    # The others are heard no more, and who works in another process does it
    gone = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(each, EOFError | ConnectionError) for each in gone)
    await bench.works()
    receipt = await bench.hub.ended(command)
    assert (receipt.outcome, receipt.fence, receipt.attempts) == (Outcome.SUCCEEDED, 2, 1)
    assert [tuple(row) for row in bench.hub.rows("SELECT losses FROM inbox")] == [(1,)]
    assert tv.effects == [("power", True)]


@pytest.mark.requirement("L7")
async def test_a_connection_that_ends_leaves_what_others_of_its_process_work_on(
    bench: Bench, tv: Television
) -> None:
    """It need not be the end of the process: a frame may have been half, or an answer too late."""
    await bench.hub.television(OTHER_TV)
    await bench.hub.admits(bench.hub.command(POWER, on=True), bench.hub.command(POWER, device=OTHER_TV))
    one, other = await liar_of(bench), await liar_of(bench)
    tv.is_silent()
    assert await other.asks(PublishRequest(grip=other.grip, step="act")) == ""
    asking = AwaitRequest(grip=other.grip, level=Level.APPLIED, within=SECOND)
    answering = asyncio.create_task(other.asks(asking))

    one.line.hangs_up()

    assert await is_taken_over(bench)
    assert await answering == ""
    assert await other.asks(RenewRequest(grip=other.grip)) == ""


@pytest.mark.requirement("R2", "L7")
async def test_a_worker_whose_hub_has_no_disk_gives_its_command_back_and_is_not_cut_off(
    bench: Bench, tv: Television, caplog: pytest.LogCaptureFixture
) -> None:
    timers, around = LoopTime(), bench.hub.now.around
    dispatch = Dispatch(bench.worker(), Tier.LOW, around.clock, around.chance, around.metrics)
    await bench.hub.admits(bench.hub.command(POWER, on=True))
    working = asyncio.create_task(dispatch.run("low-1"))
    with ExitStack() as trouble:
        fills = partial(trouble.enter_context, full_disk(bench.hub.path))
        bench.hub.points.happens_at(CrashPoint.COMMAND_CLAIMED, fills)
        await eventually(lambda: "command left" in caplog.messages)
        timers.passes(SECOND)
        await eventually(lambda: bool(bench.hub.now.desk.losing.excused))
    timers.passes(SECOND)

    await eventually(lambda: bench.hub.rows("SELECT state FROM inbox") == [("succeeded",)])
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working

    assert bench.hub.rows("SELECT losses FROM inbox") == [(0,)]
    assert "worker cut off" not in caplog.messages
    assert tv.effects == [("power", True)]


async def test_a_claim_that_is_not_brought_back_goes_with_its_connection_and_the_worker_goes_on(
    bench: Bench, tv: Television, caplog: pytest.LogCaptureFixture
) -> None:
    worker = bench.worker()
    command = bench.hub.command(POWER, on=True)
    await bench.hub.admits(command)
    first = await worker.claim(Tier.LOW, "low-1")

    again = await asyncio.wait_for(worker.claim(Tier.LOW, "low-1"), 60)

    assert (again.run, again.fence, again.force_refresh) == (first.run, first.fence + 1, True)
    assert "worker cut off" not in caplog.messages
    assert tv.effects == []


async def test_two_workers_of_one_name_are_told_apart(bench: Bench, tv: Television) -> None:
    await bench.hub.television(OTHER_TV)
    await bench.hub.admits(bench.hub.command(POWER), bench.hub.command(POWER, device=OTHER_TV))

    one, other = await liar_of(bench), await liar_of(bench)

    assert one.grip.token != other.grip.token
    assert await one.asks(RenewRequest(grip=one.grip)) == ""
    assert await one.asks(PublishRequest(grip=other.grip, step="act")) == "cut_off"
    assert tv.effects == []
    assert await other.asks(RenewRequest(grip=other.grip)) == ""
    [held] = {str(row[0]) for row in bench.hub.rows("SELECT holder FROM locks WHERE token IS NOT NULL")}
    assert held.startswith("worker-1@")


# Who lies.


LIES: Final[dict[str, Callable[[Grip], Held]]] = {
    "another run": lambda grip: FinishRequest(
        grip=grip.model_copy(update={"run": grip.run + 1}), outcome=Outcome.UNKNOWN
    ),
    "a stale fence": lambda grip: RenewRequest(grip=grip.model_copy(update={"fence": grip.fence + 1})),
    "another token": lambda grip: PublishRequest(
        grip=grip.model_copy(update={"token": "0" * 32}), step="act"
    ),
    "no such step": lambda grip: PublishRequest(grip=grip, step="flash"),
    "an answer to nothing": lambda grip: AwaitRequest(grip=grip, level=Level.APPLIED, within=SECOND),
    "a success": lambda grip: FinishRequest(grip=grip, outcome=Outcome.SUCCEEDED, level=Level.VERIFIED),
    "a bare success": lambda grip: FinishRequest(grip=grip, outcome=Outcome.SUCCEEDED),
    "a cancellation": lambda grip: FinishRequest(grip=grip, outcome=Outcome.CANCELLED),
    "what was not sent": lambda grip: PostponeRequest(grip=grip, reason=Reason.RETRYING, unsent=True),
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_lie_is_cut_off_and_its_command_is_anothers_as_if_nothing_was_said(
    bench: Bench, tv: Television, lie: str
) -> None:
    command = bench.hub.command(POWER, on=True)
    await bench.hub.admits(command)
    liar = await liar_of(bench)
    before = bench.hub.contents()

    assert await liar.asks(LIES[lie](liar.grip)) == "cut_off"
    assert bench.hub.contents()[3] == before[3]  # no receipt
    assert await liar.line.is_cut_off()

    assert await is_taken_over(bench)
    assert (bench.hub.bus.published, tv.effects) == ([], [])
    assert (await bench.hub.row(command)).attempts == 0


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.REFUSED, Outcome.EXPIRED])
async def test_of_what_was_sent_nothing_is_believed_that_nobody_has_heard(
    bench: Bench, tv: Television, outcome: Outcome
) -> None:
    tv.is_silent()
    command = bench.hub.command(POWER, on=True)
    await bench.hub.admits(command)
    liar = await liar_of(bench)
    assert await liar.asks(PublishRequest(grip=liar.grip, step="act")) == ""

    said = await liar.asks(FinishRequest(grip=liar.grip, outcome=outcome, level=Level.APPLIED))

    assert said == "cut_off"
    assert await bench.hub.receipt(command) is None
    assert await is_taken_over(bench, (State.QUEUED, True))
    assert len(tv.effects) == 1


@pytest.mark.requirement("I3", "M2")
async def test_what_changes_a_device_is_sent_once_a_claim(bench: Bench, tv: Television) -> None:
    command = bench.hub.command(REBOOT)
    await bench.hub.admits(command)
    liar = await liar_of(bench, Tier.MEDIUM)
    assert await liar.asks(PublishRequest(grip=liar.grip, step="act")) == ""

    assert await liar.asks(PublishRequest(grip=liar.grip, step="act")) == "cut_off"

    again = await liar_of(bench, Tier.MEDIUM)
    assert await again.asks(PublishRequest(grip=again.grip, step="act")) == "cut_off"
    assert len(tv.effects) == 1
    assert (await bench.hub.row(command)).attempts == 1


async def test_what_left_cannot_be_said_not_to_have_left(bench: Bench, tv: Television) -> None:
    command = bench.hub.command(POWER, on=True)
    await bench.hub.admits(command)
    liar = await liar_of(bench)
    assert await liar.asks(PublishRequest(grip=liar.grip, step="act")) == ""

    assert await liar.asks(PostponeRequest(grip=liar.grip, reason=Reason.RETRYING, unsent=True)) == "cut_off"

    row = await bench.hub.row(command)
    assert (row.sent, row.attempts, len(tv.effects)) == (True, 1, 1)


async def test_a_device_is_not_asked_without_end(bench: Bench, tv: Television) -> None:
    await bench.hub.admits(bench.hub.command(POWER, on=True))
    liar = await liar_of(bench)

    said = [await liar.asks(PublishRequest(grip=liar.grip, step="read_back")) for _ in range(17)]

    assert said == [""] * 16 + ["cut_off"]
    assert tv.asked == 16


async def test_a_second_command_beside_the_first_is_not_given(bench: Bench, tv: Television) -> None:
    await bench.hub.television(OTHER_TV)
    await bench.hub.admits(bench.hub.command(POWER), bench.hub.command(POWER, device=OTHER_TV))
    liar = await liar_of(bench)

    answer = await liar.line.asks(CLAIM)

    assert answer.failure is not None
    assert answer.failure.kind == "cut_off"
    assert bench.hub.rows("SELECT count(*) FROM locks WHERE holder LIKE 'low-1%'") == [(0,)]
    assert tv.effects == []


# What is no request.


FORGED: Final = {
    "no JSON": b"\xff\x00",
    "a list": b"[]",
    "an unknown field": CLAIM[:-1] + b',"more":1}',
    "a field twice": CLAIM.replace(b'"lane":"low"', b'"lane":"low","lane":"high"'),
    "a topic": b'{"request":{"type":"publish","topic":"tv-1/set/power","payload":"1"}}',
    "an unknown verb": b'{"request":{"type":"drop_tables"}}',
    "a deep one": b'{"request":' + b"[" * 40 + b"]" * 40 + b"}",
    "a holder with a line break": CLAIM.replace(b"low-1", rb"low\n1"),
    "nothing": b"",
}


@pytest.mark.requirement("V1")
@pytest.mark.parametrize("forged", FORGED)
async def test_what_is_no_request_ends_the_connection_and_touches_nothing(
    bench: Bench, tv: Television, forged: str
) -> None:
    command = bench.hub.command(POWER, on=True)
    await bench.hub.admits(command)
    liar = await liar_of(bench)

    liar.line.sends(FORGED[forged])

    assert await liar.line.is_cut_off()
    assert await is_taken_over(bench)
    assert (bench.hub.bus.published, tv.effects) == ([], [])


@pytest.mark.requirement("V1")
async def test_a_megabyte_of_result_is_not_even_read(bench: Bench, tv: Television) -> None:
    await bench.hub.admits(bench.hub.command(POWER, on=True))
    liar = await liar_of(bench)
    lie = {"type": "finish", "grip": json.loads(encode(liar.grip)), "outcome": "unknown"}

    liar.line.sends(json.dumps({"request": lie | {"detail": "x" * 2**20}}).encode())

    assert await liar.line.is_cut_off()
    assert await is_taken_over(bench)
    assert tv.effects == []


@pytest.mark.requirement("V1")
async def test_words_that_a_terminal_would_obey_are_refused(bench: Bench, tv: Television) -> None:
    await bench.hub.admits(bench.hub.command(POWER, on=True))
    liar = await liar_of(bench)
    lie = {"type": "finish", "grip": json.loads(encode(liar.grip)), "outcome": "unknown", "detail": "\x1b[2J"}

    liar.line.sends(json.dumps({"request": lie}).encode())

    assert await liar.line.is_cut_off()
    assert bench.hub.rows("SELECT count(*) FROM receipts") == [(0,)]
    assert tv.effects == []


@pytest.mark.slow
async def test_half_a_frame_is_not_waited_for_without_end(bench: Bench, tv: Television) -> None:
    await bench.hub.admits(bench.hub.command(POWER, on=True))
    liar = await liar_of(bench)

    liar.line.sends(b"{", length=100)

    assert await liar.line.is_cut_off()
    assert await is_taken_over(bench)
    assert tv.effects == []


async def test_a_question_before_the_answer_is_a_break_of_the_rules(bench: Bench, tv: Television) -> None:
    line = await bench.stranger()
    line.sends(CLAIM)
    line.sends(CLAIM)

    assert await line.is_cut_off()
    await eventually(lambda: bench.desk.presence.waiting == 0)
    assert tv.effects == []


def test_a_flood_of_questions_is_slowed_down() -> None:
    clock = ManualClock()
    pace = Pace(clock)

    waits = [pace.wait() for _ in range(140)]
    clock.passes(10 * SECOND)

    assert not any(waits[:100])
    assert waits[139] == 2 * SECOND
    assert not pace.wait()


# Who may come at all.


async def test_more_connections_than_workers_can_be_are_turned_away(bench: Bench) -> None:
    lines = [await bench.stranger() for _ in range(MOST_CONNECTIONS)]
    for line in lines:
        line.sends(CLAIM)
    await eventually(lambda: bench.desk.presence.waiting == MOST_CONNECTIONS)

    further = await bench.stranger()

    assert await further.is_cut_off()
    lines[0].hangs_up()
    await eventually(lambda: bench.desk.presence.waiting == MOST_CONNECTIONS - 1)
    again = await bench.stranger()
    again.sends(CLAIM)
    await eventually(lambda: bench.desk.presence.waiting == MOST_CONNECTIONS)


async def test_the_socket_is_for_its_own_user_and_for_the_group_where_the_worker_has_one_of_its_own(
    bench: Bench, tmp_path: Path
) -> None:
    assert stat.S_IMODE(bench.path.stat().st_mode) == 0o600

    path = bench.path.with_name("other.sock")
    shared = WorkSocket(path, bench.desk, 12345, bench.hub.clock)
    await shared.open()

    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    await shared.close()
    assert not path.exists()
    with pytest.raises(ConfigurationError):
        await WorkSocket(tmp_path / ("x" * 120), bench.desk, None, bench.hub.clock).open()


async def test_a_lane_that_is_worked_inside_is_not_lent(bench: Bench, tv: Television) -> None:
    await bench.hub.admits(bench.hub.command(POWER, on=True))
    desk = WaryDesk(bench.hub.now.desk, frozenset({Tier.HIGH}), bench.hub.clock, bench.hub.now.around.metrics)
    path = bench.path.with_name("high.sock")
    server = WorkSocket(path, desk, None, bench.hub.clock)
    await server.open()
    line = await bench.stranger(path)

    answer = await line.asks(CLAIM)

    assert answer.failure is not None
    assert answer.failure.kind == "cut_off"
    assert bench.hub.rows("SELECT state FROM inbox") == [(State.QUEUED,)]
    await server.close()
    assert tv.effects == []


# The worker's side.


async def test_a_worker_waits_for_an_agent_that_comes_later(bench: Bench, tv: Television) -> None:
    path = bench.path.with_name("later.sock")
    later = bench.worker_at(path)
    waiting = asyncio.create_task(later.claim(Tier.LOW, "low-1"))
    await bench.hub.breathes()

    server = WorkSocket(path, bench.desk, None, bench.hub.clock)
    await server.open()
    command = bench.hub.command(POWER, on=True)
    await bench.hub.admits(command)

    await eventually(waiting.done)
    assert (await waiting).asked.command == command
    await server.close()
    assert tv.effects == []


async def test_an_agent_that_goes_and_comes_is_told_once_by_all_connections_of_a_worker(
    bench: Bench, tv: Television, caplog: pytest.LogCaptureFixture
) -> None:
    """Sixteen of them wait in the worker's process at each restart of the agent."""
    path = bench.path.with_name("going.sock")
    told: list[str] = []
    presence = Presence(path, told.append)
    desks = [WorkClient(path, lambda: 0.0, presence) for _ in range(3)]
    caplog.set_level("INFO", "edgeagent.adapters.work_socket.presence")
    claims = [asyncio.create_task(desk.claim(Tier.LOW, f"low-{each}")) for each, desk in enumerate(desks)]

    # Given they wait at an agent, when it goes
    first = WorkSocket(path, bench.desk, None, bench.hub.clock)
    await eventually(lambda: len(told) == 1)
    await first.open()
    await eventually(lambda: len(told) == 2)
    await first.close()
    await eventually(lambda: len(told) == 3)

    # And another comes, then the line and the log say each of it once, and all of them go on
    second = WorkSocket(path, bench.desk, None, bench.hub.clock)
    await second.open()
    await bench.hub.admits(bench.hub.command(POWER, on=True))
    await eventually(lambda: any(claim.done() for claim in claims))
    assert [line.partition(":")[0] for line in told] == [
        "waits for the agent",
        "waits for commands, or works them",
    ] * 2
    said = [each.message for each in caplog.records if each.name.endswith(".presence")]
    assert said == ["no agent listens", "agent listens"] * 2
    assert tv.effects == []
    for claim in claims:
        claim.cancel()
    await asyncio.gather(*claims, return_exceptions=True)
    for desk in desks:
        desk.close()
    await second.close()


async def test_an_agent_that_ends_in_the_middle_is_told_as_something_that_passes(
    bench: Bench, tv: Television
) -> None:
    path = bench.path.with_name("ending.sock")
    server = WorkSocket(path, bench.desk, None, bench.hub.clock)
    await server.open()
    await bench.hub.admits(bench.hub.command(VOLUME, level=20))
    desk = bench.worker_at(path)
    claim = await desk.claim(Tier.LOW, "low-1")

    await server.close()

    with pytest.raises(TransientError):
        await desk.publish(claim, StepName.ACT)
    with pytest.raises(TransientError):
        await desk.renew(claim)
    assert tv.effects == []
