"""How files of a repository are read: from a web server, from a folder, with somebody told of what came.

A repository is named by one place, below which lie ``metadata/`` and ``targets/``. What is read is bounded
by whoever verifies it (TUF names the most bytes of each role), and by the most bytes of a whole refresh.
Nothing is taken compressed, no redirect leads to another host, and no name leads out of the place.
"""

import os
import stat
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
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

from edgeagent.adapters.metadata.laid import below
from edgeagent.contracts.door import parse
from edgeagent.contracts.fetching import PIECE_BYTES, WHOLE_BYTES
from edgeagent.errors import MalformedError

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
        _check_name(url)
        path = below(self._folder, url)
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
        proxy: to go through on the way to an ``https`` address; no other counts.
    """

    def __init__(self, address: str, context: SSLContext | None = None, proxy: str | None = None) -> None:
        self._base = f"{address.rstrip('/')}/" if address else ""
        proxies = urllib.request.ProxyHandler({} if proxy is None else {"https": proxy})
        handler = urllib.request.HTTPSHandler(context=context)
        self._opener = urllib.request.build_opener(proxies, handler, _SameHost())

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


class TellingReader(Reader):
    """Reads by another reader and tells of what came, piece by piece.

    Args:
        reader: who reads.
        tell: is told each piece, the first of a file with its name. Who is not there is not told of.
    """

    def __init__(self, reader: Reader, tell: Callable[[str | None, bytes], None]) -> None:
        self._reader = reader
        self._tell = tell
        self._left = WHOLE_BYTES

    @override
    def _fetch(self, url: str) -> Iterator[bytes]:
        _check_name(url)
        chunks = self._reader.fetch(url)
        yield self._told(url, next(chunks, b""))
        for chunk in chunks:
            yield self._told(None, chunk)

    def _told(self, name: str | None, chunk: bytes) -> bytes:
        self._left -= len(chunk)
        if self._left < 0:
            raise DownloadError(f"more than {WHOLE_BYTES} bytes in one refresh")
        self._tell(name, chunk)
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
        while chunk := file.read(PIECE_BYTES):
            yield chunk
    except (OSError, HTTPException) as why:
        raise DownloadError(f"{url} breaks off: {str(why) or type(why).__name__}") from why


def _check_name(url: str) -> None:
    try:
        below(Path(), url)
    except MalformedError as why:
        raise DownloadError(str(why)) from why
