"""A queue in the wrong hands: it lends what its owner likes, as often as he likes, and passes the rest on.

    with ReplayingQueue(venue.server, port) as queue:
        queue.lend(envelope, times=100)
        queue.wait_until_taken()

Whoever owns the cloud queue without a signing key can withhold, repeat and reorder (threats T14); uploads and
time statements go to the real server behind it, and come back unchanged.
"""

import http.client
import secrets
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Final, Self

from typing_extensions import override

from edgeagent.adapters.cloud.wire import (
    HandlesAnswer,
    HandlesRequest,
    LeaseAnswer,
    LeaseRequest,
    LentCommand,
)
from edgeagent.contracts.door import Contract, decode, encode
from tests.support.queue_server import QueueServer

_DEADLINE: Final = 60.0
_REQUEST_BYTES: Final = 16 * 1024
_KEPT: Final = ("Authorization", "Content-Type", "Content-Encoding", "Accept", "Accept-Encoding")


class ReplayingQueue:
    """See the module's docstring. It listens while it is entered.

    Args:
        server: the real one, for everything but commands.
        port: where to listen.
        hold: seconds for which it really lends, whatever it says: what is not acknowledged by then is lent
            again, under another handle. None for ever.

    Attributes:
        lent: how often it has lent anything.
        is_overdue: whether it has had to take anything back.
    """

    def __init__(self, server: QueueServer, port: int, *, hold: float | None = None) -> None:
        self._server = server
        self._hold = hold
        self._again: dict[str, threading.Timer] = {}
        self.lent = 0
        self.is_overdue = False
        self._changed = threading.Condition()
        self._waiting: list[bytes] = []
        self._unacknowledged: set[str] = set()
        self._open = True
        self._http = _HttpServer(("127.0.0.1", port), _Handler)
        self._http.queue = self
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._open = False
            self._changed.notify_all()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(_DEADLINE)

    def lend(self, envelope: bytes, *, times: int = 1) -> None:
        """Lend a command, again and again, each time as if it were new."""
        with self._changed:
            self._waiting += [envelope] * times
            self._changed.notify_all()

    def wait_until_taken(self, *, within: float = _DEADLINE) -> None:
        """Wait until the hub has acknowledged everything that was lent."""
        with self._changed:
            taken = self._changed.wait_for(
                lambda: not self._waiting and not self._unacknowledged, timeout=within
            )
        assert taken, "the hub does not acknowledge what it was lent"

    def leased(self, wanted: LeaseRequest, asker: socket.socket) -> LeaseAnswer | None:
        """Answer a lease: whatever waits, or nothing when the time is over; None when the asker has died."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or not self._open, timeout=wanted.wait_seconds)
            if _has_gone(asker):
                return None
            some, self._waiting = self._waiting[: wanted.most], self._waiting[wanted.most :]
            lent = [
                LentCommand(handle=secrets.token_hex(16), envelope=envelope, hold_seconds=wanted.hold_seconds)
                for envelope in some
            ]
            self._unacknowledged.update(command.handle for command in lent)
            self.lent += len(lent)
            for command in lent if self._hold is not None else ():
                timer = self._again[command.handle] = threading.Timer(self._hold or 0, self._over, [command])
                timer.daemon = True
                timer.start()
        return LeaseAnswer(commands=lent, waited_seconds=0.0)

    def acknowledged(self, wanted: HandlesRequest) -> HandlesAnswer:
        """Answer an acknowledgement: of what is not lent any more, that it is gone."""
        with self._changed:
            done = [handle for handle in wanted.handles if handle in self._unacknowledged]
            self._unacknowledged.difference_update(done)
            for handle in done:
                if (timer := self._again.pop(handle, None)) is not None:
                    timer.cancel()
            self._changed.notify_all()
        return HandlesAnswer(done=done, gone=[each for each in wanted.handles if each not in done])

    def _over(self, lent: LentCommand) -> None:
        """Take a loan for over, and the command for one that waits again."""
        with self._changed:
            if lent.handle in self._unacknowledged:
                self._unacknowledged.discard(lent.handle)
                self._waiting.append(lent.envelope)
                self.is_overdue = True
                self._changed.notify_all()

    def passed_on(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, str, bytes]:
        """Ask the real server: status, content type and body of its answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=_DEADLINE)
        try:
            connection.request("POST", path, body, headers)
            response = connection.getresponse()
            return response.status, response.headers.get("Content-Type", ""), response.read()
        finally:
            connection.close()


def _has_gone(peer: socket.socket) -> bool:
    """Whether the other side has closed its end, as the kernel does for whoever dies."""
    try:
        return peer.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


class _HttpServer(ThreadingHTTPServer):
    """One thread for each connection; none of them keeps the process alive."""

    daemon_threads = True
    allow_reuse_address = True
    queue: ReplayingQueue

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of an agent that has hung up."""


class _Handler(BaseHTTPRequestHandler):
    """Answers the hub; all its questions are POSTs."""

    protocol_version = "HTTP/1.1"
    # Headers and body leave in two writes: the second would wait for the first to be acknowledged.
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        assert isinstance(self.server, _HttpServer)
        queue, body = self.server.queue, self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("/commands/lease"):
            lent = queue.leased(decode(LeaseRequest, body, limit=_REQUEST_BYTES), self.connection)
            self.close_connection = lent is None
            if lent is not None:
                self._answer(lent)
        elif self.path.endswith("/commands/acknowledge"):
            self._answer(queue.acknowledged(decode(HandlesRequest, body, limit=_REQUEST_BYTES)))
        else:
            headers = {name: value for name, value in self.headers.items() if name in _KEPT}
            self._send(*queue.passed_on(self.path, body, headers))

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing on standard error."""

    def _answer(self, answer: Contract) -> None:
        self._send(HTTPStatus.OK, "application/json", encode(answer))

    def _send(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
