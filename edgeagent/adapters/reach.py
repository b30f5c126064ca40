"""Whether a name leads anywhere, and whether anybody answers there: for health; blocks, for a thread.

Nothing is said to whoever answers: the connection is opened and closed.
"""

import socket
from collections.abc import Sequence
from datetime import timedelta


def addresses(host: str, port: int) -> Sequence[str]:
    """The addresses to which a name leads; waits as long as the resolver does.

    Raises:
        OSError: it leads nowhere.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as why:
        # A label that is too long.
        raise OSError(f"{host!r} is no name") from why
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def knock(host: str, port: int, patience: timedelta) -> None:
    """See that somebody takes connections there.

    Raises:
        OSError: nobody does, in this time.
    """
    try:
        socket.create_connection((host, port), timeout=patience.total_seconds()).close()
    except UnicodeError as why:
        raise OSError(f"{host!r} is no name") from why
