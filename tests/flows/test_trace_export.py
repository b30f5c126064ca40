"""Traces to a collector: what has ended is sent once, whatever the collector does; the work never waits."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from edgeagent.contracts.command import Command
from edgeagent.flows import trace_export
from edgeagent.flows.admission import Arrival
from edgeagent.flows.trace_export import TraceExport
from edgeagent.ids import DeviceId, device_id
from edgeagent.ports.links import LinkError, Trouble
from edgeagent.ports.spans import Traced
from tests.flows.commanding import Hub, new_hub
from tests.flows.signing import POWER, SECOND, TV

pytestmark = pytest.mark.requirement("O2")

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Collector:
    """Keeps what it is sent, or takes nothing.

    Attributes:
        traces: what it was sent.
        is_away: whether it takes nothing.
    """

    def __init__(self) -> None:
        self.traces: list[Traced] = []
        self.is_away = False

    async def send(self, traced: Sequence[Traced]) -> None:
        """See ``SpanSink``."""
        if self.is_away:
            raise LinkError(Trouble.UNREACHABLE, "refused")
        self.traces += traced


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub with a television."""
    async with new_hub(tmp_path) as made:
        await made.television()
        yield made


async def exporting(hub: Hub, collector: Collector, *, has_cloud: bool = False) -> TraceExport:
    """What sends traces, at its start."""
    export = TraceExport(hub.store, collector, hub.now.around, has_cloud=has_cloud)
    await export.look()
    return export


async def done(
    hub: Hub, traceparent: str | None = None, device: DeviceId | Sequence[DeviceId] = TV
) -> Command:
    """A command that was done."""
    command = hub.command(POWER, device=device, on=not hub.rows("SELECT 1 FROM inbox"))
    await hub.now.admission.admit([Arrival(hub.signed(command), traceparent=traceparent)])
    await hub.works_all()
    return command


async def test_a_command_that_has_ended_is_sent_once_with_all_its_spans(hub: Hub) -> None:
    collector = Collector()
    export = await exporting(hub, collector)
    await hub.now.admission.admit([Arrival(hub.signed(hub.command(POWER, on=True)))])
    await export.look()
    assert collector.traces == []

    await hub.works()
    for _ in range(3):
        await export.look()

    [traced] = collector.traces
    names = {span.name for span in traced.spans}
    assert names == {"command", "cloud", "gate", "lane", "work", "step", "confirmation", "receipt"}
    assert all(span.end is not None for span in traced.spans)


async def test_each_device_of_a_command_is_sent_in_the_one_trace(hub: Hub) -> None:
    collector, second = Collector(), device_id("tv-2")
    await hub.television(second)
    export = await exporting(hub, collector)

    await done(hub, f"00-{TRACE}-{SPAN}-01", [TV, second])
    await export.look()

    assert [each.trace for each in collector.traces] == [TRACE, TRACE]
    assert [each.spans[0].parent for each in collector.traces] == [SPAN, SPAN]


async def test_a_trace_that_its_issuer_does_not_record_is_not_sent(hub: Hub) -> None:
    collector = Collector()
    export = await exporting(hub, collector)

    await done(hub, f"00-{TRACE}-{SPAN}-00")
    await export.look()

    assert collector.traces == []


async def test_the_upload_is_waited_for_but_not_for_ever(hub: Hub) -> None:
    collector = Collector()
    export = await exporting(hub, collector, has_cloud=True)
    await done(hub)

    await export.look()
    assert collector.traces == []
    hub.passes(61 * SECOND)
    await export.look()

    assert len(collector.traces) == 1


async def test_what_a_collector_does_not_take_is_sent_when_it_is_back(hub: Hub) -> None:
    collector = Collector()
    export = await exporting(hub, collector)
    collector.is_away = True
    for _ in range(3):
        await done(hub)
        with pytest.raises(LinkError):
            await export.look()

    collector.is_away = False
    await export.look()

    assert len(collector.traces) == 3


async def test_no_more_than_so_many_wait_for_a_collector_that_is_away(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_export, "MOST_WAITING", 2)
    collector = Collector()
    export = await exporting(hub, collector)
    collector.is_away = True
    for _ in range(5):
        await done(hub)
    with pytest.raises(LinkError):
        await export.look()

    collector.is_away = False
    await export.look()

    assert len(collector.traces) == 2
    registry = hub.now.around.metrics.registry
    assert registry.get_sample_value("edgeagent_traces_total", {"result": "dropped"}) == 3
    assert registry.get_sample_value("edgeagent_traces_total", {"result": "sent"}) == 2
