"""Connections of devices, and of whoever else comes: few at once, each for one request.

Who is expected has places of its own, so that strangers cannot keep it out. Before its first request a device
is a stranger too: where there are too many of them, the one goes that has said nothing for longest. A request
has to be there whole in time and within bounds; what is none is answered like one for nothing.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address
from typing import Final

from aiohttp import web
from typing_extensions import override

from edgeagent.adapters.lan_files.live import Address
from edgeagent.contracts.serving import Turned

log = logging.getLogger(__name__)

MOST_OF_ONE: Final = 4
"""Connections of one address at once."""
MOST_STRANGERS: Final = 16
"""Connections at once of all addresses that no offer is for."""
_NOBODY: Final = IPv6Address("::")
_LINE: Final = 512
_FIELD: Final = 1024


class Places:
    """Who is connected.

    Args:
        expects: whether an offer is for this address.
        tell: told of whoever is turned away, with the address.
    """

    def __init__(self, expects: Callable[[Address], bool], tell: Callable[[Turned, str], None]) -> None:
        self._expects = expects
        self._tell = tell
        self._taken: dict[Connection, Address] = {}

    def takes(self, connection: "Connection", address: Address) -> bool:
        """Give a connection its place; whether there is one."""
        if Counter(self._taken.values())[address] >= MOST_OF_ONE:
            return False
        if not self._expects(address):
            strangers = [each for each, whose in self._taken.items() if not self._expects(whose)]
            if len(strangers) >= MOST_STRANGERS and not self._makes_room(strangers):
                return False
        self._taken[connection] = address
        return True

    def _makes_room(self, strangers: Sequence["Connection"]) -> bool:
        """Cut the first who has not asked for anything yet; whether there is one."""
        for connection in strangers:
            if connection.is_silent:
                self.turned(Turned.CROWDED, connection.address)
                self.leaves(connection)
                connection.cut()
                return True
        return False

    def leaves(self, connection: "Connection") -> None:
        """Free the place of a connection."""
        self._taken.pop(connection, None)

    def turned(self, why: Turned, address: Address) -> None:
        """Tell that somebody was turned away."""
        self._tell(why, str(address))

    def clear(self) -> None:
        """Cut all connections."""
        for connection in [*self._taken]:
            connection.cut()


class Connection(web.RequestHandler):
    """One connection, for one request.

    Args:
        server: what answers requests.
        places: who else is connected.
        first_word: within what time the request has to be there.
    """

    __slots__ = ("_deadline", "_first_word", "_places", "address", "is_silent")

    def __init__(self, server: web.Server, places: Places, first_word: timedelta) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # the documented way to have none
            max_line_size=_LINE,
            max_field_size=_FIELD,
            lingering_time=0,
        )
        self._places = places
        self._first_word = first_word
        self._deadline: asyncio.TimerHandle | None = None
        self.address: Address = _NOBODY
        self.is_silent = True

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.address = address_of(transport)
        if not self._places.takes(self, self.address):
            self._places.turned(Turned.CROWDED, self.address)
            self.cut()
            return
        if self.transport is not None:
            # What was written counts as taken once the kernel has it.
            self.transport.set_write_buffer_limits(high=0)
        self._arm(self._first_word, self._stays_silent)

    @override
    def connection_lost(self, exc: BaseException | None) -> None:
        self._disarm()
        self._places.leaves(self)
        super().connection_lost(exc)

    @override
    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what is no request like one for nothing."""
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            log.error("request for a file failed", exc_info=exc)
            self.cut()
        else:
            self.asked()
            self._places.turned(Turned.NO_REQUEST, self.address)
            self.goes_within(self._first_word)
        return nothing()

    def asked(self) -> None:
        """Note that the request is there."""
        self.is_silent = False
        self._disarm()

    def goes_within(self, time: timedelta) -> None:
        """Cut what is not over by then: the last bytes of an answer may not be taken either."""
        self._arm(time, self.cut)

    def cut(self) -> None:
        """End it now, whatever is not sent."""
        if self.transport is not None:
            self.transport.abort()

    def _stays_silent(self) -> None:
        self._places.turned(Turned.SILENT, self.address)
        self.cut()

    def _arm(self, time: timedelta, then: Callable[[], None]) -> None:
        self._disarm()
        self._deadline = asyncio.get_running_loop().call_later(time.total_seconds(), then)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def nothing() -> web.Response:
    """The one answer to whatever is not offered."""
    answer = web.Response(status=404, headers=plain_headers())
    answer.force_close()
    return answer


def plain_headers() -> dict[str, str]:
    """What stands in every answer: no word about the software, nothing to keep or to guess a type from."""
    return {
        "Server": "files",
        "Cache-Control": "no-store",
        "Content-Type": "application/octet-stream",
        "X-Content-Type-Options": "nosniff",
    }


def address_of(transport: asyncio.BaseTransport) -> Address:
    """The address at the other end; an IPv4 address is one, also in the dress of IPv6."""
    peer = transport.get_extra_info("peername")
    if not peer:
        return _NOBODY
    address = ip_address(str(peer[0]).partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
