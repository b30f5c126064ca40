"""The breakers of the producer's gate: who is refused too often is not queued for a while."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from edgeagent.adapters.cloud.https import HttpsQueue
from edgeagent.clock import BootId
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.policy import BreakerRule
from edgeagent.contracts.reasons import Reason
from edgeagent.ids import HubId
from edgeagent.issuer.client import IssuerClient, RefusedByQueueError
from edgeagent.issuer.commands import Issuer
from edgeagent.issuer.instruments import MOST_ORIGINS, OTHERS, Instruments
from edgeagent.issuer.keys import PrivateKey
from edgeagent.issuer.policies import read_policy, sign_policy
from edgeagent.issuer.store import breakers
from edgeagent.issuer.store.breakers import COUNTED, MOST_TURNS, Circuit
from edgeagent.issuer.store.opening import Instant, open_queue
from edgeagent.issuer.wire import BreakerTurn, Turn
from edgeagent.store.database import Database
from tests.issuer.building import NOON, batch, hello, intent, order, real_clock
from tests.issuer.raw import ask
from tests.support.queue_server import KnownHub, QueueServer
from tests.support.waiting import DEADLINE

POWER = Circuit("desk", ActionName.POWER)
RULE = BreakerRule(refusals=3, within=timedelta(minutes=1), open_for=timedelta(minutes=5))


def at(seconds: float) -> Instant:
    """So many seconds after noon."""
    return Instant(NOON + timedelta(seconds=seconds), BootId("boot-1"), 0)


class Gate:
    """What the gate tells the breakers, on a real database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def refuses(
        self, seconds: float, *, circuit: Circuit = POWER, reason: Reason = Reason.NOT_ALLOWED
    ) -> Turn | None:
        """A command was refused."""
        return await self._database.write(lambda tx: breakers.refused(tx, circuit, reason, RULE, at(seconds)))

    async def takes(self, seconds: float) -> None:
        """A command was taken."""
        await self._database.write(lambda tx: breakers.passed(tx, POWER, at(seconds)))

    async def is_open(self, seconds: float, *, circuit: Circuit = POWER) -> bool:
        """Whether commands are not taken."""
        until = await self._database.read(lambda db: breakers.open_until(db, circuit, at(seconds)))
        return until is not None

    async def turns(self) -> list[BreakerTurn]:
        """What the breakers did."""
        return await self._database.read(lambda db: breakers.turns(db, most=100))


@pytest.fixture
async def gate(tmp_path: Path) -> AsyncIterator[Gate]:
    """A gate that has refused nothing yet."""
    database = await open_queue(tmp_path / "queue.db")
    yield Gate(database)
    await database.close()


@pytest.mark.requirement("B1", "V7")
async def test_so_many_refusals_within_the_span_open_it_for_a_while(gate: Gate) -> None:
    assert [await gate.refuses(second) for second in (0, 1)] == [None, None]
    assert not await gate.is_open(1)

    assert await gate.refuses(59) is Turn.OPENED

    assert await gate.is_open(59)
    assert await gate.is_open(59 + 299)
    assert not await gate.is_open(59 + 300), "a probe may try"
    assert [(turn.turn, turn.reason) for turn in await gate.turns()] == [(Turn.OPENED, Reason.NOT_ALLOWED)]


@pytest.mark.requirement("B1")
async def test_refusals_that_are_far_apart_do_not_open_it(gate: Gate) -> None:
    assert [await gate.refuses(second) for second in (0, 31, 62, 93, 124)] == [None] * 5


@pytest.mark.requirement("B1")
async def test_one_origin_and_action_is_stopped_and_no_other(gate: Gate) -> None:
    for second in range(3):
        await gate.refuses(second)

    assert await gate.is_open(3)
    assert not await gate.is_open(3, circuit=replace(POWER, origin="till"))
    assert not await gate.is_open(3, circuit=replace(POWER, action=ActionName.VOLUME))


@pytest.mark.requirement("B1")
@pytest.mark.parametrize(
    "reason", [Reason.WRONG_EPOCH, Reason.EXPIRED, Reason.NOT_YET_VALID, Reason.NO_POLICY]
)
async def test_what_may_happen_to_anybody_does_not_count(gate: Gate, reason: Reason) -> None:
    assert reason not in COUNTED
    assert [await gate.refuses(second, reason=reason) for second in range(5)] == [None] * 5


@pytest.mark.requirement("B1")
async def test_a_probe_that_passes_closes_it_and_the_count_begins_anew(gate: Gate) -> None:
    for second in range(3):
        await gate.refuses(second)

    await gate.takes(400)

    assert not await gate.is_open(400)
    assert [await gate.refuses(second) for second in (401, 402)] == [None, None]
    assert [turn.turn for turn in await gate.turns()] == [Turn.CLOSED, Turn.OPENED]


@pytest.mark.requirement("B1")
async def test_a_probe_that_is_refused_keeps_it_open(gate: Gate) -> None:
    for second in range(3):
        await gate.refuses(second)

    assert await gate.refuses(400) is Turn.STAYED_OPEN

    assert await gate.is_open(699)
    assert not await gate.is_open(700)


@pytest.mark.requirement("B1", "T5")
async def test_a_clock_that_was_set_back_does_not_keep_it_open(gate: Gate) -> None:
    for second in range(1000, 1003):
        await gate.refuses(second)

    assert not await gate.is_open(0)


