"""Old commands are forgotten, and none of them comes back."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.policy import ActionRule, BreakerRule, Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.scalars import LONGEST
from edgeagent.core.gate.verdict import Accept, Duplicate, Refuse
from edgeagent.core.lifecycle import State
from edgeagent.flows.forgetting import BATCH, KEPT, OPERATIONS_KEPT, Forgetting
from tests.flows.commanding import ERROR, Hub, new_hub
from tests.flows.scripted import Television
from tests.flows.signing import MINUTE, POWER, TOGGLE, VOLUME
from tests.support.clocks import NOON

pytestmark = pytest.mark.requirement("T4")

DAY = timedelta(days=1)
FIVE = 5 * MINUTE
"""How long the commands of these tests are good."""


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub with a policy that knows the time."""
    async with new_hub(tmp_path) as hub:
        yield hub


@pytest.fixture
async def tv(hub: Hub) -> Television:
    """A television that is off."""
    return await hub.television()


def forgetting(hub: Hub) -> Forgetting:
    return Forgetting(hub.now.store, hub.now.trust, hub.now.around)


def stored(hub: Hub) -> list[object]:
    return [row[0] for row in hub.rows("SELECT command FROM inbox ORDER BY run")]


async def worked(hub: Hub, *names: str) -> list[bytes]:
    """Commands that are done; their envelopes."""
    envelopes = [hub.signed(hub.command(POWER, id_=name, on=True)) for name in names]
    for envelope in envelopes:
        await hub.admits(envelope)
        await hub.works_all()
    return envelopes


@pytest.mark.requirement("I1", "L1")
@pytest.mark.usefixtures("tv")
async def test_a_final_one_goes_with_its_receipt_and_its_fence_and_operation_stay(hub: Hub) -> None:
    await worked(hub, "c-1", "c-2")
    hub.passes(FIVE + KEPT + ERROR)
    hub.time_is_known()

    assert await forgetting(hub).look() == 1

    assert stored(hub) == ["c-2"]
    assert hub.rows("SELECT count(*) FROM receipts") == [(1,)]
    assert hub.rows("SELECT count(*) FROM operations") == [(2,)]
    assert hub.rows("SELECT fence FROM locks") == [(2,)]


@pytest.mark.usefixtures("tv")
async def test_none_is_forgotten_before_it_is_certainly_too_old(hub: Hub) -> None:
    await worked(hub, "c-1", "c-2")
    hub.passes(FIVE + KEPT)
    hub.time_is_known(error=10 * ERROR)
    before = hub.contents()

    assert await forgetting(hub).look() == 0

    assert hub.contents() == before


@pytest.mark.requirement("T5")
@pytest.mark.usefixtures("tv")
async def test_none_is_forgotten_while_the_time_is_not_known(hub: Hub) -> None:
    await worked(hub, "c-1", "c-2")
    await hub.reboots()
    hub.passes(100 * DAY)

    assert await forgetting(hub).look() == 0
    assert stored(hub) == ["c-1", "c-2"]


@pytest.mark.usefixtures("tv")
async def test_one_is_kept_as_long_as_the_policy_lets_any_command_be_valid(hub: Hub) -> None:
    rule = ActionRule(tier=Tier.LOW, longest_validity=30 * DAY)
    await hub.has_policy(version=2, actions=hub.keys.policy().actions | {VOLUME: rule})
    await worked(hub, "c-1", "c-2")
    hub.passes(FIVE + 30 * DAY - MINUTE)
    hub.time_is_known()
    assert await forgetting(hub).look() == 0

    hub.passes(2 * MINUTE)

    assert await forgetting(hub).look() == 1


@pytest.mark.usefixtures("tv")
async def test_where_one_may_be_valid_for_as_long_as_can_be_said_none_is_forgotten(hub: Hub) -> None:
    rule = ActionRule(tier=Tier.LOW, longest_validity=LONGEST)
    await hub.has_policy(version=2, actions=hub.keys.policy().actions | {VOLUME: rule})
    await worked(hub, "c-1", "c-2")
    hub.passes(FIVE + 30 * DAY)
    hub.time_is_known()

    assert await forgetting(hub).look() == 0


