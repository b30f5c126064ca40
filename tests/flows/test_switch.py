"""The kill switch: orders by the queue and by hand, what they end, what they leave, what they survive."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.event import EventType
from edgeagent.contracts.order import ORDER_BYTES, ORDER_TYPE, Order, Verb
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.reports.switch import SwitchRequest
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.envelope import sign
from edgeagent.core.gate.verdict import Accept, Duplicate, Hold, Refuse
from edgeagent.core.lifecycle import State
from edgeagent.core.stops import Obey
from edgeagent.errors import RejectedError, StorageError
from edgeagent.flows.forgetting import KEPT, Forgetting
from edgeagent.flows.switch import Said
from edgeagent.ports.crash import CrashPoint
from tests.flows.approvals import Others, acted, have_a_say, order, signed
from tests.flows.commanding import Hub, new_hub
from tests.flows.signing import MILLISECOND, MINUTE, POWER, REBOOT, SECOND, VOLUME
from tests.support.keys import MemoryKey
from tests.support.stores import full_disk

pytestmark = pytest.mark.requirement("B3")

ROOT = "uid:0 root"


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub with a television."""
    async with new_hub(tmp_path) as made:
        await made.television()
        yield made


@pytest.fixture
async def others(hub: Hub) -> Others:
    """Who may approve, and who may stop."""
    return await have_a_say(hub)


async def obeys(hub: Hub, key: MemoryKey, *orders: Order) -> list[Said]:
    """Let orders come in, together."""
    return await hub.now.switch.obey([signed(each, key) for each in orders])


async def stops(hub: Hub, kind: str = "all", verb: Verb = Verb.STOP) -> None:
    """Somebody at the hub throws the switch."""
    await hub.now.switch.throw(SwitchRequest(kind=kind, why="fire drill"), verb, ROOT)


async def why_refused(hub: Hub, command: object) -> Reason:
    """Why a command that comes now is refused."""
    [verdict] = await hub.admits(command)  # type: ignore[arg-type]  # a command
    assert isinstance(verdict, Refuse), verdict
    return verdict.reason


async def test_a_stop_refuses_what_comes_and_what_waits_in_one_commit(hub: Hub, others: Others) -> None:
    queued, held = hub.command(POWER), hub.command(REBOOT)
    await hub.admits(queued, held)

    [said] = await obeys(hub, others.guard, order(hub))

    assert said == Obey(others.guard.id)
    for command in (queued, held):
        receipt = await hub.ended(command)
        assert (receipt.outcome, receipt.reason, receipt.attempts) == (Outcome.REFUSED, Reason.STOPPED, 0)
    assert not await hub.has_work()
    assert await why_refused(hub, hub.command(VOLUME, level=20)) is Reason.STOPPED
    [(_, told)] = await hub.records(EventType.STOPPED)
    assert (told["order"], told["kind"], told["by"], told["refused"]) == ("o-1", "all", others.guard.id, 2)
    [act] = await hub.audited(AuditKind.STOPPED_KIND)
    assert (act["subject"], act["actor"], act["why"]) == ("all", others.guard.id, "smoke")


async def test_a_resume_lets_new_ones_in_and_revives_nothing(hub: Hub, others: Others) -> None:
    before = hub.command(POWER)
    await hub.admits(before)
    await obeys(hub, others.guard, order(hub))
    hub.passes(SECOND)

    await obeys(hub, others.guard, order(hub, Verb.RESUME, name="o-2"))

    assert (await hub.row(before)).state is State.REFUSED
    assert not await hub.has_work()
    [again] = await hub.admits(before)
    assert isinstance(again, Duplicate)
    [verdict] = await hub.admits(hub.command(POWER))
    assert isinstance(verdict, Accept)
    [(_, told)] = await hub.records(EventType.RESUMED)
    assert told["order"] == "o-2"