async def test_a_command_that_is_taken_leaves_no_trace_where_nothing_was_open(gate: Gate) -> None:
    await gate.refuses(0)

    await gate.takes(1)

    assert await gate.turns() == []
    assert await gate.refuses(2) is None
    assert await gate.refuses(3) is Turn.OPENED
    assert MOST_TURNS > 100


# With the server.

DESK = PrivateKey.new()


def policy(open_for: str) -> bytes:
    """Who may do what; the desk may switch power and nothing else."""
    text = f"""
version = 1
hubs = "*"
keys = {{desk = "{DESK.public.hex()}"}}
roles.desk = {{kind = "command", keys = ["desk"], actions = ["power"], devices = ["tv-1"]}}
actions.power = {{tier = "low"}}
breaker = {{refusals = 3, within = "10m", open_for = "{open_for}"}}
"""
    now = real_clock().wall().best
    return sign_policy(read_policy(text.encode(), now=now, key_file=lambda _name: b""), [PrivateKey.new()])


async def refused(cloud: IssuerClient, hub: HubId) -> str:
    """Send something that the gate refuses; the reason."""
    signed = Issuer([DESK], real_clock()).sign(intent(hub, valid_for=timedelta(days=1)))
    with pytest.raises(RefusedByQueueError) as why:
        await cloud.send(signed)
    return why.value.reason


async def is_taken(cloud: IssuerClient, hub: HubId) -> bool:
    """Send something that the policy allows; whether it was queued."""
    try:
        await cloud.send(order(hub, key=DESK))
    except RefusedByQueueError as why:
        if why.reason != Reason.BREAKER_OPEN:
            raise
        return False
    return True


@pytest.mark.slow
@pytest.mark.requirement("B1", "B4", "V7")
async def test_an_origin_that_floods_is_stopped_across_a_restart_and_nothing_of_it_is_queued(
    tmp_path: Path,
) -> None:
    with QueueServer(tmp_path, policy=policy("1h")) as server:
        hub = server.new_hub()
        await _greet(server, hub)
        async with IssuerClient(server.settings(server.issuer_token), real_clock()) as cloud:
            assert [await refused(cloud, hub.id) for _ in range(3)] == ["valid_too_long"] * 3
            server.kill()
            server.start()

        async with IssuerClient(server.settings(server.issuer_token), real_clock()) as cloud:
            with pytest.raises(RefusedByQueueError, match=r"too many power of this origin") as why:
                await cloud.send(order(hub.id, key=DESK))

            assert why.value.reason == Reason.BREAKER_OPEN
            assert (await cloud.hub(hub.id)).waiting == 0
            told = await cloud.gate()
            assert {(row.origin, row.reason, row.count) for row in told.refusals} >= {
                (DESK.id, "breaker_open", 1)
            }
            assert sum(row.count for row in told.refusals) == 4
            [standing] = told.breakers
            assert (standing.origin, standing.action) == (DESK.id, ActionName.POWER)
            assert standing.until - standing.opened_at == timedelta(hours=1)
            assert [turn.turn for turn in told.turns] == [Turn.OPENED]
        metrics = (await ask(f"{server.url}/metrics", token=server.audit_token, method="GET")).body.decode()
        assert f'commands_refused_total{{origin="{DESK.id[:48]}",reason="breaker_open"}} 1.0' in metrics
        assert (await ask(f"{server.url}/metrics", token=hub.token, method="GET")).status == 403


@pytest.mark.slow
@pytest.mark.requirement("B1", "V7")
async def test_after_its_time_the_next_good_command_closes_it(tmp_path: Path) -> None:
    with QueueServer(tmp_path, policy=policy("1s")) as server:
        hub = server.new_hub()
        await _greet(server, hub)
        async with IssuerClient(server.settings(server.issuer_token), real_clock()) as cloud:
            for _ in range(3):
                await refused(cloud, hub.id)

            async with asyncio.timeout(DEADLINE):
                while not await is_taken(cloud, hub.id):
                    pass

            assert (await cloud.hub(hub.id)).waiting == 1
            assert (await cloud.gate()).breakers == []


@pytest.mark.slow
@pytest.mark.requirement("B1", "T9")
async def test_forged_bodies_stop_nobody(tmp_path: Path) -> None:
    with QueueServer(tmp_path, policy=policy("1h")) as server:
        hub = server.new_hub()
        await _greet(server, hub)
        async with IssuerClient(server.settings(server.issuer_token), real_clock()) as cloud:
            for _ in range(20):
                with pytest.raises(RefusedByQueueError, match="bad_signature"):
                    await cloud.send(order(hub.id, key=PrivateKey.new()))

            await cloud.send(order(hub.id, key=DESK))

            assert (await cloud.gate()).breakers == []


def test_the_number_of_series_is_bounded() -> None:
    instruments = Instruments(CollectorRegistry())
    for number in range(10 * MOST_ORIGINS):
        instruments.refused(f"token:{number}", Reason.MALFORMED)

    text = instruments.text().decode()
    assert text.count("commands_refused_total{") == MOST_ORIGINS + 1
    assert f'origin="{OTHERS}",reason="malformed"}} {9.0 * MOST_ORIGINS}' in text


async def _greet(server: QueueServer, hub: KnownHub) -> None:
    queue = HttpsQueue(server.settings(hub.token), hub.id, real_clock())
    await queue.upload(batch(hub.id, [hello()]))
    await queue.close()
