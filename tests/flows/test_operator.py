"""What a person at the hub may ask, answered from store and memory."""

from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

import pytest

from edgeagent.clock import ClockSource
from edgeagent.contracts.event import Stream
from edgeagent.contracts.mqtt import Session
from edgeagent.contracts.reports.devices import AdmitRequest
from edgeagent.errors import RejectedError
from edgeagent.ids import command_id, device_id, label
from tests.flows.building import EPOCH, HUB, event
from tests.flows.operating import operated_hub
from tests.support.clocks import NOON
from tests.support.waiting import eventually

HOUR = timedelta(hours=1)
ROOT = "uid:0 root"
DEV = device_id("dev-1")


@pytest.mark.requirement("O5")
class TestStatus:
    """The hub at a glance."""

    async def test_it_names_the_hub_and_how_everything_stands(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path, "dev-1") as desk:
            desk.hub.bus.delivers("announce/dev-2", b'{"label": "x"}')
            await desk.hub.settles()
            desk.clock.passes(HOUR)

            status = await desk.operator.status()

            assert (status.hub, status.epoch, status.incarnation) == (HUB, EPOCH, 1)
            assert status.version == version("edgeagent")
            assert status.uptime == 3600
            assert status.clock.source is ClockSource.STATEMENT
            assert status.clock.error == pytest.approx(0.02 + 1.8, abs=0.02)
            assert all(status.broker[session].connected for session in Session)
            assert status.cloud.configured
            assert (status.policy.version, status.policy.problem) == (3, "")
            assert (status.devices, status.proposals) == (1, 1)
            assert status.outbox.streams[Stream.RECORD].events == 1

    async def test_it_tells_of_the_cloud_when_it_last_worked_and_since_when_it_fails(
        self, tmp_path: Path
    ) -> None:
        async with operated_hub(tmp_path) as desk, desk.uploads():
            await desk.hub.stores(event(desk.hub.around))
            await eventually(lambda: desk.uplink.state.last_success is not None)
            desk.clock.passes(HOUR)
            desk.cloud.goes_down()
            await desk.hub.stores(event(desk.hub.around))
            await eventually(lambda: desk.uplink.state.trouble)
            desk.clock.passes(HOUR)

            cloud = (await desk.operator.status()).cloud

            assert (cloud.last_success, cloud.failing_for) == (7200, 3600)
            assert cloud.why == "the cloud is down"

    async def test_it_says_why_a_connection_does_not_stand(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path) as desk:
            desk.hub.bus.goes_down("connection refused")
            desk.clock.passes(HOUR)

            link = (await desk.operator.status()).broker[Session.CONTROL]

            assert (link.connected, link.since, link.attempts, link.why) == (
                False,
                3600,
                1,
                "connection refused",
            )

    @pytest.mark.requirement("G3")
    async def test_a_hub_alone_has_no_cloud_to_tell_of(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path, with_cloud=False) as desk:
            assert not (await desk.operator.status()).cloud.configured

    @pytest.mark.requirement("O1")
    async def test_gauges_are_brought_up_to_date_by_it(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path) as desk:
            await desk.hub.stores(event(desk.hub.around), event(desk.hub.around))
            desk.clock.passes(HOUR)

            await desk.operator.status()

            assert desk.hub.counted("edgeagent_outbox_events", {"stream": "state"}) == 2
            assert desk.hub.counted("edgeagent_outbox_oldest_seconds", {"stream": "state"}) == 3600
            assert desk.hub.counted("edgeagent_store_commits") > 0


@pytest.mark.requirement("U1")
async def test_the_outbox_by_stream(tmp_path: Path) -> None:
    async with operated_hub(tmp_path) as desk:
        await desk.hub.stores(*(event(desk.hub.around, size=100) for _ in range(3)))

        streams = (await desk.operator.outbox()).streams

        state = streams[Stream.STATE]
        assert (state.next, state.events, state.oldest, state.refused) == (
            4,
            3,
            NOON + timedelta(seconds=10),
            0,
        )
        assert state.bytes > 300
        assert (streams[Stream.TELEMETRY].next, streams[Stream.TELEMETRY].oldest) == (1, None)