@pytest.mark.parametrize(
    ("kind", "ended", "left"),
    [("tier:high", {REBOOT}, {POWER, VOLUME}), ("action:volume", {VOLUME}, {POWER, REBOOT})],
)
@pytest.mark.usefixtures("others")
async def test_only_its_own_kind_is_stopped(hub: Hub, kind: str, ended: set[str], left: set[str]) -> None:
    commands = [hub.command(POWER), hub.command(VOLUME, level=20), hub.command(REBOOT)]
    await hub.admits(*commands)

    await stops(hub, kind)

    states = {each.action: (await hub.row(each)).state for each in commands}
    assert {action for action, state in states.items() if state is State.REFUSED} == ended
    assert {action for action, state in states.items() if state is not State.REFUSED} == left


async def test_the_kinds_do_not_free_each_other(hub: Hub) -> None:
    await stops(hub, "all")
    await stops(hub, "action:power")

    await stops(hub, "all", Verb.RESUME)

    assert await why_refused(hub, hub.command(POWER)) is Reason.STOPPED
    [verdict] = await hub.admits(hub.command(VOLUME, level=20))
    assert isinstance(verdict, Accept)


@pytest.mark.parametrize("first", Verb)
async def test_of_two_orders_the_later_one_counts_in_whatever_order_they_come(
    hub: Hub, others: Others, first: Verb
) -> None:
    second = Verb.RESUME if first is Verb.STOP else Verb.STOP
    early, late = order(hub, first), order(hub, second, name="o-2", sequence=order(hub).sequence + 1)

    said = await obeys(hub, others.guard, late, early)

    assert [type(each) for each in said] == [Obey, Refuse]
    [stop] = hub.now.switch.stops().stops
    assert stop.stopped is (second is Verb.STOP)
    [(_, told)] = await hub.records(EventType.REFUSED)
    assert (told["command"], told["reason"]) == ("o-1", "not_later")
    [act] = await hub.audited(AuditKind.ORDER_REFUSED)
    assert act["subject"] == "o-1"


async def test_an_old_order_that_comes_again_changes_nothing(hub: Hub, others: Others) -> None:
    stop = order(hub)
    await obeys(hub, others.guard, stop)
    await stops(hub, "all", Verb.RESUME)
    await hub.starts_anew()

    for _ in range(3):
        [said] = await obeys(hub, others.guard, stop)
        assert isinstance(said, Duplicate)

    [verdict] = await hub.admits(hub.command(POWER))
    assert isinstance(verdict, Accept)
    assert len(await hub.records(EventType.STOPPED)) == 1


@pytest.mark.parametrize(
    ("key", "changes", "reason"),
    [
        pytest.param("desk", {}, Reason.BAD_SIGNATURE, id="an operator's"),
        pytest.param("chief", {}, Reason.BAD_SIGNATURE, id="an approver's"),
        pytest.param("stranger", {}, Reason.BAD_SIGNATURE, id="a stranger's"),
        pytest.param("guard", {"hub": "venue-8"}, Reason.WRONG_HUB, id="for another hub"),
        pytest.param("guard", {"epoch": "0" * 20}, Reason.WRONG_EPOCH, id="of another epoch"),
    ],
)
async def test_a_wrong_order_is_refused_and_nothing_is_stopped(
    hub: Hub, others: Others, key: str, changes: dict[str, object], reason: Reason
) -> None:
    keys = {"desk": hub.keys.desk, "chief": others.chief, "stranger": MemoryKey(), "guard": others.guard}

    [said] = await obeys(hub, keys[key], order(hub).model_copy(update=changes))

    assert isinstance(said, Refuse)
    assert said.reason is reason
    assert hub.now.switch.stops().stops == []
    [verdict] = await hub.admits(hub.command(POWER))
    assert isinstance(verdict, Accept)


