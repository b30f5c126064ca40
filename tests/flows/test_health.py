"""Health: each check says how it stands and, where it stands badly, what to do next (SPEC O5)."""

import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.event import Stream
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reports.health import Check, HealthReport, Level
from edgeagent.core.lifecycle import State
from edgeagent.flows.machine.probe import Probe
from edgeagent.flows.queue_health import queue_check
from edgeagent.flows.trust import Trust, TrustSettings
from edgeagent.ids import topic_filter
from edgeagent.ports.links import Trouble
from tests.flows.building import event
from tests.flows.operating import VENUE, OperatorDesk, check_of, operated_hub
from tests.flows.policies import signed_policy
from tests.support.clocks import NOON
from tests.support.keys import MemoryKey
from tests.support.stores import full_disk
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("O5")

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


async def test_a_hub_that_is_well_says_so_in_every_check(tmp_path: Path) -> None:
    async with operated_hub(tmp_path, "dev-1") as desk:
        report = await desk.health.report()

        assert report.level is Level.OK
        assert {check.name for check in report.checks} == {
            *("broker-control", "broker-telemetry", "cloud", "clock", "database", "discovery", "epoch"),
            *("outbox", "policy", "qos0", "approvals", "stops", "leases", "queue"),
            *("breakers", "dead_letters", "rollouts"),
            *("broker-limits", "broker-drops", "broker-sends", "broker-access", "retained", "topics"),
            *("stuck", "workers", "lanes", "locks", "draining", "replays", "certificates"),
        }


@pytest.mark.requirement("G3")
async def test_a_hub_without_a_cloud_is_well_too(tmp_path: Path) -> None:
    async with operated_hub(tmp_path, with_cloud=False) as desk:
        desk.clock.passes(HOUR * 48)
        await desk.hub.stores(event(desk.hub.around))
        desk.clock.passes(HOUR * 48)
        report = await desk.health.report()

        assert report.level is Level.OK
        assert (await desk.check("cloud")).summary == "not configured: the hub works alone"


class TestTheBroker:
    """A short break is a warning, a long one is critical."""

    async def test_it_is_gone(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path) as desk:
            desk.hub.bus.goes_down("connection refused")
            desk.clock.passes(MINUTE / 2)
            soon = await desk.check("broker-control")
            desk.clock.passes(MINUTE)
            late = await desk.check("broker-telemetry")

            assert soon.level is Level.WARNING
            assert late.level is Level.CRITICAL
            assert "connection refused" in late.summary
            assert "90 s" in late.summary
            assert "mosquitto" in late.advice

    async def test_it_is_back(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path) as desk:
            desk.hub.bus.goes_down()
            desk.clock.passes(HOUR)
            desk.hub.bus.comes_up()

            assert (await desk.check("broker-control")).level is Level.OK


@pytest.mark.requirement("R2")
async def test_a_disk_that_takes_no_readings_is_critical_until_it_does(tmp_path: Path) -> None:
    async with operated_hub(tmp_path, "dev-1") as desk:
        with full_disk(desk.hub.path):
            desk.hub.bus.delivers("dev-1/state", b'{"power": true}')
            await desk.hub.until(lambda: desk.hub.ingest.store_trouble)
            bad = await desk.check("database")

        await desk.hub.passes(timedelta(seconds=1))
        await desk.hub.until(lambda: not desk.hub.ingest.store_trouble)

        assert bad.level is Level.CRITICAL
        assert "readings are not taken" in bad.summary
        assert bad.advice
        assert (await desk.check("database")).level is Level.OK


