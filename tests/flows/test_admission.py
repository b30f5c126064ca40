"""Commands that come in: on record before anybody is told, known when they come again."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from edgeagent.contracts.command import COMMAND_BYTES, Command
from edgeagent.contracts.event import EventType
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.gate.verdict import Accept, Duplicate, Hold, Refuse, Verdict
from edgeagent.core.lifecycle import State
from edgeagent.flows.admission import Arrival
from edgeagent.ids import HubId, Operation, command_id, new_epoch
from tests.flows.commanding import Hub, new_hub
from tests.flows.signing import MINUTE, OTHER_TV, POWER, TV, VOLUME
from tests.support.keys import MemoryKey


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub with a television."""
    async with new_hub(tmp_path) as made:
        await made.television()
        yield made


def refused(verdict: Verdict) -> Reason:
    """Why a command was refused."""
    assert isinstance(verdict, Refuse), verdict
    return verdict.reason


def changed(command: Command, **fields: object) -> Command:
    """The command with other fields: other bytes under the same id."""
    return command.model_copy(update=fields)


@pytest.mark.requirement("Q3", "A1")
async def test_what_passes_is_queued_with_its_audit_row_in_one_commit(hub: Hub) -> None:
    command = hub.command(POWER, on=True)
    commits = hub.now.store.commits

    [verdict] = await hub.admits(command)

    assert isinstance(verdict, Accept)
    assert hub.now.store.commits == commits + 1
    row = await hub.row(command)
    assert (row.state, row.device, row.lane, row.slot, row.ordinal) == (State.QUEUED, TV, "low", "power", 1)
    assert row.issuer == row.actor == hub.keys.desk.id
    [act] = await hub.audited(AuditKind.COMMAND_ACCEPTED)
    assert (act["subject"], act["actor"], act["sha256"]) == (command.id, hub.keys.desk.id, row.sha256)
    assert (act["action"], act["arguments"], act["operation"]) == ("power", {"on": True}, command.operation)


@pytest.mark.requirement("Q3")
async def test_many_that_come_together_share_a_commit_and_stand_in_the_order_in_which_they_came(
    hub: Hub,
) -> None:
    commands = [hub.command(VOLUME, level=level) for level in range(20)]
    commits = hub.now.store.commits

    verdicts = await hub.admits(*commands)

    assert all(isinstance(verdict, Accept) for verdict in verdicts)
    assert hub.now.store.commits == commits + 1
    runs = hub.rows("SELECT command FROM inbox ORDER BY run")
    assert runs == [(command.id,) for command in commands]


@pytest.mark.requirement("T9", "V4")
async def test_what_is_refused_is_on_record_with_a_receipt_and_takes_nothing_else(hub: Hub) -> None:
    command = hub.command(POWER, device=OTHER_TV)

    [verdict] = await hub.admits(command)

    assert refused(verdict) is Reason.DEVICE_UNKNOWN
    row = await hub.row(command)
    assert (row.state, row.reason) == (State.REFUSED, Reason.DEVICE_UNKNOWN)
    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason, receipt.fence) == (Outcome.REFUSED, Reason.DEVICE_UNKNOWN, 0)
    [act] = await hub.audited(AuditKind.COMMAND_REFUSED)
    assert (act["subject"], act["reason"]) == (command.id, Reason.DEVICE_UNKNOWN)
    assert hub.rows("SELECT * FROM operations") == hub.rows("SELECT * FROM locks") == []
    assert not await hub.has_work()


# What comes again.


@pytest.mark.requirement("T4", "Q3")
async def test_one_that_comes_again_while_it_is_open_changes_nothing(hub: Hub) -> None:
    envelope = hub.signed(hub.command(POWER, on=True))
    await hub.admits(envelope)
    stands = hub.rows("SELECT * FROM inbox"), hub.rows("SELECT * FROM operations")

    [verdict] = await hub.admits(envelope)

    assert isinstance(verdict, Duplicate)
    assert (hub.rows("SELECT * FROM inbox"), hub.rows("SELECT * FROM operations")) == stands
    assert await hub.records(EventType.RECEIPT) == []


@pytest.mark.requirement("T4")
async def test_a_replay_is_answered_with_the_same_event_and_not_done_again(hub: Hub) -> None:
    envelope = hub.signed(command := hub.command(POWER, on=True))
    await hub.admits(envelope)
    await hub.works()
    [(number, receipt)] = await hub.records(EventType.RECEIPT)
    sent = len(hub.bus.published)
    await hub.uploads(number)
    assert await hub.records(EventType.RECEIPT) == []

    verdicts = [verdict for _ in range(100) for verdict in await hub.admits(envelope)]

    assert all(isinstance(verdict, Duplicate) for verdict in verdicts)
    assert await hub.records(EventType.RECEIPT) == [(number, receipt)]
    assert (len(hub.bus.published), await hub.has_work()) == (sent, False)
    assert hub.rows("SELECT count(*) FROM inbox") == [(1,)]
    [counted] = await hub.audited(AuditKind.COMMAND_REPLAYED)
    assert (counted["actor"], counted["count"]) == (hub.keys.desk.id, 1)
    assert str(command.id) in str(counted["samples"])


