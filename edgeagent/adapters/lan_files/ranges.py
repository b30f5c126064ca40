"""Which bytes a request is for (RFC 9110 section 14).

One range of bytes. A unit that we do not know is ignored, as it has to be; what is no range, none of the
file's bytes, or several ranges at once is refused, as it may be: no device asks so, and a thousand ranges of
one file are an old attack.
"""

import re
from collections.abc import Sequence
from typing import Final

from edgeagent.errors import RejectedError
from edgeagent.values import dataclass

# int() of very long digits is refused by Python; no file needs twenty.
_RANGE: Final = re.compile(r"bytes[ \t]*=[ \t]*([0-9]{0,20})-([0-9]{0,20})[ \t]*", re.ASCII | re.IGNORECASE)
_OTHER_UNIT: Final = re.compile(
    r"(?!bytes[ \t]*=)[!#$%&'*+.^_`|~0-9A-Za-z-]+[ \t]*=.*", re.ASCII | re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes of a file, from ``first`` up to, not including, ``end``."""

    first: int
    end: int

    @property
    def length(self) -> int:
        """How many."""
        return self.end - self.first


class NoSuchRangeError(RejectedError):
    """The file has no such bytes, or more than one range was wanted."""


def asked_for(fields: Sequence[str], size: int) -> Stretch | None:
    """Read the ``Range`` fields of a request.

    Returns:
        What is asked for; None for the whole file.

    Raises:
        NoSuchRangeError: see there.
    """
    if not fields:
        return None
    if len(fields) > 1:
        raise NoSuchRangeError("more than one Range field")
    [field] = fields
    if _OTHER_UNIT.fullmatch(field) is not None:
        return None
    found = _RANGE.fullmatch(field)
    if found is None or not any(found.groups()):
        raise NoSuchRangeError("not one range of bytes")
    first, last = found.groups()
    if not first:
        # The last so many bytes (14.1.2: a suffix range longer than the file is the whole of it).
        return _within(max(0, size - int(last)), size, size)
    if last and int(last) < int(first):
        raise NoSuchRangeError("it ends before it begins")
    return _within(int(first), int(last) + 1 if last else size, size)


def _within(first: int, end: int, size: int) -> Stretch:
    if first >= size:
        raise NoSuchRangeError("it begins behind the end")
    return Stretch(first, min(end, size))
