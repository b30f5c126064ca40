"""A web server over a folder, with the bad manners that a test asks for.

with WebFolder(folder) as web:
web.at["/metadata/timestamp.json"] = Answer(status=503)
...fetch from web.address
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Final
from urllib.parse import unquote

from typing_extensions import override

_TURN: Final = 0.05
_RANGE: Final = re.compile(r"bytes=(\d+)-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is answered in the place of a file.

    Attributes:
        status: of HTTP.
        body: the bytes.
        headers: further ones.
        missing: how many bytes more are promised than sent.
        hangs: whether nothing more comes after the headers, until the server is closed.
    """

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    missing: int = 0
    hangs: bool = False


@dataclass(slots=True)
class WebFolder:
    """The server.

    Attributes:
        address: where it listens.
        at: what is answered at some paths in the place of files.
        asked: the paths that were asked for.
        encodings: what was said to be accepted, each time.
        cuts: how often a file of a name's ending is cut in its middle before it is whole.
        was_cut: the paths of the answers that were cut.
    """

    address: str
    at: dict[str, Answer] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    encodings: list[str] = field(default_factory=list)
    cuts: dict[str, int] = field(default_factory=dict)
    was_cut: list[str] = field(default_factory=list)

    def file(self, path: Path, wanted: str) -> Answer:
        """A file from where it is wanted on; cut, if it is its turn."""
        content, found = path.read_bytes(), _RANGE.fullmatch(wanted)
        begin = 0 if found is None else int(found[1])
        body, headers = content[begin:], {}
        if begin:
            headers["Content-Range"] = f"bytes {begin}-{len(content) - 1}/{len(content)}"
        missing = 0
        for ending, left in self.cuts.items():
            if left and path.name.endswith(ending):
                self.cuts[ending] = left - 1
                self.was_cut.append(path.name)
                missing = len(body) - len(body) // 2
                break
        return Answer(
            status=206 if begin else 200, body=body[: len(body) - missing], headers=headers, missing=missing
        )


@contextmanager
def web_folder(folder: Path) -> Iterator[WebFolder]:
    """Serve a folder on this machine."""
    closing = Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            web.asked.append(self.path)
            web.encodings.append(self.headers.get("Accept-Encoding", ""))
            answer = web.at.get(self.path)
            if answer is None:
                path = folder / unquote(self.path).lstrip("/")
                wanted = self.headers.get("Range", "")
                answer = web.file(path, wanted) if path.is_file() else Answer(status=404)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body) + answer.missing))
            self.end_headers()
            if answer.hangs:
                closing.wait()
            self.wfile.write(answer.body)

        @override
        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web = WebFolder(f"http://127.0.0.1:{server.server_address[1]}")
    thread = Thread(target=server.serve_forever, args=(_TURN,))
    thread.start()
    try:
        yield web
    finally:
        closing.set()
        server.shutdown()
        thread.join()
        server.server_close()
