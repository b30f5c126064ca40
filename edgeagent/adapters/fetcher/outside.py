"""A fetching process that is a unit's of its own: another user, who sees nothing of the agent (SPEC W1).

The service manager listens and starts one for each connection (``edgeagent-fetch.socket``). Who may connect
says the mode of that socket; that root or we ourselves listen there, says the kernel.
"""

import os
import socket
import stat
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from typing_extensions import override

from edgeagent.adapters.fetcher.talk import conversation
from edgeagent.contracts.fetching import FetchTrouble
from edgeagent.contracts.reports.health import Check, Level
from edgeagent.ports.artifacts import FetchError
from edgeagent.ports.fetcher import Fetcher, Lines, Parcel

_UCRED: Final = struct.Struct("3i")  # pid, uid, gid of unix(7)
_START: Final = "systemctl start edgeagent-fetch.socket"


class OutsideFetcher(Fetcher):
    """Has one started by connecting to a socket."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @override
    @asynccontextmanager
    async def sent(self, parcel: Parcel) -> AsyncIterator[Lines]:
        async with conversation(self._connected(), parcel) as lines:
            yield lines

    def _connected(self) -> socket.socket:
        channel = socket.socket(
            socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        )
        try:
            # To a socket of this machine that is done at once, or refused.
            channel.connect(str(self._path))
            _, uid, _ = _UCRED.unpack(channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
        except OSError as why:
            channel.close()
            words = f"no fetcher listens at {self._path} ({why.strerror or why}): {_START}"
            raise FetchError(FetchTrouble.NO_FETCHER, words) from why
        if uid not in {0, os.geteuid()}:
            # An errand may hold the proxy's password.
            channel.close()
            words = f"who listens at {self._path} is user {uid}, not the service manager: {_START}"
            raise FetchError(FetchTrouble.NO_FETCHER, words)
        return channel

    def check(self) -> Check:
        """Whether there is a socket to connect to, for health: nobody is started by looking."""
        try:
            is_there = stat.S_ISSOCK(self._path.stat().st_mode)
        except OSError:
            is_there = False
        if is_there:
            return Check(name="fetcher", level=Level.OK, summary=f"a unit of its own fetches: {self._path}")
        return Check(
            name="fetcher",
            level=Level.WARNING,
            summary=f"nothing can be fetched: there is no socket {self._path}",
            advice=_START,
        )
