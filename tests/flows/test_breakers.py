"""Breakers at a hub: what opens one, what it does to whom, how it closes, and what a storm costs."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.command import Command
from edgeagent.contracts.event import EventType
from edgeagent.contracts.policy import ActionRule, ApprovalRule, BreakerRule, Tier, WhenOpen
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.reports.approvals import ApproveRequest
from edgeagent.contracts.reports.breakers import BreakerRequest
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.gate.verdict import Accept, Hold, Refuse, Verdict
from edgeagent.errors import RejectedError
from edgeagent.ids import device_id
from tests.flows.approvals import acted
from tests.flows.commanding import Hub, new_hub
from tests.flows.signing import INPUT, MINUTE, POWER, SECOND, TV
from tests.support.keys import MemoryKey

pytestmark = pytest.mark.requirement("B1", "B2")

ROOT = "uid:0 root"
RULE = BreakerRule(refusals=4, off_target=3, dead_letters=2, retries=3, open_for=5 * MINUTE)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub with a television, and breakers that open soon."""
    async with new_hub(tmp_path) as made:
        await made.television()
        await made.has_policy(version=2, breaker=RULE)
        yield made


async def said(hub: Hub, command: Command, *signers: MemoryKey) -> Verdict:
    """What the gate says to a command that comes now."""
    [verdict] = await hub.admits(hub.signed(command, *signers))
    return verdict


def wrong(hub: Hub) -> Command:
    """A command for an input that the television does not have."""
    return hub.command(INPUT, name="HDMI 9")


def right(hub: Hub) -> Command:
    """A command for one that it has."""
    return hub.command(INPUT, name="HDMI 2")


async def is_on(hub: Hub) -> None:
    """Switch the television on: it takes no input before."""
    await said(hub, hub.command(POWER, on=True))
    await hub.works_all()


async def trips(hub: Hub, *signers: MemoryKey) -> None:
    """Send as many wrong commands as it takes."""
    for _ in range(RULE.refusals):
        verdict = await said(hub, wrong(hub), *signers)
        assert isinstance(verdict, Refuse)
        assert verdict.reason is Reason.BAD_ARGUMENTS


@pytest.mark.requirement("B4")
async def test_a_burst_of_wrong_commands_stops_its_origin_and_nobody_else(hub: Hub) -> None:
    await trips(hub)

    shut = await said(hub, right(hub))
    other_action = await said(hub, hub.command(POWER, on=True))
    other_origin = await said(hub, right(hub), hub.keys.night)

    assert isinstance(shut, Refuse)
    assert shut.reason is Reason.BREAKER_OPEN
    assert isinstance(other_action, Accept)
    assert isinstance(other_origin, Accept)
    [opened] = await hub.audited(AuditKind.BREAKER_OPENED)
    assert (opened["subject"], opened["origin"], opened["signal"]) == (INPUT, hub.keys.desk.id, "invalid")
    [(_, alert)] = await hub.records(EventType.ALERT)
    assert (alert["reason"], alert["origin"]) == (Reason.BREAKER_OPEN, hub.keys.desk.id)


async def test_targets_that_are_not_the_senders_open_it_sooner(hub: Hub) -> None:
    for _ in range(RULE.off_target):
        await said(hub, right(hub), hub.keys.stranger)

    verdict = await said(hub, right(hub), hub.keys.stranger)

    assert isinstance(verdict, Refuse)
    assert verdict.reason is Reason.BREAKER_OPEN