class TestTheCloud:
    """What kind of failure it is decides what to do."""

    @pytest.mark.parametrize(
        ("trouble", "advice"),
        [
            (Trouble.UNREACHABLE, "network"),
            (Trouble.TLS, "clock"),
            (Trouble.LOGIN, "token"),
            (Trouble.CAPTIVE_PORTAL, "log in there"),
            (Trouble.BUSY, "nothing to do"),
            (Trouble.BROKEN_ANSWER, "not the queue"),
        ],
    )
    async def test_each_failure_has_its_advice(self, tmp_path: Path, trouble: Trouble, advice: str) -> None:
        async with operated_hub(tmp_path) as desk, desk.uploads():
            await fails(desk, trouble)
            check = await desk.check("cloud")

            assert check.level is Level.WARNING
            assert advice in check.advice

    @pytest.mark.requirement("Q7")
    async def test_a_long_outage_is_critical_and_the_outbox_says_how_old_it_is(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path) as desk, desk.uploads():
            await fails(desk, Trouble.UNREACHABLE)
            desk.clock.passes(HOUR * 3)

            cloud, outbox = await desk.check("cloud"), await desk.check("outbox")

            assert cloud.level is Level.CRITICAL
            assert "failing for 3 h" in cloud.summary
            assert outbox.level is Level.WARNING
            assert "the oldest for 3 h" in outbox.summary

    async def test_it_is_back(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path) as desk, desk.uploads():
            await fails(desk, Trouble.UNREACHABLE)
            desk.cloud.comes_back()
            await desk.hub.passes(HOUR)
            await eventually(lambda: desk.uplink.state.trouble is None)

            assert (await desk.health.report()).level is Level.OK

    @pytest.mark.requirement("U5")
    async def test_events_that_it_will_never_take_are_told(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path) as desk, desk.uploads():
            desk.cloud.refuses(Stream.STATE, 1)
            await desk.hub.stores(event(desk.hub.around))
            await eventually(lambda: desk.hub.rows("SELECT 1 FROM outbox_refused"))
            check = await desk.check("outbox")

            assert check.level is Level.WARNING
            assert "the cloud refused 1 for good" in check.summary


@pytest.mark.requirement("T5")
async def test_a_time_that_nobody_has_proven_is_a_warning(tmp_path: Path) -> None:
    async with operated_hub(tmp_path) as desk:
        proven = await desk.check("clock")
        desk.clock.raise_floor(NOON + timedelta(days=400))  # and with it the proof is void
        unproven = await desk.check("clock")

        assert proven.summary.startswith("known from statement within 0.0")
        assert unproven.level is Level.WARNING
        assert "wait" in unproven.summary


class TestThePolicy:
    """In force, over, refused, or none."""

    async def test_one_in_force_is_named(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path) as desk:
            assert (await desk.check("policy")).summary.startswith("version 3 is in force until")

    async def test_one_that_is_over_is_critical(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path) as desk:
            desk.clock.passes(timedelta(days=366))
            check = await desk.check("policy")

            assert check.level is Level.CRITICAL
            assert "version 3 expired at 2028-02-29" in check.summary

    async def test_a_refused_file_is_a_warning_while_another_is_in_force(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path) as desk:
            await desk.trust.offer_policy(signed_policy(VENUE, 2))
            check = await desk.check("policy")

            assert check.level is Level.WARNING
            assert "version 3 is in force; what came later was refused: version 2 is older" in check.summary

    @pytest.mark.parametrize(
        ("signer", "file", "level", "word"),
        [
            pytest.param(None, None, Level.OK, "no policy is configured", id="none is wanted"),
            pytest.param(VENUE, None, Level.CRITICAL, "cannot be read", id="its file is missing"),
            pytest.param(VENUE, signed_policy(MemoryKey()), Level.CRITICAL, "no signature", id="not ours"),
        ],
    )
    async def test_without_one_commands_are_refused_and_it_says_why(
        self, tmp_path: Path, signer: MemoryKey | None, file: bytes | None, level: Level, word: str
    ) -> None:
        async with operated_hub(tmp_path) as desk:
            await desk.hub.store.write(lambda tx: tx.execute("DELETE FROM policy"))
            settings = TrustSettings(signer=None if signer is None else signer.public)
            trust = Trust(desk.hub.store, desk.clock, desk.hub.around, settings)
            await trust.load(file)

            check = await check_of(replace(desk.health, trust=trust), "policy")

            assert check.level is level
            assert word in check.summary
            assert check.summary.endswith(": readings go up, commands are refused")


