"""Who must not be root is not (SPEC W3). These tests run as root or as anybody else."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from edgeagent.errors import ConfigurationError
from edgeagent.rights import acting_as, refuse_root

pytestmark = pytest.mark.requirement("W3")

NOBODY: Final = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be refused for being root")


@as_root
def test_a_unit_that_starts_it_as_root_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYSTEMD_EXEC_PID", str(os.getpid()))

    with pytest.raises(ConfigurationError, match="the unit has to name a User="):
        refuse_root()


@as_root
def test_what_a_unit_of_root_starts_in_turn_is_its_own_affair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYSTEMD_EXEC_PID", str(os.getppid()))

    refuse_root()


@as_root
def test_by_hand_root_runs_no_hub_of_another_user(tmp_path: Path) -> None:
    """It would leave files behind that the agent itself could not read."""
    refuse_root(tmp_path)
    refuse_root(tmp_path / "not made yet")
    os.chown(tmp_path, 1, 1)

    with pytest.raises(ConfigurationError, match=f"{tmp_path} belongs to daemon: systemctl start edgeagent"):
        refuse_root(tmp_path)


@as_root
def test_root_is_somebody_else_for_a_while_without_its_groups_and_itself_again_whatever_happens() -> None:
    there = before = (os.geteuid(), os.getegid(), os.getgroups())

    with suppress(InterruptedError), acting_as(NOBODY, NOBODY):
        there = (os.geteuid(), os.getegid(), os.getgroups())
        raise InterruptedError
    with acting_as(0, 0):
        assert os.getegid() == before[1]

    assert there == (NOBODY, NOBODY, [])
    assert (os.geteuid(), os.getegid(), os.getgroups()) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="this is root")
def test_whoever_is_not_root_is_let_be(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SYSTEMD_EXEC_PID", str(os.getpid()))

    refuse_root(tmp_path)
