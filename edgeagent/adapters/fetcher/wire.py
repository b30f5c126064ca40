"""The process's end of the talk: hears its errand once, and says line after line.

A message is four bytes of length, most significant first, and so many bytes of JSON; what it says follows it
(the files of an errand, the piece of a line) comes next as it is. The part of a file to go on with comes
opened, beside the first byte (SCM_RIGHTS of unix(7)).
"""

import os
import socket
import struct
from typing import Final

from edgeagent.contracts.door import decode, encode
from edgeagent.contracts.fetching import (
    ERRAND_BYTES,
    WHOLE_BYTES,
    FetchLine,
    FileErrand,
    PolicyErrand,
    Request,
)
from edgeagent.errors import MalformedError
from edgeagent.values import dataclass

LENGTH: Final = struct.Struct(">I")


def length_of(head: bytes, *, limit: int) -> int:
    """How long a message is.

    Raises:
        MalformedError: longer than ``limit``.
    """
    [length] = LENGTH.unpack(head)
    if length > limit:
        raise MalformedError(f"{length} bytes, of which {limit} are allowed")
    return int(length)


@dataclass(frozen=True, slots=True)
class Heard:
    """What was asked.

    Attributes:
        errand: what is to be fetched.
        files: what goes with it, by name.
        handle: the open file that goes with it; None for none.
    """

    errand: PolicyErrand | FileErrand
    files: dict[str, bytes]
    handle: int | None


class Wire:
    """Speaks over a connected stream socket."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def errand(self) -> Heard | None:
        """Hear the errand; None where the other side went away without a word.

        Raises:
            MalformedError: it is none.
            OSError: the other side is gone, or says nothing in time.
        """
        first, handles, _, _ = socket.recv_fds(self._channel, LENGTH.size, 1)
        handle = handles[0] if handles else None
        try:
            if handle is not None:
                os.set_inheritable(handle, False)  # noqa: FBT003 - its only argument
            if not first:
                return None
            length = length_of(first + self._bytes(LENGTH.size - len(first)), limit=ERRAND_BYTES)
            errand = decode(Request, self._bytes(length), limit=ERRAND_BYTES).errand
            return Heard(errand, self._files(errand), handle)
        except BaseException:
            if handle is not None:
                os.close(handle)
            raise

    def say(self, line: FetchLine, piece: bytes = b"") -> None:
        """Say a line, with the piece of a file that it tells of.

        Raises:
            OSError: the other side is gone, or does not listen.
        """
        raw = encode(line)
        self._channel.sendall(LENGTH.pack(len(raw)) + raw + piece)

    def _files(self, errand: PolicyErrand | FileErrand) -> dict[str, bytes]:
        if sum(each.size for each in errand.enclosed) > WHOLE_BYTES:
            raise MalformedError("more goes along than is allowed")
        return {each.name: self._bytes(each.size) for each in errand.enclosed}

    def _bytes(self, count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            more = self._channel.recv(min(count - len(found), 1 << 16))
            if not more:
                raise MalformedError("it breaks off")
            found += more
        return bytes(found)