@pytest.mark.requirement("Q1")
async def test_devices_that_report_without_acknowledgement_are_named(tmp_path: Path) -> None:
    names = [f"dev-{number}" for number in range(1, 8)]
    async with operated_hub(tmp_path, *names) as desk:
        for name in names:
            desk.hub.bus.delivers(f"{name}/sensor", b'{"temperature": 20}', qos=0)
        await desk.hub.takes_in()
        check = await desk.check("qos0")

        assert check.level is Level.OK
        assert "promised: dev-1, dev-2" in check.summary
        assert "The dev-1" not in check.summary
        assert check.summary.endswith("and 2 more")
        assert "QoS 1" in check.advice


@pytest.mark.requirement("M4")
async def test_devices_that_wait_for_admission_are_counted(tmp_path: Path) -> None:
    async with operated_hub(tmp_path) as desk:
        for name in ("dev-1", "dev-2"):
            desk.hub.bus.delivers(f"announce/{name}", b'{"label": "x"}')
        await desk.hub.settles()
        check = await desk.check("discovery")

        assert check.summary == "2 devices wait for admission"
        assert "edgeagent devices admit" in check.advice


@pytest.mark.requirement("R4")
async def test_what_hangs_is_told_and_holds_nothing_else_up(tmp_path: Path) -> None:
    """A disk that does not answer: everything else is in the report all the same."""
    released = threading.Event()
    begun: list[int] = []

    def hangs() -> list[Check]:
        begun.append(1)
        released.wait(60)
        return [Check(name="disk", level=Level.OK, summary="9000 MiB free")]

    async with operated_hub(tmp_path) as desk:
        probe = Probe("disk", hangs, desk.clock, every=MINUTE, patience=timedelta(milliseconds=50))
        health = replace(desk.health, probes=[probe])
        try:
            first, second = await health.report(), await health.report()
        finally:
            released.set()
        for report in (first, second):
            assert [check.name for check in report.checks if check.level is Level.UNKNOWN] == ["disk"]
            assert "outbox" in {check.name for check in report.checks}

        # Nobody looks a second time while it hangs, and what it found at last is taken.
        assert begun == [1]
        assert (await check_of(health, "disk")).level is Level.OK
        assert begun == [1]


async def test_what_was_found_well_holds_for_a_while_and_what_was_not_for_less(tmp_path: Path) -> None:
    found = [Level.OK]
    looks: list[int] = []

    def look() -> list[Check]:
        looks.append(1)
        return [Check(name="disk", level=found[-1], summary="seen")]

    async with operated_hub(tmp_path) as desk:
        probe = Probe("disk", look, desk.clock, every=MINUTE)
        health = replace(desk.health, probes=[probe])
        found.append(Level.WARNING)
        assert (await check_of(health, "disk")).level is Level.WARNING
        desk.clock.passes(MINUTE / 4)
        found.append(Level.OK)
        assert (await check_of(health, "disk")).level is Level.OK
        desk.clock.passes(MINUTE / 2)
        found.append(Level.CRITICAL)
        assert (await check_of(health, "disk")).level is Level.OK
        assert len(looks) == 2


async def test_open_commands_are_told_by_what_they_wait_for_with_the_age_of_the_oldest() -> None:
    came = {(Tier.LOW, State.HELD): (2, 0), (Tier.HIGH, State.HELD): (1, 3_600_000_000)}
    soon, late = queue_check(came, 7_200_000_000), queue_check(came, 8 * 86_400_000_000)

    assert (soon.level, soon.summary) == (Level.OK, "3 held, the oldest for 2 h")
    assert (late.level, late.summary) == (Level.WARNING, "3 held, the oldest for 8 d")
    assert "edgeagent commands" in late.advice
    assert "commands_held=3;;" in {measure.text() for measure in soon.measures}
    assert queue_check({}, 0).summary == "no command is open"


