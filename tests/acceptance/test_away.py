"""Cloud, broker and agent come and go in any order; each is waited for, and nothing is lost by it.

Each story counts by the numbers of a burst: what the broker has acknowledged to a plug reaches the cloud,
once.
"""

import asyncio
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.event import Stream
from edgeagent.contracts.receipt import Outcome
from tests.acceptance.brokerlog import acknowledged_by_agent
from tests.support.agents_burst import Judgement
from tests.support.agents_cloud import FIRST
from tests.support.agents_venue import Venue
from tests.support.brokers import free_port, wait_until
from tests.support.proxy import Mode, Proxy

BURST: Final = 10_000
SOME: Final = 2_000

pytestmark = [pytest.mark.slow, pytest.mark.requirement("Q1", "Q2", "U1")]


def nobody_is_there(venue: Venue) -> bool:
    """Whether the agent has noticed that neither broker nor cloud can be reached."""
    status = venue.agent.status()
    return not any(link.connected for link in status.broker.values()) and bool(status.cloud.why)


def promised_by(venue: Venue) -> frozenset[int]:
    """The numbers that the agent has acknowledged to the broker by now."""
    return acknowledged_by_agent(venue.broker.log)


@pytest.mark.requirement("R5", "U3")
def test_what_is_stored_while_the_cloud_is_away_survives_a_kill_and_goes_up_later(venue: Venue) -> None:
    venue.server.kill()

    burst = venue.burst(BURST)
    venue.progress(BURST // 2)
    venue.agent.kill()
    venue.agent.start()
    burst.finish()
    venue.progress(BURST)
    venue.server.start()
    venue.catch_up()

    assert venue.judgement() == Judgement()
    assert venue.records_are_whole()


@pytest.mark.requirement("U4")
def test_a_queue_server_that_is_killed_again_and_again_has_everything_once(venue: Venue) -> None:
    burst = venue.burst(BURST)
    for part in range(1, 4):
        venue.cloud.wait_for(part * BURST // 5)
        venue.server.kill()
        venue.server.start()
    burst.finish()
    venue.catch_up()

    assert venue.judgement() == Judgement()
    assert venue.records_are_whole()


@pytest.mark.requirement("U3", "U4", "R8")
@pytest.mark.parametrize("how", [Mode.RESET, Mode.BLACKHOLE], ids=str)
async def test_a_cut_line_to_the_cloud_is_caught_up_with(how: Mode, tmp_path: Path) -> None:
    """Every connection is reset, or swallows what it is given while nobody notices."""
    port = free_port()
    with Venue(tmp_path, plugs=4, cloud_port=port) as venue:
        proxy = Proxy("127.0.0.1", venue.server.port)
        proxy.port = port
        async with proxy:
            await asyncio.to_thread(venue.open)
            burst = venue.burst(SOME, rate=SOME)
            await asyncio.to_thread(venue.progress, SOME // 4)
            proxy.mode = how
            tally = await asyncio.to_thread(burst.finish)
            # However fast the first ones went up: these cannot.
            more = await asyncio.to_thread(venue.burst(SOME, first=FIRST + SOME).finish)
            await asyncio.to_thread(venue.progress, 2 * SOME)
            before = len(await asyncio.to_thread(venue.cloud.numbers))
            proxy.mode = Mode.PASS
            await asyncio.to_thread(venue.catch_up)

            assert (tally.acknowledged, more.acknowledged) == (SOME, SOME)
            assert before <= SOME
            assert await asyncio.to_thread(venue.judgement) == Judgement()


@pytest.mark.requirement("H3")
def test_a_new_agent_starts_with_nobody_there_and_needs_no_restart(tmp_path: Path) -> None:
    with Venue(tmp_path) as venue:
        venue.broker.stop()
        venue.server.kill()
        venue.agent.start()
        wait_until(lambda: nobody_is_there(venue), "the agent to look for broker and cloud")
        process = venue.agent.pid

        venue.server.start()
        venue.broker.start()
        venue.settle()
        venue.burst(SOME).finish()
        venue.catch_up()

        assert venue.agent.pid == process
        assert venue.agent.alive
        assert venue.judgement() == Judgement()


@pytest.mark.requirement("H3")
def test_an_agent_that_starts_without_its_broker_takes_up_its_sessions_later(venue: Venue) -> None:
    """What the broker has kept for the agent arrives when the agent finds it again."""
    assert venue.agent.stop() == 0
    venue.burst(SOME).finish()
    venue.broker.stop()
    venue.agent.start()
    wait_until(lambda: "refused" in str(venue.agent.status().broker), "the agent to look for the broker")

    venue.broker.start()
    venue.agent.wait_for_broker()
    venue.catch_up()

    assert venue.judgement() == Judgement()


@pytest.mark.requirement("H3", "M7")
def test_without_the_cloud_people_at_the_hub_go_on_and_the_cloud_hears_of_it_later(venue: Venue) -> None:
    assert venue.agent.stop() == 0
    venue.server.kill()
    venue.agent.start()
    venue.agent.wait_for_broker()

    said = venue.agent.run("send", venue.devices[0], "toggle")
    venue.burst(SOME).finish()
    venue.progress(SOME)
    assert (said.returncode, said.stderr) == (0, "")
    assert "succeeded" in said.stdout
    assert venue.effects(venue.devices[0], ActionName.TOGGLE) == 1
    venue.server.start()
    venue.catch_up()

    assert venue.judgement() == Judgement()
    assert [told.data["outcome"] for told in venue.cloud.receipts()] == [Outcome.SUCCEEDED]
    assert venue.records_are_whole()


def test_a_broker_that_is_restarted_in_a_burst_loses_and_doubles_nothing(venue: Venue) -> None:
    """At SIGTERM it writes its sessions down: what it has acknowledged counts."""
    burst = venue.burst(BURST)
    for part in range(1, 3):
        venue.progress(part * BURST // 5)
        venue.broker.stop()
        venue.broker.start()
    tally = burst.finish()
    venue.catch_up()

    assert tally.acknowledged > BURST // 2
    assert venue.judgement() == Judgement()
    assert venue.records_are_whole()


def test_after_a_killed_broker_everything_is_there_that_the_agent_had_acknowledged(tmp_path: Path) -> None:
    """A broker that dies takes with it what it had in memory, acknowledged to a plug or not."""
    with Venue(tmp_path, broker_options=("max_queued_messages 0",)) as venue:
        venue.open()
        burst = venue.burst(SOME, rate=SOME)
        wait_until(lambda: len(promised_by(venue)) > SOME // 10, "the agent to acknowledge some")
        venue.broker.kill()
        promised = promised_by(venue)
        venue.broker.start()
        burst.finish()
        venue.agent.wait_for_broker()
        wait_until(lambda: promised.issubset(venue.cloud.numbers()), "what was promised to be at the cloud")

        judgement = venue.judgement()
        assert not promised & judgement.lost
        assert not judgement.doubled
        assert not judgement.invented


@pytest.mark.requirement("H2")
def test_an_agent_that_is_told_to_stop_ends_in_order_in_the_middle_of_a_burst(venue: Venue) -> None:
    burst = venue.burst(BURST)
    statuses = []
    for part in range(1, 4):
        venue.progress(part * BURST // 5)
        statuses.append(venue.agent.stop())
        venue.agent.start()
    burst.finish()
    venue.catch_up()

    assert statuses == [0, 0, 0]
    assert venue.judgement() == Judgement()
    assert venue.cloud.stream(Stream.RECORD).contiguous
