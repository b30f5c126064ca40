"""A socket at which a fetching process is started for each connection, as the unit's socket does it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.support.agents import ROOT
from tests.support.brokers import wait_until

PROGRAM: Final = "systemd-socket-activate"
NOBODY: Final = "65534"


def words_of_a_fetcher() -> list[str]:
    """The process, of a user who owns nothing where we may choose one."""
    process = [sys.executable, "-P", "-m", "edgeagent", "fetch"]
    if os.geteuid() != 0:
        return process
    return ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", *process]


def is_listening(path: Path) -> bool:
    """Whether somebody listens there already (proc(5): the flag of a socket that accepts)."""
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()]
    return any(line[-1] == str(path) and line[3] == "00010000" for line in lines)


@contextmanager
def activated(path: Path, words: list[str] | None = None, *, user: str | None = None) -> Iterator[int]:
    """Listen there.

    Args:
        path: where.
        words: what is started with the connection as its standard input and output; a fetching process
            if absent.
        user: who listens; we if absent.

    Yields:
        The process that listens; those that it starts are its children.
    """
    program = shutil.which(PROGRAM)
    if program is None:
        raise RuntimeError("please run: sudo apt-get install -y systemd")
    listener = [] if user is None else ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"]
    listener += [program, "--listen", str(path), "--accept", "--inetd", "-E", f"PYTHONPATH={ROOT}"]
    with subprocess.Popen(
        [*listener, "--", *(words or words_of_a_fetcher())],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            wait_until(lambda: is_listening(path), "the socket")
            yield process.pid
        finally:
            process.terminate()