@pytest.mark.requirement("T4", "R5")
async def test_a_replay_is_known_after_a_restart_and_long_after_its_end(hub: Hub) -> None:
    envelope = hub.signed(hub.command(POWER, on=True))
    await hub.admits(envelope)
    await hub.works()
    await hub.starts_anew()
    hub.passes(60 * 24 * 60 * MINUTE)

    [verdict] = await hub.admits(envelope)

    assert isinstance(verdict, Duplicate)


@pytest.mark.requirement("T4", "T9")
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"hub": HubId("venue-8")}, Reason.WRONG_HUB, id="for another hub"),
        pytest.param({"epoch": new_epoch(1, 1)}, Reason.WRONG_EPOCH, id="for another epoch"),
        pytest.param({"devices": [OTHER_TV]}, Reason.DEVICE_UNKNOWN, id="for another device"),
    ],
)
async def test_a_refused_one_that_comes_again_gets_the_same_receipt(
    hub: Hub, fields: dict[str, object], expected: Reason
) -> None:
    envelope = hub.signed(changed(hub.command(POWER, on=True), **fields))
    [first] = await hub.admits(envelope)
    assert refused(first) is expected
    told = await hub.records(EventType.RECEIPT)

    again = await hub.admits(envelope, envelope)

    assert all(isinstance(verdict, Duplicate) for verdict in again)
    assert await hub.records(EventType.RECEIPT) == told
    assert hub.rows("SELECT count(*) FROM inbox") == [(1,)]


@pytest.mark.requirement("T4")
async def test_one_that_comes_twice_in_one_batch_is_let_in_once(hub: Hub) -> None:
    envelope = hub.signed(hub.command(POWER, on=True))

    first, second = await hub.admits(envelope, envelope)

    assert isinstance(first, Accept)
    assert isinstance(second, Duplicate)


@pytest.mark.requirement("T4", "Q3")
async def test_fifty_that_come_at_the_same_moment_are_let_in_once(hub: Hub) -> None:
    envelope = hub.signed(hub.command(POWER, on=True))

    verdicts = await asyncio.gather(*(hub.admits(envelope) for _ in range(50)))

    kinds = [type(verdict) for [verdict] in verdicts]
    assert kinds.count(Accept) == 1
    assert kinds.count(Duplicate) == 49
    await hub.works_all()
    assert len(hub.bus.published) == 1


@pytest.mark.requirement("T3")
async def test_signatures_in_another_order_or_number_are_the_same_command(hub: Hub) -> None:
    command = hub.command(POWER, on=True)
    await hub.admits(hub.signed(command, hub.keys.desk, hub.keys.night))

    for signers in ((hub.keys.night, hub.keys.desk), (hub.keys.night,), (hub.keys.desk,)):
        [verdict] = await hub.admits(hub.signed(command, *signers))
        assert isinstance(verdict, Duplicate)


# What would take another's place.


@pytest.mark.requirement("T4", "T9")
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"arguments": {"on": False}}, id="other arguments"),
        pytest.param({"hub": HubId("venue-8")}, id="another hub"),
        pytest.param({"epoch": new_epoch(1, 1)}, id="another epoch"),
        pytest.param({"operation": Operation("another")}, id="another operation"),
    ],
)
@pytest.mark.parametrize("is_over", [False, True], ids=["open", "over"])
async def test_other_bytes_under_a_known_id_are_refused_and_the_first_stands(
    hub: Hub,
    fields: dict[str, object],
    is_over: bool,  # noqa: FBT001 - a column of the table
) -> None:
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    if is_over:
        await hub.works()
    stands = hub.rows("SELECT * FROM inbox"), hub.rows("SELECT * FROM receipts")

    [verdict] = await hub.admits(changed(command, **fields))

    assert isinstance(verdict, Refuse)
    assert (hub.rows("SELECT * FROM inbox"), hub.rows("SELECT * FROM receipts")) == stands
    [(_, told)] = await hub.records(EventType.REFUSED)
    assert (told["command"], told["reason"]) == (command.id, verdict.reason)
    [act] = await hub.audited(AuditKind.COMMAND_REFUSED)
    assert act["subject"] == command.id


@pytest.mark.requirement("T4")
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="the same hub"),
        pytest.param({"hub": HubId("venue-8")}, id="another hub"),
        pytest.param({"arguments": {"on": 1}}, id="one that would be refused"),
    ],
)
async def test_a_sequence_is_used_once_for_each_issuer_and_device(
    hub: Hub, fields: dict[str, object]
) -> None:
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    stands = hub.rows("SELECT * FROM inbox")
    other = changed(command, id=command_id("another"), operation=Operation("another"), **fields)

    [verdict] = await hub.admits(other)

    assert isinstance(verdict, Refuse)
    assert hub.rows("SELECT * FROM inbox") == stands
    assert [told["command"] for _, told in await hub.records(EventType.REFUSED)] == [other.id]


