"""Commit, then acknowledge: what a message yields is on the disk before its PUBACK leaves.

And when a commit comes: linger, half of the in-flight window, bytes, somebody who waits.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.event import Stream
from edgeagent.contracts.mqtt import Session
from edgeagent.flows.ingest import IngestSettings
from edgeagent.ports.crash import CrashPoint
from tests.flows.building import Hub, new_hub
from tests.support.stores import broken_log, full_disk


@contextmanager
def failed_sync(database: Path) -> Iterator[None]:
    """Each write to the log is taken, and no sync of it succeeds."""
    with broken_log(database, Path("/dev/null")):
        yield


SECOND = timedelta(seconds=1)
SLOW = IngestSettings(commit_linger=timedelta(hours=1))
"""A linger that no test waits out: whatever is committed was committed for another reason."""


def acknowledged(hub: Hub) -> list[bytes]:
    """The payloads whose PUBACK has left, but for the greetings of the devices."""
    return [message.payload for message in hub.bus.acknowledged if message.payload != b"Online"]


@pytest.mark.requirement("Q1", "R1")
async def test_a_reading_is_on_the_disk_before_its_puback_leaves(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1") as hub:
        hub.dies_at(CrashPoint.EVENTS_COMMITTED)

        hub.bus.delivers("dev-1/state", b'{"power": true}')
        await hub.is_dead()

        assert hub.rows("SELECT type FROM outbox WHERE stream = 'state' AND number = 2") == [
            ("edgeagent.reading.state",)
        ]
        assert acknowledged(hub) == []


@pytest.mark.requirement("Q1")
async def test_what_is_acknowledged_outlives_the_process(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1") as hub:
        hub.bus.delivers("dev-1/state", b'{"power": true}')
        hub.bus.delivers("dev-1/sensor", b'{"temperature": 21.5}')
        await hub.settles()

        await hub.dies()
        await hub.starts()

        assert sorted(acknowledged(hub)) == [b'{"power": true}', b'{"temperature": 21.5}']
        assert await hub.values("power") == [True]
        assert await hub.values("temperature") == [21.5]


@pytest.mark.requirement("Q1")
async def test_pubacks_leave_in_the_order_in_which_messages_came(tmp_path: Path) -> None:
    payloads = [b'{"temperature": %d}' % number for number in range(30)]
    async with new_hub(tmp_path, "dev-1", "dev-2") as hub:
        for number, payload in enumerate(payloads):
            hub.bus.delivers(f"dev-{number % 2 + 1}/sensor", payload)
        await hub.settles()

        assert acknowledged(hub) == payloads


@pytest.mark.requirement("Q1", "R2")
@pytest.mark.parametrize("fault", [full_disk, failed_sync])
async def test_nothing_is_acknowledged_that_the_disk_did_not_take_and_it_comes_again(
    tmp_path: Path, fault: Callable[[Path], AbstractContextManager[None]]
) -> None:
    async with new_hub(tmp_path, "dev-1") as hub:
        with fault(hub.path):
            hub.bus.delivers("dev-1/state", b'{"power": true}')
            await hub.until(lambda: hub.ingest.store_trouble)

            assert acknowledged(hub) == []
            assert not any(hub.bus.state(session).connected for session in Session)
        assert await hub.values("power") == []

        await hub.passes(SECOND)
        await hub.until(lambda: not hub.ingest.store_trouble)
        await hub.settles()

        assert await hub.values("power") == [True]
        assert acknowledged(hub) == [b'{"power": true}']


@pytest.mark.requirement("R2", "E4")
async def test_while_the_disk_is_full_the_connections_stay_closed(tmp_path: Path) -> None:
    """Opening them would have the broker send everything again, each second, for nothing."""
    async with new_hub(tmp_path, "dev-1") as hub:
        with full_disk(hub.path):
            hub.bus.delivers("dev-1/state", b'{"power": true}')
            await hub.until(lambda: hub.ingest.store_trouble)
            closed_since = hub.bus.state(Session.CONTROL).since

            for _ in range(3):
                await hub.passes(SECOND)
                await hub.breathes()
            state = hub.bus.state(Session.CONTROL)

            assert hub.ingest.store_trouble
            assert not state.connected
            assert state.since == closed_since


@pytest.mark.requirement("R2", "C1")
async def test_after_a_failed_commit_the_hub_knows_what_the_disk_knows(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1") as hub:
        hub.bus.delivers("dev-1/state", b'{"power": true}')
        await hub.settles()
        with full_disk(hub.path):
            hub.bus.delivers("dev-1/state", b'{"power": false}')
            await hub.until(lambda: hub.ingest.store_trouble)

        await hub.passes(SECOND)
        await hub.until(lambda: not hub.ingest.store_trouble)
        await hub.settles()

        assert await hub.values("power") == [True, False]
        told = await hub.told(Stream.STATE)
        assert [each.data["version"] for each in told] == [1, 2, 3]


@pytest.mark.requirement("Q1", "Q9")
async def test_an_unchanged_repeat_is_acknowledged_without_a_write(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1") as hub:
        hub.bus.delivers("dev-1/state", b'{"power": true}')
        await hub.settles()
        commits = hub.commits

        for _ in range(5):
            hub.bus.delivers("dev-1/state", b'{"power": true}')
        await hub.settles()

        assert hub.commits == commits
        assert len(acknowledged(hub)) == 6
        assert await hub.values("power") == [True]


@pytest.mark.requirement("Q1", "M6")
@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        pytest.param(b"\xff\xfe", "invalid_utf8", id="no UTF-8"),
        pytest.param(b'{"power": true, "power": false}', "invalid_payload", id="one key twice"),
        pytest.param(b"[" * 200_000, "too_large", id="deep and huge"),
        pytest.param(b'{"power": NaN}', "unusable_value", id="not a number"),
        pytest.param(b'{"power": "' + b"x" * 17_000 + b'"}', "too_large", id="too large"),
    ],
)
async def test_what_cannot_be_read_is_counted_and_acknowledged_and_holds_up_nobody(
    tmp_path: Path, payload: bytes, reason: str
) -> None:
    async with new_hub(tmp_path, "dev-1", "dev-2") as hub:
        hub.bus.delivers("dev-1/state", payload)
        hub.bus.delivers("dev-2/state", b'{"power": true}')
        await hub.settles()

        assert hub.counted("edgeagent_messages_unusable_total", {"reason": reason}) == 1
        assert len(acknowledged(hub)) == 2
        assert await hub.values("power") == [True]


@pytest.mark.requirement("Q1", "M4")
async def test_a_message_of_nobody_is_acknowledged_and_yields_nothing(tmp_path: Path) -> None:
    async with new_hub(tmp_path) as hub:
        hub.bus.delivers("announce/dev-9", b"no announcement")
        await hub.settles()

        assert acknowledged(hub) == [b"no announcement"]
        assert await hub.told(Stream.STATE) == []
        assert hub.devices.proposals == {}


@pytest.mark.requirement("Q1")
async def test_a_qos_0_message_is_taken_in_and_counted_as_one_of_which_nothing_is_promised(
    tmp_path: Path,
) -> None:
    async with new_hub(tmp_path, "dev-1") as hub:
        hub.bus.delivers("dev-1/state", b'{"power": true}', qos=0)
        hub.bus.delivers("dev-1/sensor", b'{"temperature": 20}')
        await hub.settles()

        assert await hub.values("power") == [True]
        assert [device.unsafe for device in hub.devices.all()] == [1]
        assert acknowledged(hub) == [b'{"temperature": 20}']


class TestWhenACommitComes:
    """DESIGN decision 3: adaptive group commit."""

    async def test_messages_that_come_within_the_linger_share_a_commit(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1", settings=SLOW) as hub:
            for number in range(10):
                hub.bus.delivers("dev-1/sensor", b'{"temperature": %d}' % number)
            await hub.takes_in()
            await hub.breathes()
            assert await hub.values("temperature") == []
            assert acknowledged(hub) == []
            commits = hub.commits

            await hub.passes(SLOW.commit_linger)
            await hub.settles()

            assert hub.commits == commits + 1
            assert await hub.values("temperature") == list(range(10))

    async def test_the_linger_begins_with_the_first_message(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1", settings=SLOW) as hub:
            hub.bus.delivers("dev-1/sensor", b'{"temperature": 1}')
            await hub.takes_in()
            hub.clock.passes(SLOW.commit_linger - SECOND)
            hub.bus.delivers("dev-1/sensor", b'{"temperature": 2}')
            await hub.takes_in()
            hub.clock.passes(SECOND)

            hub.bus.delivers("dev-1/sensor", b'{"temperature": 3}')
            await hub.settles()

            assert await hub.values("temperature") == [1, 2, 3]

    @pytest.mark.parametrize(
        ("session", "topic"), [(Session.TELEMETRY, "dev-1/sensor"), (Session.CONTROL, "dev-1/state")]
    )
    async def test_half_of_a_window_is_committed_at_once(
        self, tmp_path: Path, session: Session, topic: str
    ) -> None:
        """The broker sends no more than a window without a PUBACK: waiting longer would cap the hub."""
        windows = {Session.TELEMETRY: (8, 500), Session.CONTROL: (500, 8)}
        telemetry, control = windows[session]
        settings = replace(SLOW, telemetry_window=telemetry, control_window=control)
        async with new_hub(tmp_path, "dev-1", settings=settings) as hub:
            for number in range(3):
                hub.bus.delivers(topic, b'{"temperature": %d, "power": %s}' % (number, _truth(number)))
            await hub.takes_in()
            await hub.breathes()
            assert acknowledged(hub) == []

            hub.bus.delivers(topic, b'{"temperature": 3, "power": true}')
            await hub.settles()

            assert len(acknowledged(hub)) == 4

    async def test_a_large_batch_is_committed_at_once(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1", settings=replace(SLOW, most_bytes=1000)) as hub:
            hub.bus.delivers("dev-1/sensor", b'{"temperature": 1}')
            await hub.takes_in()
            await hub.breathes()
            assert acknowledged(hub) == []

            hub.bus.delivers("dev-1/sensor", b'{"temperature": 2, "filler": "%s"}' % (b"x" * 1000))
            await hub.settles()

            assert await hub.values("temperature") == [1, 2]

    async def test_what_somebody_waits_for_is_committed_at_once_and_told_to_him_after_that(
        self, tmp_path: Path
    ) -> None:
        async with new_hub(tmp_path, "dev-1", settings=SLOW) as hub:
            device = hub.devices.all()[0]
            [step] = device.compiled.plan(ActionName.POWER, {"on": True}, number=1).steps
            waiter = hub.confirmations.open(device.id, step.expectation)
            waiter.sending(hub.clock.boot())
            hub.clock.passes(SECOND)

            hub.bus.delivers("dev-1/sensor", b'{"temperature": 1}')
            hub.bus.delivers("dev-1/state", b'{"power": true}')
            heard = await waiter.until(lambda: waiter.progress.confirmed is not None, SECOND * 10)

            assert heard
            assert hub.rows("SELECT value FROM shadow_readings WHERE reading = 'power'") == [("true",)]

    async def test_a_quiet_hub_writes_nothing(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            commits = hub.commits

            for _ in range(10):
                await hub.passes(timedelta(minutes=1))
                await hub.settles()

            assert hub.commits == commits


def _truth(number: int) -> bytes:
    return b"true" if number % 2 else b"false"
