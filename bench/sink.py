"""The far side of both programs: takes uploads, answers as the queue does, and counts.

    python -m bench.sink PORT       0 for a free one, which is the first line on standard output

It keeps nothing on disk and checks nothing, so that on a machine with two cores it takes little from what
is measured: 2 ms for an upload of 500 events. ``bench.ingest --queue`` measures with the real queue server.
"""

import gzip
import http.client
import json
import re
import secrets
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import parse_qs, urlsplit

from typing_extensions import override

_ROOT: Final = Path(__file__).parents[1]
# The agent's events, and the reference's: an id, then the number and the time of the message in it.
_FOUND: Final = re.compile(rb'"id":"?(?:[^"]*/)?(\d+)|"seq(?:uence)?":(\d+)|"(?:sent_at|t0)":(\d+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What has come since the last reset.

    Attributes:
        count: numbers that had not come before.
        first: when the first came, in seconds of the monotonic clock; 0 when none did.
        last: when the last came.
        p50: seconds from the sending of a message that half of them took at most.
        p99: seconds that 99 of 100 took at most.
    """

    count: int = 0
    first: float = 0.0
    last: float = 0.0
    p50: float = 0.0
    p99: float = 0.0


@dataclass(slots=True)
class _Taken:
    """What the sink has."""

    guard: threading.Lock = field(default_factory=threading.Lock)
    ids: set[bytes] = field(default_factory=set)
    times: dict[int, int] = field(default_factory=dict)
    count: int = 0
    first: float = 0.0
    last: float = 0.0
    delays: list[float] = field(default_factory=list)

    def take(self, stream: bytes, body: bytes) -> list[int]:
        """Count the events of an upload.

        Returns:
            The number of each in its stream.
        """
        events: list[int] = []
        now = time.time()
        with self.guard:
            is_new = False
            for number, message, sent_at in _FOUND.findall(body):
                if number:
                    events.append(int(number))
                    key = stream + number
                    is_new = key not in self.ids
                    self.ids.add(key)
                elif message and is_new:
                    times = self.times.get(int(message), 0)
                    self.times[int(message)] = times + 1
                    self.count += not times
                elif sent_at and is_new:
                    self.delays.append(now - int(sent_at) / 1e6)
            self.last = time.monotonic()
            self.first = self.first or self.last
        return events

    def tally(self) -> dict[str, float]:
        with self.guard:
            delays = sorted(self.delays) or [0.0]
            return {
                "count": self.count,
                "first": self.first,
                "last": self.last,
                "p50": delays[len(delays) // 2],
                "p99": delays[len(delays) * 99 // 100],
            }

    def reset(self) -> None:
        with self.guard:
            self.count, self.first, self.last = 0, 0.0, 0.0
            self.delays.clear()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body of an answer leave in one packet, or the second waits for the first's acknowledgement.
    wbufsize = -1
    disable_nagle_algorithm = True
    taken = _Taken()

    def do_POST(self) -> None:
        """Take an upload, or let a lease wait in vain."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        address = urlsplit(self.path)
        if address.path.endswith("/events"):
            self._answer(self._upload(address.path, parse_qs(address.query), body))
        elif address.path.endswith("/commands/lease"):
            wait = float(json.loads(body)["wait_seconds"])
            time.sleep(wait)
            self._answer({"commands": [], "waited_seconds": wait})
        elif address.path == "/reset":
            self.taken.reset()
            self._answer({})
        else:
            self._answer({"reason": "not_found", "detail": "no such path"}, status=404)

    def do_GET(self) -> None:
        """Tell what has come."""
        if self.path == "/tally":
            self._answer(self.taken.tally())
        else:
            self._answer({"times": sorted(self.taken.times.items())})

    def _upload(self, path: str, query: dict[str, list[str]], body: bytes) -> dict[str, object]:
        told = {name: query[name][0] for name in ("batch", "epoch", "stream")}
        numbers = self.taken.take(f"{told['epoch']}/{told['stream']}/".encode(), body)
        hub = path.split("/")[3]
        # Both programs send the numbers of an upload in one run without a hole.
        return {**told, "hub": hub, "taken": [[numbers[0], numbers[-1]]], "refused": []}

    def _answer(self, answer: object, *, status: int = 200) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    @override
    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


class Sink:
    """The sink as a process of its own."""

    token: Final = secrets.token_urlsafe(32)
    """Any would do."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self.port = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it, on its former port if it had one; it knows of nothing that came before."""
        words = [sys.executable, "-m", "bench.sink", str(self.port)]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=_ROOT)
        if self._process.stdout is None:
            raise RuntimeError("the sink says nothing")
        self.port = int(self._process.stdout.readline())

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            with self._process:
                self._process.kill()
            self._process = None

    def reset(self) -> None:
        """Begin to count."""
        self._ask("POST", "/reset")

    def tally(self) -> Tally:
        """What has come since."""
        return Tally(**json.loads(self._ask("GET", "/tally")))

    def times(self) -> dict[int, int]:
        """How often each number was stored, each time under another id."""
        return dict(json.loads(self._ask("GET", "/times"))["times"])

    def _ask(self, method: str, path: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path)
            return connection.getresponse().read()
        finally:
            connection.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a client that was killed."""


def _main(port: int) -> None:
    server = _Server(("127.0.0.1", port), _Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    _main(int(sys.argv[1]))
