"""The real queue server in the place of the sink, for what the agent achieves together with it.

It decodes, checks and stores each event, which on two cores takes its share of what is measured; the sink
does not. Numbers and times are therefore told as far as the queue tells them: by asking it again and again.
"""

import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bench.sink import Tally
from edgeagent.contracts.event import Stream
from edgeagent.ids import HubId
from tests.support.agents_cloud import Cloud
from tests.support.queue_server import QueueServer

_HUB: Final = HubId("bench")


class QueueSink:
    """Answers as ``Sink`` does."""

    def __init__(self, folder: Path) -> None:
        self._server = QueueServer(folder)
        self._cloud = Cloud(self._server, _HUB)
        self._before = 0
        self._first = 0.0
        self.token = ""

    def __enter__(self) -> Self:
        self._server.__enter__()
        self.token = self._server.new_hub(_HUB).token
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.__exit__(kind, why, trace)

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.port

    def start(self) -> None:
        """Start it again, on its former port and file."""
        self._server.start()

    def stop(self) -> None:
        """End it; what has come until now is not counted any more."""
        self.reset()
        self._server.kill()

    def reset(self) -> None:
        """Begin to count."""
        self._before, self._first = self._stored(), 0.0

    def tally(self) -> Tally:
        """What has come since; ``last`` is now."""
        now, count = time.monotonic(), self._stored() - self._before
        if count and not self._first:
            self._first = now
        return Tally(count=count, first=self._first, last=now)

    def times(self) -> dict[int, int]:
        """How often each number was stored, each time under another id."""
        times: dict[int, int] = {}
        for event in self._cloud.events(Stream.TELEMETRY):
            readings = event.data["readings"]
            number = readings.get("sequence") if isinstance(readings, dict) else None
            if isinstance(number, int):
                times[number] = times.get(number, 0) + 1
        return times

    def _stored(self) -> int:
        return self._cloud.stream(Stream.TELEMETRY).stored
