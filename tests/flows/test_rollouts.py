"""Devices of a list are updated when the policy's rule lets them: stories at a hub's store.

It is noon in UTC on Monday, 1 March 2027, and 13:00 in Berlin.
"""

from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.event import EventType
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.rollout import Day, Window
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.lifecycle import State
from edgeagent.ids import DeviceId
from tests.flows.rolling import new_rollout

pytestmark = pytest.mark.requirement("F5")

HOUR: Final = timedelta(hours=1)
MINUTE: Final = timedelta(minutes=1)
NIGHT: Final = {
    "zone": "Europe/Berlin",
    "windows": (Window(days=frozenset(Day), opens="22:00", closes="00:30"),),
    "longest": HOUR,
}


async def test_without_a_rule_all_begin_at_once(tmp_path: Path) -> None:
    async with new_rollout(tmp_path) as rolling:
        await rolling.lists(5)

        assert len(await rolling.begins()) == 5


async def test_before_its_window_nothing_begins_and_nothing_is_counted_as_a_try(tmp_path: Path) -> None:
    async with new_rollout(tmp_path, **NIGHT) as rolling:
        command = await rolling.lists(2)

        claimed = await rolling.claimed()

        assert claimed.found == []
        assert await rolling.stands(command) == {"waiting rollout_window": 2}
        row = await rolling.hub.row(command, command.devices[0])
        assert (row.attempts, row.sent, row.available) == (0, False, None)
        # It looks again in a while, since the clock may be set right.
        assert claimed.outlook is not None
        assert claimed.outlook.next is not None
        assert claimed.outlook.next - rolling.hub.lease_time().milliseconds == 60_000


async def test_when_the_window_opens_they_begin(tmp_path: Path) -> None:
    async with new_rollout(tmp_path, **NIGHT) as rolling:
        await rolling.lists(2)
        await rolling.begins()

        rolling.hub.passes(9 * HOUR - MINUTE / 2)
        rolling.hub.time_is_known()
        claimed = await rolling.claimed()
        assert claimed.found == []
        assert claimed.outlook is not None
        assert claimed.outlook.next is not None
        left = claimed.outlook.next - rolling.hub.lease_time().milliseconds
        assert 30_000 <= left <= 31_000
        # The clock may have drifted meanwhile: it looks again as soon as that may be over.
        rolling.hub.passes(timedelta(milliseconds=left) + MINUTE / 60)

        assert len(await rolling.begins()) == 2


async def test_what_cannot_be_over_before_the_window_closes_waits_for_the_next(tmp_path: Path) -> None:
    async with new_rollout(tmp_path, **NIGHT, parallel=1) as rolling:
        command = await rolling.lists(3)
        rolling.hub.passes(9 * HOUR + MINUTE)
        rolling.hub.time_is_known()
        [one] = await rolling.begins()

        # It is 23:32 in Berlin when the first one is done.
        rolling.hub.passes(91 * MINUTE)
        rolling.hub.time_is_known()
        await rolling.ends(command, [one], State.SUCCEEDED)

        assert await rolling.begins() == []
        assert await rolling.stands(command) == {"succeeded": 1, "waiting rollout_window": 2}
        rolling.hub.passes(23 * HOUR)
        rolling.hub.time_is_known()
        assert len(await rolling.begins()) == 1


async def test_whoever_is_left_over_when_some_are_let_go_on_is_not_forgotten(tmp_path: Path) -> None:
    async with new_rollout(tmp_path, parallel=2, canary=1) as rolling:
        command = await rolling.lists(4)
        [first] = await rolling.begins()
        await rolling.ends(command, [first], State.SUCCEEDED)

        claimed = await rolling.claimed()

        assert len(claimed.found) == 2
        assert await rolling.stands(command) == {
            "succeeded": 1,
            "running": 2,
            "waiting rollout_limit": 1,
        }
        # Those who found nothing are to ask again when one of the two is over.
        assert claimed.outlook is not None
        assert claimed.outlook.is_left


