"""One errand, from its first word to the last: then the process ends, whatever it has met.

It is started with a connected socket, by the agent or by the service manager for it. It knows no store, no
key and no secret, and gives up what rights it can before it reads a byte. When the agent goes away, so does
it.

    exit 0    the last line is said, of success or of trouble; or nobody has asked anything
    exit 65   what was asked is no errand (EX_DATAERR of sysexits.h)
    exit 75   the agent went away meanwhile (EX_TEMPFAIL)
"""

import os
import select
import socket
from contextlib import suppress
from datetime import timedelta
from threading import Event, Thread
from typing import Final, assert_never

from edgeagent.adapters.fetcher.wire import Heard, Wire
from edgeagent.contracts.fetching import FetchLine, FetchTrouble, FileErrand, PolicyErrand
from edgeagent.errors import MalformedError
from edgeagent.ports.artifacts import FetchError

EXIT_NO_ERRAND: Final = 65
EXIT_LEFT: Final = 75

# For an errand to come whole, and for a line to be taken.
_PATIENCE: Final = timedelta(seconds=60)
_MOST_WORDS: Final = 500


def serve(channel: socket.socket) -> int:
    """Serve one errand.

    Args:
        channel: a connected stream socket.

    Returns:
        The exit status.
    """
    channel.settimeout(_PATIENCE.total_seconds())
    wire = Wire(channel)
    try:
        heard = wire.errand()
    except MalformedError as why:
        with suppress(OSError):
            wire.say(_trouble(0, FetchTrouble.FAILED, f"the fetching process knows no such errand: {why}"))
        return EXIT_NO_ERRAND
    except OSError:
        return EXIT_NO_ERRAND
    if heard is None:
        return 0
    is_done = Event()
    Thread(target=_leave_when_left, args=(channel, is_done), daemon=True).start()
    try:
        last = _served(heard, wire)
        is_done.set()
        wire.say(last)
        # Whoever else has this socket open, the other side hears that this is all.
        channel.shutdown(socket.SHUT_RDWR)
    except OSError:
        return EXIT_LEFT
    return 0


def _served(heard: Heard, wire: Wire) -> FetchLine:
    """Do what was asked.

    Returns:
        The last line.
    """
    from edgeagent.fetcher.file import Progress, fetch

    errand, progress = heard.errand, Progress(wire.say)
    try:
        if isinstance(errand, PolicyErrand):
            progress.size = _policy(errand, heard, wire)
        elif isinstance(errand, FileErrand):
            if heard.handle is None:
                raise FetchError(FetchTrouble.FAILED, "no file came along to write to")  # noqa: TRY301 - as others
            fetch(errand, heard.files, heard.handle, progress)
        else:
            assert_never(errand)
    except FetchError as why:
        waits = None if why.retry_after is None else why.retry_after.total_seconds()
        return _trouble(progress.size, why.trouble, str(why), waits)
    except Exception as why:  # noqa: BLE001 - whatever strangers' bytes make of a library
        return _trouble(progress.size, FetchTrouble.FAILED, f"the fetch broke: {type(why).__name__}")
    return FetchLine(bytes=progress.size, is_last=True)


def _policy(errand: PolicyErrand, heard: Heard, wire: Wire) -> int:
    # The first word is said before tuf is imported, which takes its time on a small machine.
    wire.say(FetchLine(bytes=0))
    from edgeagent.fetcher.policy import fetch

    return fetch(errand, heard.files, wire.say)


def _trouble(size: int, trouble: FetchTrouble, why: str, retry_after: float | None = None) -> FetchLine:
    words = " ".join(why.split())[:_MOST_WORDS]
    return FetchLine(bytes=size, is_last=True, trouble=trouble, why=words, retry_after=retry_after)


def _leave_when_left(channel: socket.socket, is_done: Event) -> None:
    """End the process as soon as the agent has closed its half: nobody wants what would come."""
    left = select.poll()
    left.register(channel, select.POLLRDHUP)
    left.poll()
    os._exit(0 if is_done.is_set() else EXIT_LEFT)
