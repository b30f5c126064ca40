"""Commands that are held: for the time, for signatures, for an outcome; and what becomes of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from edgeagent.contracts.command import COMMAND_BYTES, COMMAND_TYPE
from edgeagent.contracts.door import encode
from edgeagent.contracts.event import EventType
from edgeagent.contracts.policy import Tier, TierRule
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.envelope import merged, sign, unproven_payload
from edgeagent.core.gate.verdict import AddSignatures, Duplicate, Hold, Refuse
from edgeagent.core.lifecycle import State
from tests.flows.commanding import Hub, new_hub
from tests.flows.signing import MINUTE, POWER, REBOOT, SECOND
from tests.support.clocks import LoopTime
from tests.support.keys import MemoryKey
from tests.support.waiting import eventually


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub with a television, after a power cut: nothing proves the time."""
    async with new_hub(tmp_path) as made:
        await made.television()
        await made.reboots()
        yield made


async def upkeep_runs(hub: Hub) -> "asyncio.Task[None]":
    """Upkeep, looking by itself, once it has looked for the first time."""
    task = asyncio.create_task(hub.now.upkeep.run())
    await hub.settles()
    return task


async def stopped(task: "asyncio.Task[None]") -> None:
    """Stop it."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@pytest.mark.requirement("T5", "R4")
@pytest.mark.parametrize("action", [POWER, REBOOT])
async def test_while_the_time_is_not_known_it_is_held_and_then_goes_on(hub: Hub, action: object) -> None:
    command = hub.command(POWER) if action is POWER else hub.command(REBOOT)
    [verdict] = await hub.admits(command)
    assert isinstance(verdict, Hold)
    assert (await hub.row(command)).reason is Reason.CLOCK_UNSURE
    await hub.now.upkeep.look()
    assert (await hub.row(command)).state is State.HELD

    hub.time_is_known()
    await hub.now.upkeep.look()

    assert (await hub.row(command)).state is State.QUEUED
    assert hub.rows("SELECT state FROM operations") == [("processing",)]
    [act] = await hub.audited(AuditKind.COMMAND_ACCEPTED)
    assert (act["subject"], act["held"]) == (command.id, True)


@pytest.mark.requirement("T5", "R4")
async def test_one_that_turns_out_to_be_over_is_expired_and_never_done(hub: Hub) -> None:
    command = hub.command(POWER)
    await hub.admits(command)

    hub.time_is_known(command.expires_at + MINUTE)
    await hub.now.upkeep.look()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.EXPIRED, Reason.EXPIRED)
    assert not await hub.has_work()


@pytest.mark.requirement("T5")
async def test_low_begins_without_the_time_where_the_policy_lets_it(hub: Hub) -> None:
    await hub.has_policy(version=2, tiers={Tier.LOW: TierRule(accept_unsure_clock=True)})
    low, medium = hub.command(POWER), hub.command(REBOOT)

    await hub.admits(low, medium)

    assert (await hub.row(low)).state is State.QUEUED
    assert (await hub.row(medium)).state is State.HELD


@pytest.mark.requirement("V6", "T5")
async def test_what_is_typed_here_needs_no_time_of_day(hub: Hub) -> None:
    command = hub.command(REBOOT)

    await hub.admits_local(command)

    assert (await hub.row(command)).state is State.QUEUED


@pytest.mark.requirement("T5", "Q9")
async def test_one_from_the_future_goes_on_by_itself_when_its_time_has_come(hub: Hub) -> None:
    """Its issuer's clock is two minutes fast; the hub's is right, and nothing more will be proven."""
    timers = LoopTime()
    hub.time_is_known()
    running = await upkeep_runs(hub)
    command = hub.command(POWER, issued=2 * MINUTE)
    await hub.admits(command)
    assert (await hub.row(command)).reason is Reason.NOT_YET_VALID

    await hub.breathes()
    hub.passes(2 * MINUTE)
    timers.passes(2 * MINUTE)

    await eventually(lambda: hub.rows("SELECT state FROM inbox") == [("queued",)])
    await stopped(running)


@pytest.mark.requirement("T5", "Q7", "Q9")
async def test_one_that_stays_held_is_told_to_be_over_when_it_is(hub: Hub) -> None:
    """Nobody rings for an expiry: upkeep is told of the command when it comes."""
    timers = LoopTime()
    hub.time_is_known()
    running = await upkeep_runs(hub)
    command = hub.command(POWER, issued=2 * MINUTE, valid_for=MINUTE)
    await hub.has_policy(version=2, actions={POWER: hub.keys.policy().actions[REBOOT]})
    await hub.admits(command)

    await hub.breathes()
    hub.passes(5 * MINUTE)
    timers.passes(5 * MINUTE)

    await eventually(lambda: hub.rows("SELECT state FROM inbox") == [("expired",)])
    await stopped(running)


@pytest.mark.requirement("T2")
async def test_one_whose_key_is_revoked_while_it_is_held_is_refused(hub: Hub) -> None:
    command = hub.command(POWER)
    await hub.admits(command)

    await hub.has_policy(version=2, roles={})
    await hub.now.upkeep.look()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.REFUSED, Reason.BAD_SIGNATURE)


@pytest.mark.requirement("I2")
async def test_of_two_that_say_one_operation_the_second_is_answered_with_the_first(hub: Hub) -> None:
    first, second = (hub.command(POWER, operation="ticket-9") for _ in range(2))
    await hub.admits(first, second)
    hub.time_is_known()

    await hub.now.upkeep.look()

    # They are of one slot too: the later one takes the place of the earlier, and then has the operation.
    assert (await hub.ended(first)).outcome is Outcome.SUPERSEDED
    assert (await hub.row(second)).state is State.QUEUED


@pytest.mark.requirement("I2", "T4")
async def test_one_whose_operation_was_done_meanwhile_gets_that_result_again(hub: Hub) -> None:
    held = hub.command(REBOOT, operation="ticket-9")
    await hub.admits(held)
    typed = hub.command(REBOOT, operation="ticket-9")
    await hub.admits_local(typed)
    hub.bus.delivers("tv-1/lwt", b"online")
    await hub.settles()
    await hub.works(Tier.MEDIUM)
    [(number, _)] = await hub.records(EventType.RECEIPT)
    await hub.uploads(number)
    hub.time_is_known()

    await hub.now.upkeep.look()

    receipt = await hub.ended(held)
    assert (receipt.outcome, receipt.reason) == (Outcome.REFUSED, Reason.OPERATION_DONE)
    assert number in [again for again, _ in await hub.records(EventType.RECEIPT)]


@pytest.mark.requirement("O1", "Q9")
async def test_an_end_of_a_held_one_wakes_the_uplink(hub: Hub) -> None:
    await hub.admits(hub.command(POWER))
    await hub.now.around.outbox.wait(0 * SECOND)
    hub.time_is_known(hub.readings.wall() + 60 * MINUTE)
    waiting = asyncio.create_task(hub.now.around.outbox.next_record(60 * MINUTE))
    await asyncio.sleep(0)

    await hub.now.upkeep.look()

    await eventually(waiting.done)
    assert len(await hub.records(EventType.RECEIPT)) == 1


# Signatures.


@pytest.mark.requirement("T4", "T7")
async def test_another_signature_is_added_to_a_held_one(hub: Hub) -> None:
    command = hub.command(POWER)
    await hub.admits(command)

    [verdict] = await hub.admits(hub.signed(command, hub.keys.night))

    assert isinstance(verdict, AddSignatures)
    row = await hub.row(command)
    assert row.state is State.HELD
    assert set(row.signers) == {hub.keys.desk.id, hub.keys.night.id}
    assert unproven_payload(row.envelope) == encode(command)
    [again] = await hub.admits(hub.signed(command, hub.keys.night))
    assert isinstance(again, Duplicate)
    hub.time_is_known()
    await hub.now.upkeep.look()
    assert (await hub.row(command)).state is State.QUEUED


@pytest.mark.requirement("T1", "Q3")
async def test_more_signatures_than_an_envelope_may_have_are_refused_on_record(hub: Hub) -> None:
    command = hub.command(POWER)
    strangers = [MemoryKey() for _ in range(7)]
    await hub.admits(hub.signed(command, hub.keys.desk, *strangers))
    before = hub.rows("SELECT * FROM inbox")

    [verdict] = await hub.admits(hub.signed(command, hub.keys.night))

    assert isinstance(verdict, Refuse)
    assert verdict.reason is Reason.MALFORMED
    assert hub.rows("SELECT * FROM inbox") == before
    [(_, told)] = await hub.records(EventType.REFUSED)
    assert told["command"] == command.id
    assert [act["subject"] for act in await hub.audited(AuditKind.COMMAND_REFUSED)] == [command.id]


@pytest.mark.requirement("T1", "Q3")
async def test_signatures_that_would_make_the_envelope_too_large_to_open_are_refused(hub: Hub) -> None:
    command = hub.command(POWER)
    room = COMMAND_BYTES - len(hub.signed(command))
    padded = encode(command) + b" " * (room * 3 // 4 - 50)
    one, other = (sign(padded, COMMAND_TYPE, [key]) for key in (hub.keys.desk, hub.keys.night))
    assert len(one) < COMMAND_BYTES < len(merged(one, other))
    await hub.admits(one)
    before = hub.rows("SELECT * FROM inbox")

    [verdict] = await hub.admits(other)

    assert isinstance(verdict, Refuse)
    assert hub.rows("SELECT * FROM inbox") == before


@pytest.mark.requirement("R5", "T4")
async def test_what_is_held_is_held_after_a_restart(hub: Hub) -> None:
    command = hub.command(POWER)
    await hub.admits(command)

    await hub.starts_anew(is_proven=False)
    await hub.now.upkeep.look()
    assert (await hub.row(command)).state is State.HELD
    hub.time_is_known()
    await hub.now.upkeep.look()

    assert (await hub.row(command)).state is State.QUEUED
    assert await hub.receipt(command) is None
