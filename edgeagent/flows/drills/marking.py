"""Which drill the present line of work belongs to, so that each of its log lines can say so.

The engine of a drill logs as that of the hub does; whoever watches the log for trouble has to be able to
tell its trouble from the hub's.
"""

from contextvars import ContextVar
from typing import Final

HELD: Final = ContextVar("drill", default="")
"""The drill that is held in this line of work and all that it begins; empty outside of one."""
