"""A verified file, as it is sent: piece by piece, each of them what it was when all of it was verified.

A descriptor keeps whoever swaps a name or a link from being served, and not whoever writes into the file
itself, nor a disk that fails under it. So all of a file is read once more when it is offered, and each piece
once more when it is sent. A device gets the bytes that are signed for, or half an answer.
"""

import errno
import os
from collections.abc import Mapping, Sequence
from hashlib import blake2b, sha256
from typing import Final

from edgeagent.adapters.lan_files.settings import PIECE
from edgeagent.errors import SuspiciousError, TransientError
from edgeagent.ports.artifact_site import Content
from edgeagent.values import dataclass

_DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Opened:
    """A file of an offer.

    Attributes:
        content: what is offered.
        handle: the descriptor to read it from.
        pieces: what each ``PIECE`` of it hashes to.
    """

    content: Content
    handle: int
    pieces: tuple[bytes, ...]

    def read(self, place: int, most: int) -> bytes:
        """Bytes from a place on: at most so many, and none beyond the piece that they lie in.

        Raises:
            OSError: it cannot be read, or is not what it was.
        """
        number = place // PIECE
        piece = os.pread(self.handle, PIECE, number * PIECE)
        if _hash(piece) != self.pieces[number]:
            raise OSError(errno.EILSEQ, "it is not what was verified")
        return piece[place - number * PIECE :][:most]


def open_all(contents: Sequence[Content]) -> dict[str, Opened]:
    """Open the files of an offer; all or none. Blocks, and reads all of them.

    Raises:
        TransientError: one cannot be opened or read.
        SuspiciousError: one is not what was signed for any more.
    """
    files: dict[str, Opened] = {}
    try:
        for content in contents:
            files[content.name] = _opened(content)
    except OSError as why:
        close_all(files)
        raise TransientError(f"a verified file cannot be opened: {why.strerror}") from why
    except BaseException:
        close_all(files)
        raise
    return files


def _opened(content: Content) -> Opened:
    handle = content.open_file()
    try:
        return Opened(content, handle, _pieces(content, handle))
    except BaseException:
        os.close(handle)
        raise


def _pieces(content: Content, handle: int) -> tuple[bytes, ...]:
    if os.fstat(handle).st_size != content.size:
        raise SuspiciousError(f"a verified file is not {content.size} bytes long any more")
    whole, found = sha256(), []
    for place in range(0, content.size, PIECE):
        piece = os.pread(handle, PIECE, place)
        whole.update(piece)
        found.append(_hash(piece))
    if whole.hexdigest() != content.digest:
        raise SuspiciousError(f"a verified file is not {content.digest[:12]}… any more")
    return tuple(found)


def _hash(piece: bytes) -> bytes:
    return blake2b(piece, digest_size=_DIGEST_BYTES).digest()


def close_all(files: Mapping[str, Opened]) -> None:
    """Close the descriptors of an offer."""
    for opened in files.values():
        os.close(opened.handle)
