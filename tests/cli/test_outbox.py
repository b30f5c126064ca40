"""``edgeagent outbox stats``."""

from pathlib import Path

import pytest

from edgeagent.contracts.event import Stream
from edgeagent.contracts.reports.status import OutboxReport
from tests.cli.building import lonely_terminal, terminal
from tests.flows.building import event
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("U1")


async def test_how_much_of_each_stream_waits(tmp_path: Path) -> None:
    async with terminal(tmp_path) as typing:
        around = typing.desk.hub.around
        await typing.desk.hub.stores(*(event(around, Stream.TELEMETRY, size=100) for _ in range(3)))

        said = await typing.types("outbox", "stats")

        rows = {line.split()[0]: line.split()[1:] for line in said.out.splitlines()}
        assert said.status == 0
        assert rows["stream"] == ["next", "waiting", "bytes", "oldest", "refused"]
        assert rows["telemetry"][:2] == ["4", "3"]
        assert rows["state"] == ["1", "0", "0", "-", "0"]


@pytest.mark.requirement("U5")
async def test_what_the_cloud_refused_is_counted(tmp_path: Path) -> None:
    async with terminal(tmp_path) as typing, typing.desk.uploads():
        typing.desk.cloud.refuses(Stream.STATE, 1)
        await typing.desk.hub.stores(event(typing.desk.hub.around))
        await eventually(lambda: typing.desk.hub.rows("SELECT 1 FROM outbox_refused"))

        said = await typing.types("--json", "outbox", "stats")

        state = said.report(OutboxReport).streams[Stream.STATE]
        assert (state.next, state.events, state.refused) == (2, 0, 1)


async def test_without_an_agent_it_says_so(tmp_path: Path) -> None:
    async with lonely_terminal(tmp_path) as typing:
        said = await typing.types("outbox", "stats")

        assert (said.status, said.out) == (69, "")
