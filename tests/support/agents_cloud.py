"""The queue server as an issuer sees it: asked over HTTP with an issuer's token, one request at a time."""

import http.client
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, TypeVar
from urllib.parse import urlencode, urlsplit

from pydantic import JsonValue

from edgeagent.contracts.door import Contract, decode
from edgeagent.contracts.event import CloudEvent, EventType, Stream
from edgeagent.ids import CommandId, Epoch, HubId
from edgeagent.issuer.wire import CommandStatus, EventsAnswer, HubStatus, StreamStatus
from tests.support.brokers import wait_until
from tests.support.queue_server import QueueServer

FIRST: Final = 100_000
"""The number of a burst's first message: no plug has used so many kWh by itself."""

_PAGE: Final = 2000
_PATIENCE: Final = 60.0
_ANSWER_BYTES: Final = 16 * 1024 * 1024
C = TypeVar("C", bound=Contract)


class RefusedByCloudError(Exception):
    """The queue answered something else than what was asked for.

    Attributes:
        status: of HTTP.
        body: what it says.
    """

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"{status}: {body[:200]!r}")
        self.status = status
        self.body = body


class Cloud:
    """One hub's side of the queue.

    Args:
        server: the queue.
        hub: which hub.
    """

    def __init__(self, server: QueueServer, hub: HubId) -> None:
        self._server = server
        self._hub = hub
        self._seen: set[int] = set()
        self._after = 0

    @property
    def epoch(self) -> Epoch:
        """The life of the hub's database."""
        epoch = self.hub().epoch
        assert epoch is not None, "the hub has not said hello yet"
        return Epoch(epoch)

    @property
    def has_heard(self) -> bool:
        """Whether the hub has said hello."""
        return self.hub().epoch is not None

    def hub(self) -> HubStatus:
        """What is known of the hub."""
        return self._get("", {}, HubStatus)

    def stream(self, stream: Stream) -> StreamStatus:
        """What is stored of a stream."""
        return next(one for one in self.hub().streams if one.stream is stream)

    def command(self, command: CommandId) -> CommandStatus:
        """Where a command stands."""
        return self._get(f"/commands/{command}", {}, CommandStatus)

    def send(self, envelope: bytes) -> CommandStatus:
        """Put a command into the hub's queue.

        Raises:
            RefusedByCloudError: the producer's gate does not take it.
        """
        body = self._request("POST", "/commands", envelope, expected=HTTPStatus.ACCEPTED)
        return decode(CommandStatus, body, limit=_ANSWER_BYTES)

    def events(self, stream: Stream, *, after: int = 0) -> list[CloudEvent]:
        """All events of a stream, from the number after ``after`` on."""
        found: list[CloudEvent] = []
        while True:
            query = {"stream": stream, "after": str(after), "most": str(_PAGE)}
            page = self._get("/events", query, EventsAnswer)
            if not page.events:
                return found
            found += page.events
            after = page.last

    def receipts(self, command: CommandId | None = None) -> list[CloudEvent]:
        """All receipts, or those of a command: more than one of it would be one too many."""
        return [
            event
            for event in self.events(Stream.RECORD)
            if event.type is EventType.RECEIPT and command in {None, event.data["command"]}
        ]

    def told(self, kind: EventType) -> list[CloudEvent]:
        """All records of a kind."""
        return [event for event in self.events(Stream.RECORD) if event.type is kind]

    def stored_numbers(self) -> list[int]:
        """The number of every telemetry event of a burst, once for each event that carries it."""
        return [number for event in self.events(Stream.TELEMETRY) for number in numbers_of(event.data)]

    def numbers(self) -> set[int]:
        """The numbers that are stored; reads only what is new since the last call.

        For whoever waits. Judge by ``stored_numbers``, which reads everything.
        """
        for event in self.events(Stream.TELEMETRY, after=self._after):
            self._after = int(event.id.rpartition("/")[2])
            self._seen.update(numbers_of(event.data))
        return self._seen

    def wait_for(self, count: int) -> None:
        """Wait until so many numbers of a burst are stored."""
        wait_until(lambda: len(self.numbers()) >= count, f"{count} numbers at the cloud")

    def _get(self, path: str, query: Mapping[str, str], answer: type[C]) -> C:
        return decode(answer, self._request("GET", f"{path}?{urlencode(query)}"), limit=_ANSWER_BYTES)

    def _request(
        self, method: str, path: str, body: bytes | None = None, *, expected: int = HTTPStatus.OK
    ) -> bytes:
        address = urlsplit(self._server.url)
        connection = http.client.HTTPConnection(address.netloc, timeout=_PATIENCE)
        try:
            connection.request(
                method,
                f"/v1/hubs/{self._hub}{path}",
                body,
                {
                    "Authorization": f"Bearer {self._server.issuer_token}",
                    "Content-Type": "application/json",
                },
            )
            response = connection.getresponse()
            raw = response.read()
        finally:
            connection.close()
        if response.status != expected:
            raise RefusedByCloudError(response.status, raw)
        return raw


def numbers_of(data: Mapping[str, JsonValue]) -> list[int]:
    """The number of a burst's message that an event's data carry, if they are of one."""
    readings = data.get("readings")
    energy = readings.get("energy") if isinstance(readings, dict) else None
    return [int(energy)] if isinstance(energy, int | float) and energy >= FIRST else []