@pytest.mark.requirement("T9")
async def test_another_order_under_a_known_id_is_counted_however_often_it_comes(
    hub: Hub, others: Others
) -> None:
    known = order(hub, kind="action:volume")
    other = order(hub, kind="all", name=known.id)
    await obeys(hub, others.guard, known)

    said = [each for _ in range(3) for each in await obeys(hub, others.guard, other, other)]

    assert {each.reason for each in said if isinstance(each, Refuse)} == {Reason.ID_CONFLICT}
    assert [stop.kind for stop in hub.now.switch.stops().stops] == ["action:volume"]
    [counted] = await hub.audited(AuditKind.COMMAND_REPLAYED)
    assert (counted["reason"], counted["count"]) == ("id_conflict", 2)
    assert await hub.audited(AuditKind.ORDER_REFUSED) == []


@pytest.mark.requirement("T9")
async def test_nonsense_is_counted_by_reason_however_much_comes_together(hub: Hub, others: Others) -> None:
    good = signed(order(hub), others.guard)
    flood = [
        good[:-10],
        b"",
        b"{}",
        b"[" * 3000,
        sign(b"{}", ORDER_TYPE, [MemoryKey()]),
        b" " * (ORDER_BYTES + 1),
    ]

    said = await hub.now.switch.obey([*flood, good])

    assert [type(each) for each in said] == [Refuse] * len(flood) + [Obey]
    counts = {act["reason"]: act["count"] for act in await hub.audited(AuditKind.COMMANDS_UNVERIFIED)}
    assert counts == {"malformed": 4, "bad_signature": 1, "too_large": 1}
    assert len(await hub.records(EventType.REFUSED)) == 3


@pytest.mark.requirement("T5")
async def test_while_the_time_is_not_known_a_stop_holds_and_a_resume_does_not(
    hub: Hub, others: Others
) -> None:
    await hub.reboots()

    [stopped] = await obeys(hub, others.guard, order(hub))
    [resumed] = await obeys(
        hub, others.guard, order(hub, Verb.RESUME, name="o-2", sequence=order(hub).sequence + 1)
    )

    assert isinstance(stopped, Obey)
    assert isinstance(resumed, Refuse)
    assert resumed.reason is Reason.CLOCK_UNSURE
    assert await why_refused(hub, hub.command(POWER)) is Reason.STOPPED


@pytest.mark.requirement("T5")
async def test_what_was_stopped_before_the_time_was_known_is_resumed_at_the_hub_only(
    hub: Hub, others: Others
) -> None:
    """A resume that was signed earlier and kept back looks later than a stop by a clock that is behind."""
    kept_back = order(hub, Verb.RESUME)
    now = hub.readings.wall()
    await hub.reboots()
    hub.readings.is_set(now - MINUTE)
    await stops(hub)
    hub.time_is_known(now + SECOND)

    [said] = await obeys(hub, others.guard, kept_back)

    assert isinstance(said, Refuse)
    assert said.reason is Reason.CLOCK_UNSURE
    assert await why_refused(hub, hub.command(POWER)) is Reason.STOPPED
    await stops(hub, "all", Verb.RESUME)
    [verdict] = await hub.admits(hub.command(POWER))
    assert isinstance(verdict, Accept)


async def test_a_stop_survives_the_agent_and_a_power_cut(hub: Hub) -> None:
    await stops(hub)

    await hub.starts_anew()
    assert await why_refused(hub, hub.command(POWER)) is Reason.STOPPED
    await hub.reboots()

    hub.time_is_known()
    assert await why_refused(hub, hub.command(POWER)) is Reason.STOPPED
    assert hub.now.around.metrics.registry.get_sample_value("edgeagent_stopped_kinds") == 1


async def test_one_that_was_begun_and_not_sent_is_refused_right_before_the_step(hub: Hub) -> None:
    command = hub.command(POWER)
    await hub.admits(command)
    claim = await hub.claims()

    await stops(hub)
    await hub.now.dispatch[Tier.LOW].work(claim)

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason, receipt.attempts) == (Outcome.REFUSED, Reason.STOPPED, 0)
    assert acted(hub) == 0
    assert not await hub.has_work()


