"""The lock that keeps a second agent apart."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from edgeagent.errors import ConfigurationError
from edgeagent.store.files import sole_owner

pytestmark = pytest.mark.requirement("H4")


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "agent.lock"


def test_a_second_agent_is_kept_out_until_the_first_one_ends(lock: Path) -> None:
    with sole_owner(lock):
        with pytest.raises(ConfigurationError, match="another edgeagent is running"), sole_owner(lock):
            pass
        with pytest.raises(ConfigurationError), sole_owner(lock):  # the refusal did not take it either
            pass

    with sole_owner(lock):
        pass


def test_a_killed_owner_leaves_no_lock_behind(lock: Path) -> None:
    source = f"""
import os, signal
from pathlib import Path
from edgeagent.store.files import sole_owner
with sole_owner(Path({str(lock)!r})):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", source], check=False).returncode == -signal.SIGKILL
    assert lock.exists()

    with sole_owner(lock):
        pass


def test_the_lock_is_not_handed_on_to_programs_that_are_started(lock: Path) -> None:
    with sole_owner(lock):
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False)
    try:
        handle = os.open(lock, os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(handle)
    finally:
        child.communicate(timeout=60)
