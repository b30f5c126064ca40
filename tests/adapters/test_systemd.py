"""Telling the service manager how we are (sd_notify(3)), over a real socket."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from secrets import token_hex

import pytest

from edgeagent.adapters.systemd import ServiceManager

pytestmark = pytest.mark.requirement("H2")


@contextmanager
def listening(address: str) -> Iterator[socket.socket]:
    """A service manager's end of ``$NOTIFY_SOCKET``."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind("\0" + address[1:] if address.startswith("@") else address)
        channel.settimeout(60)
        yield channel


@pytest.mark.parametrize("kind", ["a path", "an abstract name"])
def test_it_is_told_that_we_are_ready_alive_and_stopping(tmp_path: Path, kind: str) -> None:
    address = f"@edgeagent-{token_hex(8)}" if kind == "an abstract name" else str(tmp_path / "notify")
    with listening(address) as channel:
        manager = ServiceManager(address, None)

        manager.ready()
        manager.alive()
        manager.status("3 devices")
        manager.stopping()

        told = [channel.recv(100) for _ in range(4)]
        assert told == [b"READY=1", b"WATCHDOG=1", b"STATUS=3 devices", b"STOPPING=1"]


def test_a_status_cannot_say_anything_else(tmp_path: Path) -> None:
    """Each line is an assignment of its own: a name with a line break must not make one."""
    address = str(tmp_path / "notify")
    with listening(address) as channel:
        manager = ServiceManager(address, None)

        manager.status("fine\nSTOPPING=1\r\nMAINPID=1")
        manager.status("")

        assert [channel.recv(100) for _ in range(2)] == [b"STATUS=fine", b"STATUS="]


@pytest.mark.parametrize("address", [None, "", "/nobody/listens/here", "x" * 200])
def test_where_nobody_listens_nothing_happens(address: str | None) -> None:
    manager = ServiceManager(address, None)

    manager.ready()
    manager.alive()


@pytest.mark.requirement("R6")
@pytest.mark.parametrize(
    ("usec", "pid", "watchdog"),
    [
        pytest.param("30000000", None, timedelta(seconds=30), id="for whoever was started"),
        pytest.param("30000000", os.getpid(), timedelta(seconds=30), id="for us"),
        pytest.param("30000000", 1, None, id="for another process"),
        pytest.param(None, None, None, id="none is wanted"),
        pytest.param("", None, None, id="empty"),
        pytest.param("0", None, None, id="no time at all"),
        pytest.param("-5", None, None, id="negative"),
        pytest.param("soon", None, None, id="no number"),
        pytest.param("٣", None, None, id="a digit of another script"),
        pytest.param("9" * 40, None, None, id="beyond all bounds"),
    ],
)
def test_the_watchdog_is_read_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, usec: str | None, pid: int | None, watchdog: timedelta | None
) -> None:
    for name, value in (("WATCHDOG_USEC", usec), ("WATCHDOG_PID", pid), ("NOTIFY_SOCKET", None)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, str(value))

    assert ServiceManager.from_environment().watchdog == watchdog
