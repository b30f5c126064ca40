"""What a process beside the agent gives up before it begins: nobody whom it falls to gains anything by it.

Units keep the rest from it (SPEC W1); this much a process can do for itself, wherever it was started.
"""

import ctypes
import resource
from contextlib import suppress
from typing import Final

# linux/prctl.h
_PR_SET_DUMPABLE: Final = 4
_PR_SET_NO_NEW_PRIVS: Final = 38


def give_up_rights() -> None:
    """Give up what a process can: ever gaining rights, being looked into, leaving its memory on a disk."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    # Its unit has set it already, and lets it set no limits.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