@pytest.mark.requirement("T1")
@pytest.mark.parametrize("clock", ["right", "set back", "unsure"])
async def test_a_forgotten_one_that_is_replayed_is_expired_whatever_the_clock_says(
    hub: Hub, tv: Television, clock: str
) -> None:
    [first, *_] = await worked(hub, "c-1", "c-2")
    hub.passes(FIVE + KEPT + MINUTE)
    hub.time_is_known()
    await forgetting(hub).look()
    effects = list(tv.effects)
    if clock == "set back":
        await hub.dies()
        hub.readings.is_set(NOON)
        await hub.starts(is_proven=False)
    elif clock == "unsure":
        await hub.reboots()

    [verdict] = await hub.admits(first)
    await hub.works_all()

    assert isinstance(verdict, Refuse)
    assert verdict.reason is Reason.EXPIRED
    assert tv.effects == effects
    again = await hub.admits(first, first)
    assert [type(each) for each in again] == [Duplicate, Duplicate]


@pytest.mark.usefixtures("tv")
async def test_one_that_expires_later_than_all_that_is_forgotten_is_judged_as_ever(hub: Hub) -> None:
    await worked(hub, "c-1", "c-2")
    hub.passes(FIVE + KEPT + MINUTE)
    hub.time_is_known()
    await forgetting(hub).look()

    [verdict] = await hub.admits(hub.command(POWER, on=False))

    assert isinstance(verdict, Accept)
    assert hub.rows("SELECT run FROM inbox") == [(2,), (3,)]


@pytest.mark.requirement("I1")
@pytest.mark.usefixtures("tv")
async def test_an_intent_is_known_to_have_happened_long_after_its_command_is_forgotten(hub: Hub) -> None:
    await hub.admits(hub.command(TOGGLE, operation="ticket-7"))
    await hub.works_all()
    await worked(hub, "c-9")
    for passed in (KEPT + DAY, OPERATIONS_KEPT):
        hub.passes(passed)
        hub.time_is_known()
        await hub.has_policy(version=2 + passed.days)
        await forgetting(hub).look()
        [verdict] = await hub.admits(hub.command(TOGGLE, operation="ticket-7"))
        assert isinstance(verdict, Refuse) is (passed != OPERATIONS_KEPT)

    assert stored(hub)[0] != "command-1"


@pytest.mark.usefixtures("tv")
async def test_an_open_one_is_never_forgotten(hub: Hub) -> None:
    await hub.starts_anew(is_proven=False)
    await hub.admits(hub.command(VOLUME, id_="held", level=20))
    hub.time_is_known()
    await worked(hub, "c-1", "c-2")
    hub.passes(FIVE + KEPT + MINUTE)
    hub.time_is_known()

    assert await forgetting(hub).look() == 1

    assert stored(hub) == ["held", "c-2"]


@pytest.mark.requirement("V6")
@pytest.mark.usefixtures("tv")
async def test_what_was_typed_here_with_a_clock_that_was_ahead_moves_no_floor(hub: Hub) -> None:
    typed = hub.command(POWER, on=True)
    await hub.admits_local(typed)
    await hub.works_all()
    await worked(hub, "last")
    hub.passes(FIVE + KEPT + MINUTE)
    hub.time_is_known()

    assert await forgetting(hub).look() == 1

    assert typed.id not in stored(hub)
    assert hub.rows("SELECT count(*) FROM meta WHERE name = 'forgotten'") == [(0,)]


@pytest.mark.requirement("Q9")
@pytest.mark.usefixtures("tv")
async def test_nothing_is_written_when_there_is_nothing_to_forget(hub: Hub) -> None:
    await worked(hub, "c-1", "c-2")
    commits = hub.store.commits

    for _ in range(5):
        assert await forgetting(hub).look() == 0

    assert hub.store.commits == commits


async def test_many_are_forgotten_in_bounded_batches_and_the_last_run_stays(hub: Hub) -> None:
    count = 2 * BATCH + 1
    await hub.has_policy(version=2, breaker=BreakerRule(refusals=10_000, off_target=10_000))
    for start in range(0, count, 100):
        names = range(start, min(start + 100, count))
        await hub.admits(*[hub.command(POWER, id_=f"c-{number}", on=True) for number in names])
    hub.passes(FIVE + KEPT + MINUTE)
    hub.time_is_known()
    commits = hub.store.commits

    assert await forgetting(hub).look() == count - 1

    assert stored(hub) == [f"c-{count - 1}"]
    assert hub.store.commits - commits in {2, 3}
    assert hub.rows("SELECT state FROM inbox") == [(State.REFUSED,)]