@pytest.mark.requirement("C1", "M11")
class TestDevices:
    """What is known of each, and who waits."""

    async def test_one_is_shown_with_its_readings(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path, "dev-1") as desk:
            desk.hub.bus.delivers("dev-1/state", b'{"power": true}')
            desk.hub.bus.delivers("dev-1/sensor", b'{"temperature": 20.5}', qos=0)
            desk.hub.bus.delivers("dev-1/presses", b'{"presses": [{"button": "double"}]}')
            await desk.hub.settles()
            desk.clock.passes(HOUR)

            report = await desk.operator.device(DEV)

            assert (report.label, report.profile, report.online) == ("The dev-1", "thing", True)
            assert (report.version, report.heard, report.unsafe_messages) == (2, 3600, 1)
            assert report.actions == ["power"]
            assert report.parameters == {"topic": "dev-1"}
            power, temperature = report.readings["power"], report.readings["temperature"]
            assert (power.value, power.version, power.live) == (True, 2, True)
            assert (temperature.value, temperature.unit, temperature.version) == (20.5, "°C", None)
            assert report.readings["button"].value == "double"

    async def test_one_that_was_never_heard_is_shown_as_such(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path) as desk:
            await desk.hub.admits("dev-1")

            report = await desk.operator.device(DEV)

            assert (report.online, report.heard, report.readings, report.version) == (None, None, {}, 0)

    async def test_all_are_listed_by_their_id_and_whoever_waits(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path, "dev-2", "dev-1") as desk:
            desk.hub.bus.delivers("announce/dev-3", b'{"label": "The third"}')
            await desk.hub.settles()

            report = await desk.operator.devices()

            assert [device.device for device in report.devices] == ["dev-1", "dev-2"]
            assert [(proposal.device, proposal.label) for proposal in report.proposals] == [
                ("dev-3", "The third")
            ]

    async def test_a_stranger_is_not_shown(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path) as desk:
            with pytest.raises(RejectedError, match="not admitted"):
                await desk.operator.device(DEV)


@pytest.mark.requirement("M4")
class TestAdmission:
    """By what a device says of itself, or by hand."""

    async def test_by_its_proposal_alone(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path) as desk:
            desk.hub.bus.delivers("announce/dev-1", b'{"label": "The lamp"}')
            await desk.hub.settles()

            report = await desk.operator.admit(AdmitRequest(device=DEV), ROOT)

            assert (report.label, report.profile, report.parameters) == (
                "The lamp",
                "thing",
                {"topic": "dev-1"},
            )
            assert desk.hub.rows("SELECT admitted_by FROM devices") == [(ROOT,)]

    async def test_what_the_operator_says_goes_before_what_the_device_says(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path) as desk:
            desk.hub.bus.delivers("announce/dev-1", b'{"label": "The lamp"}')
            await desk.hub.settles()
            request = AdmitRequest(device=DEV, label=label("By the door"), parameters={"topic": "elsewhere"})

            report = await desk.operator.admit(request, ROOT)

            assert (report.label, report.parameters) == ("By the door", {"topic": "elsewhere"})

    async def test_by_hand(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path) as desk:
            request = AdmitRequest(device=DEV, profile="thing", parameters={"topic": "dev-1"})

            report = await desk.operator.admit(request, ROOT)

            assert report.label == "dev-1"

    async def test_under_another_profile_nothing_of_its_proposal_is_used(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path) as desk:
            desk.hub.bus.delivers("announce/dev-1", b'{"label": "The lamp"}')
            await desk.hub.settles()
            request = AdmitRequest(device=DEV, profile="tasmota", parameters={"topic": "plug-a"})

            report = await desk.operator.admit(request, ROOT)

            assert (report.profile, report.parameters) == ("tasmota", {"topic": "plug-a"})

    async def test_one_that_has_not_shown_itself_has_to_be_described(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path) as desk:
            with pytest.raises(RejectedError, match="name its profile"):
                await desk.operator.admit(AdmitRequest(device=DEV), ROOT)

            assert desk.hub.rows("SELECT 1 FROM devices") == []

    async def test_one_is_let_go(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path, "dev-1") as desk:
            await desk.operator.forget(DEV, ROOT)

            assert (await desk.operator.devices()).devices == []


async def test_a_command_that_never_came_is_not_shown(tmp_path: Path) -> None:
    async with operated_hub(tmp_path) as desk:
        with pytest.raises(RejectedError, match="no command"):
            await desk.operator.command(command_id("c-1"))
        assert (await desk.operator.commands()).commands == []
