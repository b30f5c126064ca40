"""However many commands wait, a look does little, and one issuer cannot have the hub keep all it sends."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.event import EventType
from edgeagent.contracts.reasons import Reason
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.gate.verdict import Hold, Refuse
from edgeagent.core.lifecycle import State
from edgeagent.flows.upkeep import MOST
from edgeagent.ids import DeviceId, device_id
from tests.flows.commanding import Hub, new_hub
from tests.flows.signing import MINUTE, POWER, REBOOT, SECOND

MANY: Final[list[DeviceId]] = [device_id(f"tv-{number}") for number in range(2 * MOST + 5)]
AT_ONCE: Final = timedelta(0)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub with many televisions."""
    async with new_hub(tmp_path) as made:
        for device in MANY:
            await made.television(device)
        yield made


def states(hub: Hub) -> dict[str, int]:
    """How many commands stand in each state."""
    found = hub.rows("SELECT state, count(*) FROM inbox GROUP BY state")
    return {str(state): int(str(number)) for state, number in found}


@pytest.mark.requirement("Q9", "R2")
async def test_many_that_are_over_at_once_are_ended_a_portion_in_each_commit(hub: Hub) -> None:
    await hub.admits(hub.command(POWER, on=True, device=MANY, valid_for=MINUTE))
    hub.passes(MINUTE + SECOND)
    left = []
    for _ in range(3):
        before = hub.store.commits

        wait = await hub.now.upkeep.look()

        assert hub.store.commits == before + 1
        left.append((states(hub).get("queued"), wait))

    assert left == [(MOST + 5, AT_ONCE), (5, AT_ONCE), (None, None)]
    assert states(hub) == {"expired": len(MANY)}
    assert len(await hub.records(EventType.RECEIPT)) == len(MANY)


@pytest.mark.requirement("T5", "Q9")
async def test_many_that_are_held_are_judged_again_a_portion_in_each_commit(hub: Hub) -> None:
    await hub.reboots()
    await hub.admits(hub.command(POWER, on=True, device=MANY))
    while await hub.now.upkeep.look() == AT_ONCE:
        pass
    assert states(hub) == {"held": len(MANY)}
    hub.time_is_known()
    left = []
    for _ in range(3):
        before = hub.store.commits

        await hub.now.upkeep.look()

        assert hub.store.commits == before + 1
        left.append(states(hub).get("held"))

    assert left == [MOST + 5, 5, None]
    assert states(hub) == {"queued": len(MANY)}


@pytest.mark.requirement("T5", "Q8")
async def test_the_last_that_is_held_is_judged_however_often_the_time_becomes_surer(hub: Hub) -> None:
    await hub.reboots()
    command = hub.command(REBOOT, device=MANY)
    await hub.admits(command)
    hub.time_is_known()

    for _ in range(3):
        hub.now.upkeep.time_is_surer()
        await hub.now.upkeep.look()

    assert (await hub.row(command, MANY[-1])).state is State.QUEUED


@pytest.mark.requirement("E2")
async def test_many_devices_that_come_at_once_have_theirs_woken_a_portion_at_a_time(hub: Hub) -> None:
    await hub.admits(hub.command(POWER, on=True, device=MANY))
    hub.bus.goes_down()
    await hub.works_all()
    assert states(hub) == {"waiting": len(MANY)}
    hub.bus.comes_up()
    await hub.settles()

    waits = [await hub.now.upkeep.look() for _ in range(3)]

    assert waits[:2] == [AT_ONCE, AT_ONCE]
    assert states(hub) == {"queued": len(MANY)}


@pytest.mark.requirement("M2", "Q9")
async def test_what_cannot_be_asked_without_the_broker_is_not_looked_for_again_and_again(hub: Hub) -> None:
    """It was sent, its time is over, and nobody can be asked: only the broker's return changes that."""
    await hub.admits(hub.command(POWER, on=True, device=MANY[0], valid_for=MINUTE))
    await hub.store.write(
        lambda tx: tx.execute("UPDATE inbox SET state = 'waiting', reason = 'broker_away', sent = 1")
    )
    hub.bus.goes_down()
    hub.passes(2 * MINUTE)

    wait = await hub.now.upkeep.look()

    assert wait is None
    assert states(hub) == {"waiting": 1}


@pytest.mark.requirement("T9")
async def test_one_issuer_has_no_more_held_than_the_policy_lets_it(hub: Hub) -> None:
    await hub.has_policy(version=2, most_held=2)
    await hub.reboots()
    commands = [hub.command(POWER, on=True, device=device) for device in MANY[:5]]

    verdicts = await hub.admits(*commands)
    [others] = await hub.admits(hub.signed(hub.command(POWER, on=True, device=MANY[6]), hub.keys.night))

    assert [type(verdict) for verdict in verdicts] == [Hold, Hold, Refuse, Refuse, Refuse]
    assert [verdict.reason for verdict in verdicts if isinstance(verdict, Refuse)] == 3 * [
        Reason.TOO_MANY_HELD
    ]
    assert isinstance(others, Hold)
    assert states(hub) == {"held": 3}


@pytest.mark.requirement("T9")
async def test_what_is_one_too_many_is_counted_by_the_minute_and_fills_nothing(hub: Hub) -> None:
    await hub.has_policy(version=2, most_held=1)
    await hub.reboots()
    await hub.admits(hub.command(POWER, on=True, device=MANY[0]))
    rows = hub.rows("SELECT count(*) FROM audit")

    for device in MANY:
        await hub.admits(hub.command(POWER, on=True, device=device))

    [first] = await hub.audited(AuditKind.HOLD_REFUSED)
    assert (first["reason"], first["actor"], first["count"]) == ("too_many_held", hub.keys.desk.id, 1)
    assert hub.rows("SELECT count(*) FROM audit") == [(int(str(rows[0][0])) + 1,)]
    hub.passes(MINUTE)
    await hub.now.tallies.close_due()
    counted = await hub.audited(AuditKind.HOLD_REFUSED)
    assert sum(int(str(act["count"])) for act in counted) == len(MANY)


@pytest.mark.requirement("T9", "T4")
async def test_one_that_was_too_many_is_taken_when_it_comes_again_and_there_is_room(hub: Hub) -> None:
    await hub.has_policy(version=2, most_held=1)
    await hub.reboots()
    first, second = (hub.command(POWER, on=True, device=device) for device in MANY[:2])
    await hub.admits(first, second)
    hub.time_is_known()
    await hub.now.upkeep.look()

    await hub.admits(second)

    assert [(await hub.row(each)).state for each in (first, second)] == 2 * [State.QUEUED]