async def test_what_is_under_way_when_its_window_closes_is_left_to_its_end(tmp_path: Path) -> None:
    async with new_rollout(tmp_path, **NIGHT) as rolling:
        command = await rolling.lists(1)
        rolling.hub.passes(10 * HOUR)
        rolling.hub.time_is_known()
        [one] = await rolling.begins()
        await rolling.sends(command, one)

        # Whoever worked it is gone, and the window is over: it is taken up again all the same.
        rolling.hub.passes(5 * HOUR)
        rolling.hub.time_is_known()

        assert await rolling.begins() == [one]


async def test_a_clock_that_nobody_knows_opens_no_window(tmp_path: Path) -> None:
    async with new_rollout(tmp_path, **NIGHT) as rolling:
        command = await rolling.lists(2)
        rolling.hub.passes(10 * HOUR)
        await rolling.hub.reboots()

        assert await rolling.begins() == []
        assert await rolling.stands(command) == {"waiting rollout_window": 2}
        rolling.hub.time_is_known()
        assert len(await rolling.begins()) == 2


async def test_never_more_than_the_limit_are_under_way_whatever_list_they_are_of(tmp_path: Path) -> None:
    async with new_rollout(tmp_path, parallel=3) as rolling:
        lists = [await rolling.lists(4), await rolling.lists(3, first=5)]
        under_way: list[DeviceId] = []

        for _ in range(7):
            begun = await rolling.begins()
            under_way += begun
            assert len(under_way) <= 3
            assert len(await rolling.begins()) == 0
            one = under_way.pop(0)
            command = lists[0] if one in lists[0].devices else lists[1]
            await rolling.ends(command, [one], State.SUCCEEDED)

        assert [await rolling.stands(each) for each in lists] == [{"succeeded": 4}, {"succeeded": 3}]


async def test_the_others_begin_once_the_first_are_done(tmp_path: Path) -> None:
    async with new_rollout(tmp_path, canary=2) as rolling:
        command = await rolling.lists(6)

        first = await rolling.begins()

        assert first == list(command.devices[:2])
        assert await rolling.stands(command) == {"running": 2, "waiting rollout_canary": 4}
        await rolling.ends(command, first[:1], State.SUCCEEDED)
        assert await rolling.begins() == []
        await rolling.ends(command, first[1:], State.SUCCEEDED)
        assert await rolling.begins() == list(command.devices[2:])


async def test_a_first_one_that_ends_badly_stops_the_rest_and_a_person_is_called_once(
    tmp_path: Path,
) -> None:
    async with new_rollout(tmp_path, canary=2) as rolling:
        command = await rolling.lists(5)
        first = await rolling.begins()

        await rolling.sends(command, first[0])
        await rolling.ends(command, first[:1], State.ROLLED_BACK)
        await rolling.ends(command, first[1:], State.SUCCEEDED)

        assert await rolling.begins() == []
        assert await rolling.begins() == []
        assert (await rolling.stands(command))["waiting rollout_stopped"] == 3
        [(_, told)] = await rolling.hub.records(EventType.ALERT)
        assert (told["reason"], told["command"]) == (Reason.ROLLOUT_STOPPED, command.id)
        assert len(await rolling.hub.audited(AuditKind.ROLLOUT_STOPPED)) == 1


async def test_so_many_bad_ends_stop_the_rest_over_a_restart(tmp_path: Path) -> None:
    async with new_rollout(tmp_path, parallel=2, stop_after=2) as rolling:
        command = await rolling.lists(6)
        for _ in range(2):
            begun = await rolling.begins()
            await rolling.sends(command, begun[0])
            await rolling.ends(command, begun[:1], State.FAILED)
            await rolling.ends(command, begun[1:], State.SUCCEEDED)

        await rolling.hub.starts_anew()

        assert await rolling.begins() == []
        stands = await rolling.stands(command)
        assert (stands["failed"], stands["succeeded"]) == (2, 2)
        assert len(await rolling.hub.audited(AuditKind.ROLLOUT_STOPPED)) == 1


