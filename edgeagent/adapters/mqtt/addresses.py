"""From a name to the addresses that are worth a try, in which order.

The C library resolves names and may block for half a minute while the network is not there yet, so it
runs in a thread of its own: a daemon thread, since one of the loop's pool would hold up the exit.
"""

import asyncio
import contextlib
import socket
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from operator import itemgetter
from typing import Final, TypeVar

from typing_extensions import override

from edgeagent.ports.links import LinkError, Trouble
from edgeagent.values import dataclass

T = TypeVar("T")

# A name with many dead addresses must not make one attempt last for ever.
_MOST: Final = 6


@dataclass(frozen=True, slots=True)
class Address:
    """Where to connect: an address family and what ``connect`` takes for it."""

    family: int
    target: tuple[str, int] | tuple[str, int, int, int]

    @override
    def __str__(self) -> str:
        host, port = self.target[:2]
        return f"[{host}]:{port}" if self.family == socket.AF_INET6 else f"{host}:{port}"


Resolver = Callable[[str, int], Sequence[Address]]
"""Host and port to addresses, best first. May block; raises OSError."""


def resolve(host: str, port: int) -> Sequence[Address]:
    """Ask the C library.

    Raises:
        OSError: there is no such name, or nobody to ask.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # getaddrinfo gives addresses of these two families, as tuples of these two shapes.
    return [
        Address(family, target)  # type: ignore[arg-type]  # typeshed allows for platforms without IPv6
        for family, _, _, _, target in found
    ]


def in_turn(addresses: Sequence[Address]) -> list[Address]:
    """Change between the families, best first (RFC 8305 section 4): one of them may be dead altogether."""
    places: Counter[int] = Counter()
    turns: list[tuple[int, Address]] = []
    for address in addresses:
        turns.append((places[address.family], address))
        places[address.family] += 1
    return [address for _, address in sorted(turns, key=itemgetter(0))][:_MOST]


async def look_up(resolver: Resolver, host: str, port: int, *, within: timedelta) -> list[Address]:
    """The addresses of a host, in the order in which to try them.

    Raises:
        LinkError: there are none, or the answer did not come in time.
    """
    try:
        async with asyncio.timeout(within.total_seconds()):
            addresses = await in_thread(lambda: resolver(host, port))
    except TimeoutError:
        raise LinkError(Trouble.UNREACHABLE, f"no answer about the name {host}") from None
    except (OSError, UnicodeError) as why:  # the IDNA codec refuses an empty or overlong label
        raise LinkError(Trouble.UNREACHABLE, f"no address for {host}: {why}") from why
    if not addresses:
        raise LinkError(Trouble.UNREACHABLE, f"no address for {host}")
    return in_turn(addresses)


async def in_thread(work: Callable[[], T]) -> T:
    """Run what may block in a daemon thread.

    When the caller is cancelled the work goes on, and its result is dropped.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def tell(result: T | None, failure: Exception | None) -> None:
        if future.done():
            return
        if failure is not None:
            future.set_exception(failure)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # T may include None; failure tells them apart

    def run() -> None:
        try:
            result, failure = work(), None
        except Exception as why:  # noqa: BLE001 - handed to whoever waits
            result, failure = None, why
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(tell, result, failure)

    threading.Thread(target=run, name="blocking", daemon=True).start()
    return await future
