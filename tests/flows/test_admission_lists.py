"""One command for several devices: taken whole, in one commit, and a matter of its own on each of them."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import COMMAND_BYTES
from edgeagent.contracts.event import EventType
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.envelope import merged
from edgeagent.core.gate.verdict import Accept, AddSignatures, Duplicate, Hold, Refuse
from edgeagent.core.lifecycle import State
from edgeagent.ids import DeviceId
from edgeagent.store.database import Transaction
from tests.flows.commanding import Hub, new_hub
from tests.flows.signing import POWER, TV
from tests.support.keys import MemoryKey

pytestmark = pytest.mark.requirement("T3")

BAR, HALL, LOCKED, NOBODY = (DeviceId(f"tv-{name}") for name in ("bar", "hall", "locked", "nobody"))
ALL = (TV, BAR, HALL)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub with three televisions."""
    async with new_hub(tmp_path) as hub:
        for device in ALL:
            await hub.television(device)
        yield hub


async def test_one_command_becomes_a_row_for_each_device_in_one_commit(hub: Hub) -> None:
    command = hub.command(POWER, on=True, device=ALL)
    before = hub.store.commits

    verdicts = await hub.admits(command)

    assert hub.store.commits == before + 1
    assert [type(verdict) for verdict in verdicts] == [Accept] * 3
    rows = [await hub.row(command, device) for device in ALL]
    assert [(row.state, row.ordinal) for row in rows] == [(State.QUEUED, 1)] * 3
    assert len({row.operation for row in rows}) == 3
    accepted = await hub.audited(AuditKind.COMMAND_ACCEPTED)
    assert [(act["subject"], act["device"]) for act in accepted] == [(command.id, each) for each in ALL]


async def test_each_device_is_judged_and_ends_on_its_own(hub: Hub) -> None:
    tv = await hub.television(LOCKED)
    tv.refuses("child lock")
    command = hub.command(POWER, on=True, device=(LOCKED, NOBODY, BAR))

    verdicts = await hub.admits(command)
    await hub.works_all()

    assert [type(verdict) for verdict in verdicts] == [Accept, Refuse, Accept]
    told = {device: await hub.receipt(command, device) for device in (LOCKED, NOBODY, BAR)}
    assert {device: receipt and receipt.outcome for device, receipt in told.items()} == {
        LOCKED: Outcome.FAILED,
        NOBODY: Outcome.REFUSED,
        BAR: Outcome.SUCCEEDED,
    }
    assert {receipt.device for receipt in told.values() if receipt} == {LOCKED, NOBODY, BAR}
    assert len(await hub.records(EventType.RECEIPT)) == 3
    assert sorted(hub.rows("SELECT device, fence FROM locks")) == [(BAR, 1), (LOCKED, 1)]


@pytest.mark.requirement("T4")
async def test_a_replay_tells_every_devices_stored_result_again_under_the_same_numbers(hub: Hub) -> None:
    envelope = hub.signed(command := hub.command(POWER, on=True, device=(TV, NOBODY, BAR)))
    await hub.admits(envelope)
    await hub.works_all()
    told = await hub.records(EventType.RECEIPT)
    await hub.uploads(*(number for number, _ in told))
    sent, rows = len(hub.bus.published), hub.rows("SELECT * FROM inbox")

    again = await hub.admits(envelope)

    assert [type(verdict) for verdict in again] == [Duplicate] * 3
    assert await hub.records(EventType.RECEIPT) == told
    assert {str(data["device"]) for _, data in told} == {TV, NOBODY, BAR}
    assert all(data["command"] == command.id for _, data in told)
    assert (len(hub.bus.published), hub.rows("SELECT * FROM inbox")) == (sent, rows)


@pytest.mark.requirement("T4")
@pytest.mark.parametrize("devices", [(HALL,), (TV,), (TV, BAR, HALL), (BAR, TV)])
async def test_the_same_id_around_another_list_is_a_conflict_and_changes_nothing(
    hub: Hub, devices: tuple[DeviceId, ...]
) -> None:
    first = hub.command(POWER, id_="c-1", device=(TV, BAR), on=True)
    await hub.admits(first)
    rows = hub.rows("SELECT * FROM inbox")

    verdicts = await hub.admits(hub.command(POWER, id_="c-1", device=devices, on=False))

    assert [verdict.reason for verdict in verdicts if isinstance(verdict, Refuse)] == [
        Reason.ID_CONFLICT
    ] * len(devices)
    assert hub.rows("SELECT * FROM inbox") == rows
    refused = await hub.records(EventType.REFUSED)
    assert {data["reason"] for _, data in refused} == {Reason.ID_CONFLICT}


@pytest.mark.requirement("T4", "T7")
async def test_signatures_are_added_to_every_held_row(tmp_path: Path) -> None:
    async with new_hub(tmp_path) as hub:
        for device in ALL:
            await hub.television(device)
        await hub.starts_anew(is_proven=False)
        command = hub.command(POWER, on=True, device=ALL)
        assert all(isinstance(verdict, Hold) for verdict in await hub.admits(command))

        verdicts = await hub.admits(hub.signed(command, hub.keys.night))

        assert all(isinstance(verdict, AddSignatures) for verdict in verdicts)
        for device in ALL:
            row = await hub.row(command, device)
            assert (row.state, set(row.signers)) == (State.HELD, {hub.keys.desk.id, hub.keys.night.id})