async def test_a_restart_in_the_middle_begins_nothing_beyond_the_limit(tmp_path: Path) -> None:
    async with new_rollout(tmp_path, parallel=2, canary=1) as rolling:
        command = await rolling.lists(5)
        [canary] = await rolling.begins()
        await rolling.ends(command, [canary], State.SUCCEEDED)
        two = await rolling.begins()
        for each in two:
            await rolling.sends(command, each)

        await rolling.hub.starts_anew()

        # The two are taken up again, and nobody beside them.
        assert sorted(await rolling.begins()) == sorted(two)
        assert await rolling.begins() == []


async def test_a_policy_that_takes_its_rule_back_lets_them_go_on(tmp_path: Path) -> None:
    async with new_rollout(tmp_path, parallel=1) as rolling:
        await rolling.lists(4)
        await rolling.begins()

        await rolling.rules()

        assert len(await rolling.begins()) == 3


async def test_more_devices_than_are_looked_at_at_once_are_held_back_to_the_last_one(
    tmp_path: Path,
) -> None:
    async with new_rollout(tmp_path, parallel=1) as rolling:
        lists = [await rolling.lists(200), await rolling.lists(200, first=201)]

        claimed = await rolling.claimed()

        assert len(claimed.found) == 1
        # The others are looked at at once, in a transaction of their own.
        assert claimed.outlook is not None
        assert claimed.outlook.next is not None
        assert claimed.outlook.next <= rolling.hub.lease_time().milliseconds
        assert await rolling.begins() == []
        assert await rolling.stands(lists[0]) == {"running": 1, "waiting rollout_limit": 199}
        assert await rolling.stands(lists[1]) == {"waiting rollout_limit": 200}


async def test_many_lists_cost_no_more_rows_than_one(tmp_path: Path) -> None:
    async with new_rollout(tmp_path, parallel=2) as rolling:
        lists = [await rolling.lists(1, first=number) for number in range(1, 31)]
        begun = await rolling.begins(2)
        assert len(begun) == 2
        before = len(await rolling.hub.audited(AuditKind.COMMAND_QUEUED, AuditKind.COMMAND_WAITING))

        for _ in range(5):
            [command] = [each for each in lists if begun[0] in each.devices]
            await rolling.ends(command, [begun.pop(0)], State.SUCCEEDED)
            begun += await rolling.begins(2)
            assert len(begun) == 2

        after = len(await rolling.hub.audited(AuditKind.COMMAND_QUEUED, AuditKind.COMMAND_WAITING))
        # One is let go on for each that has ended.
        assert after - before <= 28 + 5


async def test_those_behind_one_bridge_keep_no_place_from_others(tmp_path: Path) -> None:
    async with new_rollout(tmp_path, parallel=3) as rolling:
        command = await rolling.lists(20, bridged=10)
        lamps = command.devices[:10]
        begun = await rolling.begins()
        assert [each in lamps for each in begun] == [True, False, False]

        for _ in range(4):
            await rolling.ends(command, [begun.pop()], State.SUCCEEDED)
            begun += await rolling.begins()
            assert len(begun) == 3

        assert sum(each in lamps for each in begun) == 1


@pytest.mark.requirement("L1")
@pytest.mark.parametrize(("most", "updates"), [(4, 3), (1, 1)])
async def test_updates_leave_a_place_of_their_lane_to_others(tmp_path: Path, most: int, updates: int) -> None:
    async with new_rollout(tmp_path) as rolling:
        command = await rolling.lists(6)
        begun = await rolling.begins(most=most)
        assert len(begun) == updates
        assert await rolling.begins(most=most) == []

        tv = await rolling.hub.television()
        urgent = rolling.hub.command()
        await rolling.hub.admits(urgent)

        assert await rolling.begins(most=most) == list(urgent.devices)
        assert (await rolling.stands(command))["waiting rollout_limit"] == 6 - updates
        assert tv.effects == []