@pytest.mark.requirement("T4")
async def test_another_issuer_and_another_device_have_sequences_of_their_own(hub: Hub) -> None:
    await hub.television(OTHER_TV)
    command = hub.command(POWER, on=True)
    other_device = changed(command, id=command_id("b"), operation=Operation("b"), devices=[OTHER_TV])
    other_issuer = changed(command, id=command_id("c"), operation=Operation("c"))

    verdicts = await hub.admits(command, other_device, hub.signed(other_issuer, hub.keys.night))

    assert all(isinstance(verdict, Accept) for verdict in verdicts)


# What nobody known has signed.


@pytest.mark.requirement("T9", "T1")
async def test_unverified_ones_are_counted_by_reason_and_make_no_row(hub: Hub) -> None:
    forged = [hub.signed(hub.command(POWER), MemoryKey()) for _ in range(7)]
    garbage = [b"", b"{}", b"x" * (COMMAND_BYTES + 1)]

    verdicts = await hub.admits(*forged, *garbage)

    assert [refused(verdict) for verdict in verdicts] == [
        *[Reason.BAD_SIGNATURE] * 7,
        *[Reason.MALFORMED] * 2,
        Reason.TOO_LARGE,
    ]
    counted = await hub.audited(AuditKind.COMMANDS_UNVERIFIED)
    assert {(row["reason"], row["count"]) for row in counted} == {
        (Reason.BAD_SIGNATURE, 7),
        (Reason.MALFORMED, 2),
        (Reason.TOO_LARGE, 1),
    }
    assert hub.rows("SELECT count(*) FROM inbox") == [(0,)]
    told = [data for _, data in await hub.records(EventType.REFUSED)]
    assert [(data["reason"], data["count"]) for data in told] == [
        (Reason.BAD_SIGNATURE, 7),
        (Reason.MALFORMED, 2),
        (Reason.TOO_LARGE, 1),
    ]


@pytest.mark.requirement("T9")
async def test_good_ones_among_bad_ones_are_let_in(hub: Hub) -> None:
    good = hub.command(POWER, on=True)

    verdicts = await hub.admits(b"x", good, hub.signed(hub.command(POWER), MemoryKey()), b"y")

    assert [type(verdict) for verdict in verdicts] == [Refuse, Accept, Refuse, Refuse]
    assert (await hub.row(good)).state is State.QUEUED


@pytest.mark.requirement("V6")
async def test_what_was_typed_without_a_role_says_so_and_names_who_typed_it(hub: Hub) -> None:
    await hub.has_policy(version=2, roles={"operators": hub.keys.policy().roles["operators"]})

    verdict = await hub.admits_local(hub.command(POWER, on=True))

    assert refused(verdict) is Reason.NOT_ALLOWED
    [counted] = await hub.audited(AuditKind.COMMANDS_UNVERIFIED)
    assert (counted["actor"], counted["reason"]) == ("uid:1000 anna", Reason.NOT_ALLOWED)


@pytest.mark.requirement("T2", "G3")
async def test_without_a_policy_everything_is_refused_and_says_so(tmp_path: Path) -> None:
    hub = Hub(tmp_path)
    await hub.starts()

    [verdict] = await hub.admits(hub.command(POWER))
    typed = await hub.admits_local(hub.command(POWER))

    assert refused(verdict) is refused(typed) is Reason.NO_POLICY
    assert hub.rows("SELECT count(*) FROM inbox") == [(0,)]
    await hub.dies()


@pytest.mark.requirement("V6", "A1")
async def test_what_was_typed_here_is_on_record_under_who_typed_it(hub: Hub) -> None:
    command = hub.command(POWER, on=True)

    verdict = await hub.admits_local(command)

    assert isinstance(verdict, Accept)
    row = await hub.row(command)
    assert (row.issuer, row.actor) == (hub.keys.hub.id, "uid:1000 anna")
    [act] = await hub.audited(AuditKind.COMMAND_ACCEPTED)
    assert act["actor"] == "uid:1000 anna"


@pytest.mark.requirement("T5")
async def test_one_that_cannot_be_told_yet_is_held_and_says_why(hub: Hub) -> None:
    command = hub.command(POWER, issued=2 * MINUTE)

    [verdict] = await hub.admits(command)

    assert isinstance(verdict, Hold)
    row = await hub.row(command)
    assert (row.state, row.reason) == (State.HELD, Reason.NOT_YET_VALID)
    [act] = await hub.audited(AuditKind.COMMAND_HELD)
    assert (act["subject"], act["reason"]) == (command.id, Reason.NOT_YET_VALID)
    assert hub.rows("SELECT * FROM operations") == []
    assert not await hub.has_work()


@pytest.mark.requirement("Q3")
async def test_an_empty_batch_is_nothing(hub: Hub) -> None:
    before = hub.contents()

    assert await hub.now.admission.admit([]) == []

    assert hub.contents() == before
    assert Arrival(b"").actor is None
