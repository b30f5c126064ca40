"""Control groups of its own for each machine.

systemd-nspawn(1) with ``--keep-unit`` puts a machine into a group below that of its caller. Machines of one
caller would share it, and with it the groups of all units of one name: where one systemd has just removed
such a group the other cannot start that unit.
"""

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_NUMBERS: Final = itertools.count(1)
# Seconds.
_LONGEST: Final = 10.0
_STEP: Final = 0.02


class OwnGroups:
    """The groups of one machine: one in each hierarchy that systemd goes by, below ours (cgroups(7))."""

    def __init__(self) -> None:
        name = f"edgeagent-test-{os.getpid()}-{next(_NUMBERS)}"
        self._paths = [place / name for place in _ours()]

    @property
    def enter(self) -> str:
        """A command that puts the shell that runs it there, if that is allowed."""
        moves = [f"mkdir -p {path} && echo $$ >{path}/cgroup.procs" for path in self._paths]
        return f"{{ {'; '.join([*moves, 'true'])}; }} 2>/dev/null"

    def remove(self) -> None:
        """Remove them when the machine has ended, as soon as its last process is gone."""
        end = time.monotonic() + _LONGEST
        while any(path.exists() for path in self._paths) and time.monotonic() < end:
            for path in self._paths:
                for folder, _, _ in os.walk(path, topdown=False):
                    with suppress(OSError):
                        Path(folder).rmdir()
            time.sleep(_STEP)


def _ours() -> Iterator[Path]:
    """Where the groups are that we are in."""
    mounted = {}
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, options, *_ = line.split()
        if kind == "cgroup2":
            mounted[""] = place
        elif kind == "cgroup" and "name=systemd" in options.split(","):
            mounted["name=systemd"] = place
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", maxsplit=2)
        if controllers in mounted:
            yield Path(mounted[controllers]) / path.lstrip("/")
