"""Commands typed at the hub: signed with its own key, sent through the same gate, told to who typed them."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.command import Precondition
from edgeagent.contracts.policy import Level, Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.reports.commands import SendReport, SendRequest
from edgeagent.core.envelope import unproven_payload
from edgeagent.core.gate.verdict import Duplicate
from edgeagent.core.lifecycle import State
from edgeagent.errors import RejectedError, StorageError
from edgeagent.ids import command_id, operation
from tests.flows.commanding import Hub, new_hub
from tests.flows.scripted import Television
from tests.flows.signing import MILLISECOND, MINUTE, OTHER_TV, POWER, REBOOT, SECOND, TV
from tests.support.stores import broken_log

ANNA = "uid:1000 anna"
AT_ONCE = timedelta(0)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub that has just started."""
    async with new_hub(tmp_path) as made:
        yield made


@pytest.fixture
async def tv(hub: Hub) -> Television:
    """Its television, off."""
    return await hub.television()


def request(**changes: object) -> SendRequest:
    """Switch the television on, and do not wait for it."""
    fields: dict[str, object] = {"device": TV, "action": POWER, "arguments": {"on": True}, "wait": AT_ONCE}
    return SendRequest(**(fields | changes))  # type: ignore[arg-type]  # checked as it is built


async def sent(hub: Hub, **changes: object) -> SendReport:
    """What is told of a command when it was let in."""
    return await hub.now.local.send(request(**changes), ANNA)


@pytest.mark.requirement("V6", "M7", "G3", "A1")
async def test_what_is_typed_is_done_and_its_result_told(hub: Hub, tv: Television) -> None:
    sending = asyncio.create_task(hub.now.local.send(request(wait=MINUTE), ANNA))

    await hub.works()
    report = await sending

    assert report.refused is None
    assert report.command is not None
    assert report.command.receipt is not None
    assert (report.command.receipt.outcome, report.command.receipt.level) == (
        Outcome.SUCCEEDED,
        Level.APPLIED,
    )
    assert (report.command.actor, report.command.issuer) == (ANNA, hub.keys.hub.id)
    assert tv.effects == [("power", True)]


@pytest.mark.requirement("V6", "G3")
async def test_what_has_not_ended_when_the_wait_is_over_is_told_as_it_stands(
    hub: Hub, tv: Television
) -> None:
    report = await sent(hub)

    assert report.command is not None
    assert (report.command.state, report.command.receipt) == (State.QUEUED, None)
    [shown] = (await hub.now.local.one(report.command.command)).commands
    assert shown.state == State.QUEUED
    assert tv.effects == []


@pytest.mark.requirement("V1", "V2", "V6", "G3")
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({"device": OTHER_TV}, Reason.DEVICE_UNKNOWN, id="unknown device"),
        pytest.param({"arguments": {"on": 1}}, Reason.BAD_ARGUMENTS, id="a number for a truth"),
        pytest.param({"action": "lock", "arguments": {"locked": True}}, Reason.NOT_ALLOWED, id="no rule"),
    ],
)
async def test_what_is_refused_says_why_and_nothing_is_done(
    hub: Hub, tv: Television, changes: dict[str, object], expected: Reason
) -> None:
    report = await sent(hub, **changes)

    assert report.refused is expected
    assert report.command is not None
    assert report.command.state == State.REFUSED
    assert not await hub.has_work()
    assert tv.effects == []


@pytest.mark.requirement("V6", "G3")
async def test_without_a_policy_it_says_so(tmp_path: Path) -> None:
    hub = Hub(tmp_path)
    await hub.starts()

    report = await sent(hub)

    assert (report.refused, report.command) == (Reason.NO_POLICY, None)
    await hub.dies()


@pytest.mark.requirement("V6", "T5", "R4", "H3")
async def test_it_works_with_a_wrong_clock_and_without_any_proof_of_the_time(
    hub: Hub, tv: Television
) -> None:
    await hub.reboots()
    hub.readings.is_set(hub.readings.wall() - timedelta(days=20_000))
    tv.comes_online()
    await hub.settles()

    report = await sent(hub, action=REBOOT, arguments={})
    assert report.refused is None
    await hub.works(Tier.MEDIUM)

    assert tv.effects == [("reboot", True)]