@pytest.mark.requirement("Q8")
async def test_in_the_high_tier_half_as_many_open_it(hub: Hub) -> None:
    high = ActionRule(tier=Tier.HIGH, approvals=ApprovalRule(signatures=1))
    actions = hub.keys.policy().actions | {INPUT: high}
    await hub.has_policy(version=3, actions=actions, breaker=RULE)

    reasons = []
    for _ in range(RULE.refusals // 2 + 1):
        verdict = await said(hub, wrong(hub))
        assert isinstance(verdict, Refuse)
        reasons.append(verdict.reason)

    assert reasons == [Reason.BAD_ARGUMENTS, Reason.BAD_ARGUMENTS, Reason.BREAKER_OPEN]


async def test_one_command_for_many_devices_counts_once(hub: Hub) -> None:
    strangers = [device_id(f"tv-unknown-{number}") for number in range(10)]
    for _ in range(RULE.off_target - 1):
        await hub.admits(hub.command(POWER, device=strangers, on=True))

    assert await hub.audited(AuditKind.BREAKER_OPENED) == []


@pytest.mark.requirement("T9")
async def test_a_storm_costs_as_many_rows_as_it_takes_to_open_and_one_a_minute(hub: Hub) -> None:
    for _ in range(50):
        await hub.admits(*[wrong(hub) for _ in range(20)])

    assert hub.rows("SELECT count(*) FROM inbox") == [(RULE.refusals,)]
    assert len(await hub.audited(AuditKind.COMMAND_REFUSED)) == RULE.refusals
    assert len(await hub.audited(AuditKind.BREAKER_REFUSED)) == 1
    assert acted(hub) == 0
    assert hub.rows("SELECT 1 FROM locks WHERE token IS NOT NULL") == []

    hub.passes(MINUTE)
    await hub.now.tallies.close_due()

    counted = await hub.audited(AuditKind.BREAKER_REFUSED)
    assert sum(int(str(act["count"])) for act in counted) == 1000 - RULE.refusals


async def test_it_stays_open_through_a_restart_and_a_reboot_begins_its_span_anew(hub: Hub) -> None:
    await trips(hub)

    await hub.starts_anew()
    after_restart = await said(hub, right(hub))
    await hub.reboots()
    hub.time_is_known()
    after_reboot = await said(hub, right(hub))

    for verdict in (after_restart, after_reboot):
        assert isinstance(verdict, Refuse)
        assert verdict.reason is Reason.BREAKER_OPEN


async def test_when_its_time_is_over_one_may_try_and_its_success_closes_it(hub: Hub) -> None:
    await is_on(hub)
    await trips(hub)
    hub.passes(RULE.open_for)

    probe = await said(hub, right(hub))
    meanwhile = await said(hub, hub.command(INPUT, name="HDMI 1"))
    await hub.works_all()
    after = await said(hub, hub.command(INPUT, name="HDMI 1"))

    assert isinstance(probe, Accept)
    assert isinstance(meanwhile, Refuse)
    assert meanwhile.reason is Reason.BREAKER_OPEN
    assert isinstance(after, Accept)
    assert hub.rows("SELECT 1 FROM breakers") == []
    assert len(await hub.audited(AuditKind.BREAKER_CLOSED)) == 1


async def test_a_wrong_try_opens_it_again(hub: Hub) -> None:
    await trips(hub)
    hub.passes(RULE.open_for)

    tried = await said(hub, wrong(hub))
    verdict = await said(hub, right(hub))

    assert isinstance(tried, Refuse)
    assert tried.reason is Reason.BAD_ARGUMENTS
    assert isinstance(verdict, Refuse)
    assert verdict.reason is Reason.BREAKER_OPEN


async def test_what_is_too_long_ago_does_not_count(hub: Hub) -> None:
    for _ in range(3 * RULE.refusals):
        await said(hub, wrong(hub))
        hub.passes(RULE.within / 2)

    assert isinstance(await said(hub, right(hub)), Accept)


@pytest.mark.requirement("T9")
async def test_who_only_brings_commands_late_twice_or_to_another_hub_opens_no_breaker(hub: Hub) -> None:
    old = [hub.command(POWER, issued=timedelta(hours=-1), on=True) for _ in range(20)]
    await hub.admits(*old)
    await hub.admits(*old)
    twice = hub.signed(wrong(hub))
    for _ in range(20):
        await hub.admits(twice)

    assert hub.rows("SELECT 1 FROM breakers") == []


async def test_where_the_policy_says_so_commands_wait_for_a_persons_word(hub: Hub) -> None:
    await hub.has_policy(version=3, breaker=RULE.model_copy(update={"when_open": WhenOpen.APPROVE}))
    await trips(hub)
    command = right(hub)

    verdict = await said(hub, command)
    row = await hub.row(command)
    request = ApproveRequest(sha256=row.sha256, device=TV)
    await hub.now.approving.approve(command.id, request, ROOT)
    await hub.now.upkeep.look()

    assert isinstance(verdict, Hold)
    assert verdict.reason is Reason.NEEDS_APPROVAL
    assert await hub.has_work()


async def test_where_the_policy_says_so_some_are_put_aside_as_dead_letters(hub: Hub) -> None:
    await hub.has_policy(version=3, breaker=RULE.model_copy(update={"when_open": WhenOpen.QUARANTINE}))
    await trips(hub)

    for _ in range(6):
        for _ in range(20):
            await said(hub, right(hub))

    assert hub.rows("SELECT count(*), min(reason) FROM dead_letters") == [(100, "breaker_open")]


async def test_where_the_policy_says_so_one_in_a_while_is_taken(hub: Hub) -> None:
    await hub.has_policy(version=3, breaker=RULE.model_copy(update={"when_open": WhenOpen.SLOW}))
    await trips(hub)

    first = await said(hub, right(hub))
    second = await said(hub, right(hub))
    hub.passes(RULE.slow_pace)
    third = await said(hub, right(hub))

    assert [type(each) for each in (first, second, third)] == [Accept, Refuse, Accept]


@pytest.mark.requirement("T9")
@pytest.mark.parametrize(("how", "judged"), [(WhenOpen.SLOW, 1), (WhenOpen.APPROVE, 0)])
async def test_a_storm_of_wrong_commands_fills_no_record_where_right_ones_are_slowed_or_wait(
    hub: Hub, how: WhenOpen, judged: int
) -> None:
    await hub.has_policy(version=3, breaker=RULE.model_copy(update={"when_open": how}))
    await trips(hub)

    for _ in range(10):
        await hub.admits(*[wrong(hub) for _ in range(20)])

    assert hub.rows("SELECT count(*) FROM inbox") == [(RULE.refusals + judged,)]
    assert len(await hub.audited(AuditKind.COMMAND_REFUSED)) == RULE.refusals + judged
    assert len(await hub.audited(AuditKind.BREAKER_REFUSED)) == 1


async def test_a_person_trips_and_resets_one(hub: Hub) -> None:
    desk, request = hub.now.breakers, BreakerRequest(action=POWER, origin="desk", reason="a drill")

    await desk.trip(request, ROOT)
    hub.passes(timedelta(days=2))
    shut = await said(hub, hub.command(POWER, on=True))
    report = await desk.reset(request, ROOT)

    assert isinstance(shut, Refuse)
    assert report.breakers == []
    assert isinstance(await said(hub, hub.command(POWER, on=True)), Accept)
    [opened] = await hub.audited(AuditKind.BREAKER_OPENED)
    assert (opened["actor"], opened["why"]) == (ROOT, "a drill")
    with pytest.raises(RejectedError, match="closed"):
        await desk.reset(request, ROOT)
    with pytest.raises(RejectedError, match="no key is called nobody-here"):
        await desk.trip(request.model_copy(update={"origin": "nobody-here"}), ROOT)
    assert len(await hub.audited(AuditKind.BREAKER_CLOSED)) == 1


async def test_half_as_many_are_worked_at_once_while_one_is_open(hub: Hub) -> None:
    breakers = hub.now.breakers
    before = breakers.breakers.most(hub.keys.policy().actions[POWER].tier, 4)

    await breakers.trip(BreakerRequest(action=POWER, origin="desk", reason="a drill"), ROOT)

    assert (before, breakers.breakers.most(hub.keys.policy().actions[POWER].tier, 4)) == (4, 2)


async def test_what_was_let_in_before_it_opened_is_worked(hub: Hub) -> None:
    await is_on(hub)
    command = right(hub)
    await said(hub, command)
    await trips(hub)

    hub.passes(SECOND)
    await hub.works_all()

    assert (await hub.ended(command)).outcome == "succeeded"


async def test_tries_that_have_to_be_repeated_and_leases_that_are_lost_are_counted(hub: Hub) -> None:
    now = hub.now.breakers
    command = right(hub)
    await said(hub, command)
    row = await hub.row(command)

    for _ in range(2):
        await hub.store.write(lambda tx: now.breakers.lease_lost(tx, row))
    await hub.store.write(lambda tx: now.breakers.postponed(tx, row, Reason.RETRYING))
    await hub.store.write(lambda tx: now.breakers.postponed(tx, row, Reason.DEVICE_OFFLINE))

    [report] = (await now.report()).breakers
    assert report.counted == {"lease_lost": 1, "retried": 1}
