"""The context of a trace, as it travels: the ``traceparent`` of W3C Trace Context.

    00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01

It comes beside a command and not in it: nobody has signed it, and nothing but tracing looks at it
(SPEC O2). One that is malformed is as good as none (W3C Trace Context, section 3.2.2).
"""

import re
from typing import Annotated, Final

from pydantic import StringConstraints
from typing_extensions import override

from edgeagent.values import dataclass

_SHAPE: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_LONGEST: Final = 128
_SAMPLED: Final = 1
_NO_VERSION: Final = "ff"

TraceparentText = Annotated[
    str, StringConstraints(pattern=r"^00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]$", max_length=55)
]
"""As it is written here, always in version 00."""


@dataclass(frozen=True, slots=True)
class Traceparent:
    """A place in a trace.

    Attributes:
        trace: 32 hexadecimal digits.
        span: of the span that causes what follows; 16 hexadecimal digits.
        sampled: whether whoever began the trace records it.
    """

    trace: str
    span: str
    sampled: bool

    @override
    def __str__(self) -> str:
        return f"00-{self.trace}-{self.span}-{'01' if self.sampled else '00'}"


def read_traceparent(text: str | None) -> Traceparent | None:
    """Read what came as a ``traceparent``; None where it is none, however wrong."""
    found = None if text is None or len(text) > _LONGEST else _SHAPE.fullmatch(text)
    if found is None:
        return None
    version, trace, span, flags, more = found.groups()
    # A later version may add fields (section 3.2.4); this one has none.
    is_known = version != _NO_VERSION and (version != "00" or more is None)
    if not is_known or not int(trace, 16) or not int(span, 16):
        return None
    return Traceparent(trace, span, bool(int(flags, 16) & _SAMPLED))
