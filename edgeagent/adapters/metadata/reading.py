"""How files of a repository are read: from a web server, from a folder, with a copy of each kept.

A repository is named by one place, below which lie ``metadata/`` and ``targets/``. What is read is bounded
by whoever verifies it (TUF names the most bytes of each role), and by the most bytes of a whole refresh.
Nothing is taken compressed, no redirect leads to another host, and no name leads out of the place.
"""

import os
import stat
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from ssl import SSLContext
from typing import IO, Final
from urllib.parse import quote, urlsplit

from tuf.api.exceptions import DownloadError, DownloadHTTPError, RepositoryError
from tuf.ngclient import FetcherInterface
from typing_extensions import override

from edgeagent.contracts.door import parse
from edgeagent.errors import MalformedError

WHOLE_BYTES: Final = 32 * 1024 * 1024
"""The most bytes of one refresh: some hundred roots and everything else."""

_CHUNK: Final = 64 * 1024
_NOT_FOUND: Final = 404
_PATIENCE: Final = timedelta(seconds=20)


class Reader(FetcherInterface):
    """Reads, and takes of metadata only what passes the door: no key twice, no depth, no odd number."""

    @override
    def download_bytes(self, url: str, max_length: int) -> bytes:
        """Read one file of metadata.

        Raises:
            DownloadError: it cannot be read, or is longer.
            RepositoryError: it is not JSON as the door wants it.
        """
        raw: bytes = super().download_bytes(url, max_length)
        try:
            parse(raw, limit=max_length)
        except MalformedError as why:
            raise RepositoryError(f"{url.rpartition('/')[2]}: {why}") from why
        return raw


class FolderReader(Reader):
    """Reads below a folder; regular files only, and through no link."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @override
    def _fetch(self, url: str) -> Iterator[bytes]:
        path = _below(self._folder, url)
        try:
            # Without O_NONBLOCK a pipe of that name would hold us for ever.
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError as why:
            raise DownloadHTTPError(f"there is no {url}", _NOT_FOUND) from why
        except OSError as why:
            raise DownloadError(f"cannot read {url}: {why.strerror}") from why
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise DownloadError(f"{url} is no file")
        with open(handle, "rb") as file:  # noqa: PTH123 - a handle, not a path
            yield from _chunks(file, url)


class WebReader(Reader):
    """Reads from a web server.

    Args:
        address: of the repository; empty where whole addresses are asked for.
        context: whom to trust; the system's authorities where absent.
    """

    def __init__(self, address: str, context: SSLContext | None = None) -> None:
        self._base = f"{address.rstrip('/')}/" if address else ""
        handler = urllib.request.HTTPSHandler(context=context)
        self._opener = urllib.request.build_opener(handler, _SameHost())

    @override
    def _fetch(self, url: str) -> Iterator[bytes]:
        # Names are the repository's; what no address may hold is escaped, what is escaped already stays.
        address = quote(f"{self._base}{url}", safe="/:%?#[]@!$&'()*+,;=~")
        # S310: the scheme is that of the configuration, which knows no file: or ftp:.
        request = urllib.request.Request(address, headers={"Accept-Encoding": "identity"})  # noqa: S310
        try:
            with closing(self._opener.open(request, timeout=_PATIENCE.total_seconds())) as answer:
                if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
                    raise DownloadError(f"{url} comes compressed, which was not asked for")
                promised, came = answer.headers.get("Content-Length"), 0
                for chunk in _chunks(answer, url):
                    came += len(chunk)
                    yield chunk
                # Read in pieces, http.client says nothing of what does not come.
                if promised is not None and promised != str(came):
                    raise DownloadError(f"{url} breaks off")
        except urllib.error.HTTPError as why:
            with why:
                raise DownloadHTTPError(f"{url}: HTTP {why.code}", why.code) from why
        except urllib.error.URLError as why:
            raise DownloadError(f"{url}: {why.reason}") from why
        except (OSError, HTTPException, ValueError) as why:
            raise DownloadError(f"{url}: {str(why) or type(why).__name__}") from why


class KeepingReader(Reader):
    """Reads by another reader and keeps a copy of what came, under the same name.

    Args:
        reader: who reads.
        folder: where the copies go.
    """

    def __init__(self, reader: Reader, folder: Path) -> None:
        self._reader = reader
        self._folder = folder
        self._left = WHOLE_BYTES

    @override
    def _fetch(self, url: str) -> Iterator[bytes]:
        path = _below(self._folder, url)
        chunks = self._reader.fetch(url)
        first = next(chunks, b"")  # who is not there leaves no copy
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as copy:
            yield self._kept(copy, first)
            for chunk in chunks:
                yield self._kept(copy, chunk)

    def _kept(self, copy: IO[bytes], chunk: bytes) -> bytes:
        self._left -= len(chunk)
        if self._left < 0:
            raise DownloadError(f"more than {WHOLE_BYTES} bytes in one refresh")
        copy.write(chunk)
        return chunk


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows redirects within one host, and in its scheme."""

    @override
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        if (before.scheme, before.netloc) != (after.scheme, after.netloc):
            raise urllib.error.URLError("it leads to another host, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _chunks(file: IO[bytes], url: str) -> Iterator[bytes]:
    try:
        while chunk := file.read(_CHUNK):
            yield chunk
    except (OSError, HTTPException) as why:
        raise DownloadError(f"{url} breaks off: {str(why) or type(why).__name__}") from why


def _below(folder: Path, name: str) -> Path:
    """Where a name lies below a folder; names stand in metadata that nobody has verified yet."""
    parts = name.split("/")
    if any(part in {"", ".", ".."} or "\x00" in part for part in parts):
        raise DownloadError("a name that leads elsewhere")
    return folder.joinpath(*parts)