async def test_one_whose_step_is_recorded_while_the_switch_is_thrown_never_leaves(hub: Hub) -> None:
    command = hub.command(POWER)
    await hub.admits(command)
    claim = await hub.claims()
    thrown = hub.now.worlds.stops

    def throw() -> None:
        # What the commit of a stop does to the memory, at the worst of moments.
        thrown.standings = list(standings)

    await stops(hub, "action:power")
    standings = thrown.standings
    thrown.standings = []
    hub.points.happens_at(CrashPoint.STEP_RECORDED, throw)
    await hub.now.dispatch[Tier.LOW].work(claim)

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason, receipt.attempts) == (Outcome.REFUSED, Reason.STOPPED, 0)
    assert acted(hub) == 0


async def test_one_that_was_sent_runs_to_its_confirmation(hub: Hub) -> None:
    command = hub.command(POWER)
    hub.points.happens_at(CrashPoint.STEP_SENT, lambda: None)
    await hub.admits(command)
    await hub.is_killed(CrashPoint.STEP_SENT)
    await hub.starts()

    await stops(hub)
    await hub.works()

    receipt = await hub.ended(command)
    assert receipt.outcome in {Outcome.SUCCEEDED, Outcome.UNKNOWN, Outcome.FAILED}
    assert receipt.attempts == 1
    assert acted(hub) <= 1


async def test_resuming_what_is_not_stopped_is_refused(hub: Hub) -> None:
    before = hub.contents()

    with pytest.raises(RejectedError, match="all is not stopped"):
        await stops(hub, "all", Verb.RESUME)

    assert hub.contents() == before


async def test_who_is_at_the_hub_has_the_last_word_over_earlier_orders(hub: Hub, others: Others) -> None:
    stop = order(hub, sequence=order(hub).sequence + (timedelta(hours=2) // MILLISECOND << 20))
    await obeys(hub, others.guard, stop)

    await stops(hub, "all", Verb.RESUME)

    [verdict] = await hub.admits(hub.command(POWER))
    assert isinstance(verdict, Accept)
    [act] = await hub.audited(AuditKind.RESUMED_KIND)
    assert act["actor"] == ROOT


@pytest.mark.requirement("T4")
async def test_old_orders_are_forgotten_a_batch_at_a_time_and_none_of_them_comes_back(
    hub: Hub, others: Others
) -> None:
    """Also on a clock that somebody set back, and when it was not the last word then."""
    refused, first = order(hub, Verb.RESUME, name="o-2"), order(hub)
    await obeys(hub, others.guard, first, refused)
    forgetting = Forgetting(hub.now.store, hub.now.trust, hub.now.around)
    hub.passes(KEPT)
    hub.time_is_known()
    await forgetting.look()
    assert hub.rows("SELECT count(*) FROM orders") == [(2,)]
    hub.passes(timedelta(hours=2))
    hub.time_is_known()

    await forgetting.look()

    assert hub.rows("SELECT count(*) FROM orders") == [(0,)]
    assert hub.now.worlds.stops.kinds == {"all"}
    hub.time_is_known(first.issued_at + MINUTE)
    said = await obeys(hub, others.guard, first, refused)
    assert [each.reason for each in said if isinstance(each, Refuse)] == 2 * [Reason.EXPIRED]
    assert hub.now.worlds.stops.kinds == {"all"}


async def test_a_full_disk_takes_no_order_and_the_queue_keeps_it(hub: Hub, others: Others) -> None:
    raw = signed(order(hub), others.guard)

    with full_disk(hub.path), pytest.raises(StorageError):
        await hub.now.switch.obey([raw])

    assert hub.now.switch.stops().stops == []
    assert isinstance((await hub.now.switch.obey([raw]))[0], Obey)


@pytest.mark.usefixtures("others")
async def test_what_waits_for_approval_is_stopped_too(hub: Hub) -> None:
    command = hub.command(REBOOT)
    [verdict] = await hub.admits(command)
    assert isinstance(verdict, Hold)

    await stops(hub, "tier:high")

    assert (await hub.ended(command)).reason is Reason.STOPPED
