"""What a process sees to before it begins: that it is not root, and that whoever takes it over gains little.

Units keep the rest from it (SPEC W1, W3); this much a process can do for itself, wherever it was started.
"""

import ctypes
import os
import pwd
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from edgeagent.errors import ConfigurationError

# linux/prctl.h
_PR_SET_DUMPABLE: Final = 4
_PR_SET_NO_NEW_PRIVS: Final = 38


def give_up_rights() -> None:
    """Give up what a process can: ever gaining rights, being looked into, leaving its memory on a disk."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    leave_no_core()


def leave_no_core() -> None:
    """Have no memory of this process, with the secrets in it, be written to a disk when it is killed."""
    # Its unit has set it already, and lets it set no limits.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def write_at_most(size: int) -> None:
    """Have no file of this process grow beyond that many bytes; there is no way back.

    A unit may have set less, or let nobody set limits: then its own stays.
    """
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = size if most == resource.RLIM_INFINITY else min(size, most)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@contextmanager
def acting_as(uid: int, gid: int) -> Iterator[None]:
    """Be another user meanwhile, with its group and no other; whoever is not root, or means root, stays.

    So no link in a folder of that user's leads root anywhere, and what is made there is that user's.
    """
    if os.geteuid() != 0 or uid == 0:
        yield
        return
    group, groups = os.getegid(), os.getgroups()
    os.setgroups([])
    os.setegid(gid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)


def refuse_root(state_dir: Path | None = None) -> None:
    """See that we do not run as root where another user is meant (SPEC W3).

    A unit that starts us as root has lost its ``User=``. By hand root may run a hub of its own, as on a
    bench; not one whose state belongs to another: what root makes there the agent could not read again.

    Args:
        state_dir: the folder of the state, of whoever has one.

    Raises:
        ConfigurationError: we are root, and should not be.
    """
    if os.geteuid() != 0:
        return
    # systemd.exec(5): the process that a unit names, and none that it starts in turn.
    if os.environ.get("SYSTEMD_EXEC_PID") == str(os.getpid()):
        raise ConfigurationError(
            "this does not run as root: the unit has to name a User=, as the shipped one does "
            "(systemctl cat edgeagent shows what overrides it)"
        )
    try:
        owner = 0 if state_dir is None else state_dir.stat().st_uid
    except OSError:
        return  # whoever makes the folder says what is wrong with it
    if owner != 0:
        raise ConfigurationError(
            f"{state_dir} belongs to {_user(owner)}: systemctl start edgeagent, "
            f"or sudo -u {_user(owner)} edgeagent run, never as root"
        )


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"'#{uid}'"