@pytest.mark.requirement("T4", "V6", "R4")
async def test_later_ones_have_later_sequences_also_after_the_clock_was_set_back(
    hub: Hub, tv: Television
) -> None:
    reports = [await sent(hub, arguments={"on": False})]
    await hub.reboots()
    for days in (400, -800):
        hub.readings.is_set(hub.readings.wall() + timedelta(days=days))
        reports.append(await sent(hub))
        reports.append(await sent(hub))

    assert all(report.refused is None for report in reports)
    sequences = [int(str(row[0])) for row in hub.rows("SELECT sequence FROM inbox ORDER BY run")]
    assert sequences == sorted(set(sequences))
    states = [state for (state,) in hub.rows("SELECT state FROM inbox ORDER BY run")]
    assert states == ["superseded"] * 4 + ["queued"]
    assert tv.effects == []


@pytest.mark.requirement("V6")
async def test_it_is_good_for_a_minute_or_for_less_where_the_policy_says_so(hub: Hub, tv: Television) -> None:
    rule = hub.keys.policy().actions[POWER].model_copy(update={"longest_validity": 20 * SECOND})
    await hub.has_policy(version=2, actions={POWER: rule, REBOOT: hub.keys.policy().actions[REBOOT]})

    short, long = await sent(hub), await sent(hub, action=REBOOT, arguments={})

    assert short.refused is long.refused is None
    now = hub.clock.boot() // MILLISECOND
    until = [int(str(row[0])) - now for row in hub.rows("SELECT local_until FROM inbox ORDER BY run")]
    assert until == [20_000, 60_000]
    hub.passes(30 * SECOND)
    await hub.now.upkeep.look()
    states = [state for (state,) in hub.rows("SELECT state FROM inbox ORDER BY run")]
    assert states == ["expired", "queued"]
    assert tv.effects == []


@pytest.mark.requirement("I2", "V6")
async def test_one_that_names_an_operation_that_was_done_is_told_so(hub: Hub, tv: Television) -> None:
    await sent(hub, operation=operation("closing-time"))
    await hub.works()

    again = await sent(hub, operation=operation("closing-time"))

    assert again.refused is Reason.OPERATION_DONE
    assert again.command is not None
    assert len(tv.effects) == 1


@pytest.mark.requirement("C2", "V6")
async def test_a_version_that_it_was_decided_on_binds(hub: Hub, tv: Television) -> None:
    await sent(hub, precondition=Precondition(version=1))

    await hub.works()

    assert hub.rows("SELECT state, reason FROM inbox") == [("refused", "stale")]
    assert tv.effects == []


@pytest.mark.requirement("V6", "T4")
async def test_its_envelope_is_nothing_new_when_it_comes_from_the_cloud(hub: Hub, tv: Television) -> None:
    await sent(hub)
    [(envelope,)] = hub.rows("SELECT envelope FROM inbox")
    assert isinstance(envelope, bytes)
    assert b"venue-7" in unproven_payload(envelope)

    [verdict] = await hub.admits(envelope)

    assert isinstance(verdict, Duplicate)
    assert hub.rows("SELECT count(*) FROM inbox") == [(1,)]
    assert tv.effects == []


@pytest.mark.requirement("R2", "V6")
async def test_what_the_disk_does_not_take_is_not_done_and_says_so(hub: Hub, tv: Television) -> None:
    with broken_log(hub.path, Path("/dev/full")), pytest.raises(StorageError):
        await sent(hub)

    assert not await hub.has_work()
    assert tv.effects == []


@pytest.mark.requirement("G3", "A1")
async def test_the_last_ones_are_listed_newest_first_whoever_sent_them(hub: Hub, tv: Television) -> None:
    await sent(hub, arguments={"on": False})
    cloud = hub.command(REBOOT)
    await hub.admits(cloud)

    report = await hub.now.local.recent()

    assert [each.action for each in report.commands] == [REBOOT, POWER]
    assert [each.actor for each in report.commands] == [hub.keys.desk.id, ANNA]
    assert report.commands[0].command == cloud.id
    assert tv.effects == []


async def test_one_that_never_came_is_told_so(hub: Hub) -> None:
    with pytest.raises(RejectedError, match="no command nothing has come"):
        await hub.now.local.one(command_id("nothing"))