class TestTheLevelAsAWhole:
    """The worst of the checks, which come worst first."""

    def test_critical_is_worse_than_unknown_and_a_warning_than_what_cannot_be_told(self) -> None:
        def level(*levels: Level) -> Level:
            return HealthReport(
                at=NOON, checks=[Check(name="x", level=each, summary="") for each in levels]
            ).level

        assert level(Level.OK, Level.UNKNOWN) is Level.UNKNOWN
        assert level(Level.UNKNOWN, Level.WARNING) is Level.WARNING
        assert level(Level.UNKNOWN, Level.CRITICAL, Level.WARNING) is Level.CRITICAL
        assert level() is Level.UNKNOWN

    async def test_the_worst_come_first(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path) as desk:
            desk.hub.bus.goes_down()
            desk.clock.passes(HOUR)
            await desk.trust.offer_policy(b"nonsense")

            levels = [check.level for check in (await desk.health.report()).checks]

            assert levels[:3] == [Level.CRITICAL, Level.CRITICAL, Level.WARNING]
            assert set(levels[3:]) == {Level.OK}


async def fails(desk: OperatorDesk, trouble: Trouble) -> None:
    """Let the cloud fail, and the uplink notice."""
    desk.cloud.goes_down(trouble)
    await desk.hub.stores(event(desk.hub.around))
    await eventually(lambda: desk.uplink.state.trouble is trouble)


# The broker's own promises.


async def test_a_broker_whose_configuration_cannot_be_read_is_not_checkable(
    tmp_path: Path,
) -> None:
    async with operated_hub(tmp_path) as desk:
        limits, drops = await desk.check("broker-limits"), await desk.check("broker-drops")

    assert (limits.level, drops.level) == (Level.OK, Level.OK)
    assert "not checkable" in limits.summary
    assert "not checkable" in drops.summary


async def test_what_the_broker_may_lose_is_named_with_the_line_to_write(tmp_path: Path) -> None:
    async with operated_hub(tmp_path) as desk:
        desk.hub.bus.configured = ["It keeps 1000 messages: max_queued_messages 0"]
        desk.hub.bus.has_dropped = 7
        await desk.watch.look()

        limits, drops = await desk.check("broker-limits"), await desk.check("broker-drops")

    assert limits.level is Level.WARNING
    assert "max_queued_messages 0" in limits.summary
    assert drops.level is Level.WARNING
    assert "7 messages" in drops.summary


async def test_a_broker_that_keeps_everything_is_well(tmp_path: Path) -> None:
    async with operated_hub(tmp_path) as desk:
        desk.hub.bus.configured, desk.hub.bus.has_dropped = [], 0
        await desk.watch.look()

        checks = [await desk.check(name) for name in ("broker-limits", "broker-drops", "retained", "topics")]

    assert {check.level for check in checks} == {Level.OK}
    assert all("not checkable" not in check.summary for check in checks)


@pytest.mark.requirement("M3")
async def test_a_retained_command_names_its_device_until_it_is_cleared(tmp_path: Path) -> None:
    async with operated_hub(tmp_path, "dev-1") as desk:
        desk.hub.bus.delivers("dev-1/set", b"on", retain=True)
        await desk.watch.look()
        lies = await desk.check("retained")

        desk.hub.bus.delivers("dev-1/set", b"", retain=True)
        await desk.watch.look()
        cleared = await desk.check("retained")

    assert lies.level is Level.WARNING
    assert lies.summary.endswith("of: dev-1")
    assert cleared.level is Level.OK


async def test_topics_that_the_broker_does_not_let_us_hear_are_named(tmp_path: Path) -> None:
    async with operated_hub(tmp_path) as desk:
        desk.hub.bus.does_not_let = {topic_filter("stat/bar/#"): 0x87}

        check = await desk.check("topics")

    assert check.level is Level.WARNING
    assert "stat/bar/#" in check.summary