@pytest.mark.requirement("T3", "T7")
async def test_a_list_keeps_its_envelope_once_also_when_signatures_are_added(tmp_path: Path) -> None:
    async with new_hub(tmp_path) as hub:
        for device in ALL:
            await hub.television(device)
        await hub.starts_anew(is_proven=False)
        command, other = hub.command(POWER, on=True, device=ALL), hub.command(POWER, on=True)
        await hub.admits(command, other)
        kept = "SELECT count(*), count(envelope), count(DISTINCT envelope_of) FROM inbox WHERE command = '{}'"
        assert hub.rows(kept.format(command.id)) == [(len(ALL), 1, 1)]

        await hub.admits(hub.signed(command, hub.keys.night))

        assert hub.rows(kept.format(command.id)) == [(len(ALL), 1, 1)]
        envelopes = {(await hub.row(command, device)).envelope for device in ALL}
        assert envelopes == {merged(hub.signed(command), hub.signed(command, hub.keys.night))}
        assert (await hub.row(other)).envelope == hub.signed(other)


@pytest.mark.requirement("T5")
async def test_a_held_list_goes_on_in_one_commit_when_the_time_is_known(hub: Hub) -> None:
    await hub.starts_anew(is_proven=False)
    command = hub.command(POWER, on=True, device=ALL)
    await hub.admits(command)
    await hub.now.upkeep.look()
    hub.time_is_known()
    before = hub.store.commits

    await hub.now.upkeep.look()

    assert hub.store.commits == before + 1
    assert {(await hub.row(command, device)).state for device in ALL} == {State.QUEUED}


@pytest.mark.requirement("T4")
async def test_a_later_command_for_one_device_supersedes_that_row_alone(hub: Hub) -> None:
    early = hub.command(POWER, on=True, device=ALL)
    late = hub.command(POWER, on=False, device=BAR)

    await hub.admits(late, early)

    assert [(await hub.row(early, device)).state for device in ALL] == [
        State.QUEUED,
        State.REFUSED,
        State.QUEUED,
    ]
    assert (await hub.row(early, BAR)).reason is Reason.SUPERSEDED


@pytest.mark.requirement("I1")
async def test_an_operation_is_done_on_the_devices_where_it_is_and_goes_on_where_it_is_not(hub: Hub) -> None:
    await hub.admits(hub.command(ActionName.TOGGLE, operation="ticket-7", device=(TV, BAR)))
    await hub.works_all()

    verdicts = await hub.admits(hub.command(ActionName.TOGGLE, operation="ticket-7", device=ALL))

    assert [verdict.reason if isinstance(verdict, Refuse) else None for verdict in verdicts] == [
        Reason.OPERATION_DONE,
        Reason.OPERATION_DONE,
        None,
    ]


@pytest.mark.requirement("L1")
async def test_the_devices_of_a_list_are_worked_side_by_side(hub: Hub) -> None:
    await hub.admits(hub.command(POWER, on=True, device=ALL))

    claims = [await hub.claims() for _ in ALL]

    assert [claim.device for claim in claims] == list(ALL)
    assert len({claim.token for claim in claims}) == 3


@pytest.mark.requirement("T1")
async def test_a_row_under_a_device_that_its_envelope_does_not_name_is_ended_and_sends_nothing(
    hub: Hub,
) -> None:
    command = hub.command(POWER, on=True, device=TV)
    await hub.admits(command)
    for table in ("inbox", "lines"):
        await hub.store.write(partial(_is_tampered_with, table))
    sent = len(hub.bus.published)

    await hub.works_until(lambda: hub.receipt(command))

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.REFUSED, Reason.MALFORMED)
    assert len(hub.bus.published) == sent


async def test_the_longest_list_with_all_signatures_fits_and_is_admitted(hub: Hub) -> None:
    devices = [DeviceId(f"{number:064d}") for number in range(256)]
    command = hub.command(POWER, on=True, device=devices)
    envelope = hub.signed(command, hub.keys.desk, *(MemoryKey() for _ in range(7)))

    verdicts = await hub.admits(envelope)

    assert len(envelope) < COMMAND_BYTES
    assert len(verdicts) == 256
    assert hub.rows("SELECT count(*), count(DISTINCT device) FROM inbox") == [(256, 256)]


@pytest.mark.requirement("Q3")
async def test_long_lists_that_come_together_are_each_whole_and_not_all_in_one_commit(hub: Hub) -> None:
    lists = [[DeviceId(f"{name}-{number}") for number in range(200)] for name in ("a", "b", "c")]
    before = hub.store.commits

    verdicts = await hub.admits(*[hub.command(POWER, on=True, device=devices) for devices in lists])

    assert len(verdicts) == 600
    assert hub.store.commits == before + 3
    stored = [str(device) for (device,) in hub.rows("SELECT device FROM inbox ORDER BY run")]
    assert stored == [device for devices in lists for device in devices]


def _is_tampered_with(table: str, tx: Transaction) -> None:
    tx.execute(f"UPDATE {table} SET device = ?", (BAR,))  # noqa: S608 - of this test
