"""Who is at the other end of a loopback connection, asked of the real kernel."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from edgeagent.adapters.web.callers import user_of

pytestmark = [pytest.mark.requirement("H6"), pytest.mark.threat("T49")]
NOBODY = 65_534


@contextmanager
def connected(
    family: socket.AddressFamily, address: str, dialled: str
) -> Iterator[tuple[socket.socket, ...]]:
    """Who calls, and the end of that call at whoever listens."""
    with (
        socket.create_server((address, 0), family=family) as listening,
        socket.create_connection((dialled, listening.getsockname()[1])) as caller,
    ):
        own, _ = listening.accept()
        with own:
            yield caller, own


@pytest.mark.parametrize(
    ("family", "address", "dialled"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
        (socket.AF_INET, "127.3.2.1", "127.3.2.1"),
        (socket.AF_INET, "127.0.0.1", "::ffff:127.0.0.1"),
        (socket.AF_INET6, "::1", "::1"),
    ],
)
def test_the_kernel_tells_whose_the_other_end_is(
    family: socket.AddressFamily, address: str, dialled: str
) -> None:
    with connected(family, address, dialled) as (_, own):
        assert user_of(own.getpeername()[:2], own.getsockname()[:2]) == os.geteuid()


def test_an_end_that_nobody_holds_any_more_is_nobodys() -> None:
    with connected(socket.AF_INET, "127.0.0.1", "127.0.0.1") as (caller, own):
        places = own.getpeername(), own.getsockname()
        caller.close()  # wound up by the kernel, which lists it as root's

        assert user_of(*places) is None
        assert user_of(("127.0.0.1", 1), places[1]) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a program as somebody else")
def test_another_user_is_told_apart() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        dial = f"exec 3<>/dev/tcp/127.0.0.1/{port}; read -r line <&3"
        with subprocess.Popen(["bash", "-c", dial], user=NOBODY, group=NOBODY, extra_groups=[]) as caller:
            own, place = listening.accept()
            with own:
                assert user_of(place, own.getsockname()) == NOBODY
            caller.wait(60)
