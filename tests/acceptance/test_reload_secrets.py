"""A secret in a file that is read again is shown to nobody but those whom it is meant for."""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.agents import AgentProcess
from tests.support.brokers import free_port, wait_until
from tests.support.private import write_private
from tests.support.stores import query

pytestmark = [pytest.mark.slow, pytest.mark.requirement("H4"), pytest.mark.requirement("A2")]

ROWS = "SELECT kind FROM audit WHERE kind LIKE 'configuration%'"
OLD: Final = b"old-secret-0123456789"
NEW: Final = b"new-secret-0123456789"
LOGIN: Final = 'username = "agent"\npassword_file = "password"\n'


class Listener:
    """Broker and queue in one: keeps what is said to it first, and answers nothing."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._callers: list[socket.socket] = []
        self._said: list[bytes] = []
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self._socket.getsockname()[1]
        return port

    def hears(self) -> list[bytes]:
        """What both sessions at the broker and somebody at the queue say to it from now on."""
        self._said.clear()
        for caller in self._callers:
            with contextlib.suppress(OSError):
                caller.shutdown(socket.SHUT_RDWR)
        wait_until(self._has_heard_all, "the agent to call again")
        return list(self._said)

    def close(self) -> None:
        """Listen no more."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for each in [self._socket, *self._callers]:
            each.close()

    def _has_heard_all(self) -> bool:
        of_broker = [each for each in self._said if each.startswith(b"\x10")]  # CONNECT
        return len(of_broker) > 1 and len(self._said) > len(of_broker)

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = self._socket.accept()
                caller.settimeout(60)
                self._callers.append(caller)
                self._said.append(caller.recv(65536))


class Hub:
    """An agent that calls its broker and its queue."""

    def __init__(self, folder: Path, login: str, port: int) -> None:
        queue = f'[cloud]\nurl = "http://127.0.0.1:{port}"\ntoken_file = "token"\n'
        self.agent = AgentProcess(folder, f"[broker]\nport = {port}\n{login}{queue}")
        self.text = self.agent.config.read_text("utf-8")
        self.has_secrets(OLD)
        write_private(folder / "other", NEW.decode())
        self.agent.start()

    def has_secrets(self, secret: bytes) -> None:
        """Put another into the files of both."""
        for name in ("password", "token"):
            (self.agent.folder / name).unlink(missing_ok=True)
            write_private(self.agent.folder / name, secret.decode())

    def says(self, text: str) -> str:
        """Change the file and have it read; what the agent answers."""
        self.agent.config.write_text(text, "utf-8")
        before = len(query(self.agent.database, ROWS))
        os.kill(self.agent.pid, signal.SIGHUP)
        wait_until(lambda: len(query(self.agent.database, ROWS)) > before, "the reload to be on record")
        return next(
            line for line in self.agent.run("health").stdout.splitlines() if " configuration " in line
        )


@pytest.fixture
def listener() -> Iterator[Listener]:
    ear = Listener()
    yield ear
    ear.close()


@pytest.fixture
def hub(tmp_path: Path, listener: Listener) -> Iterator[Hub]:
    running = Hub(tmp_path / "hub", LOGIN, listener.port)
    yield running
    running.agent.close()


def test_a_new_token_waits_with_the_address_of_the_new_queue(hub: Hub, listener: Listener) -> None:
    elsewhere = hub.text.replace(f"http://127.0.0.1:{listener.port}", f"http://127.0.0.1:{free_port()}")

    named = hub.says(elsewhere.replace('"token"', '"other"'))

    assert "needs a restart to be in force: cloud.url, cloud.token_file" in named
    assert not any(NEW in said for said in listener.hears())


def test_a_secret_in_the_same_file_waits_with_the_new_address_until_that_is_taken_back(
    hub: Hub, listener: Listener
) -> None:
    elsewhere = hub.text.replace("http://127.0.0.1", "http://localhost")
    elsewhere = elsewhere.replace(f"port = {listener.port}", f"port = {free_port()}")
    hub.has_secrets(NEW)

    named = hub.says(elsewhere)

    assert "needs a restart to be in force: broker.port, cloud.url" in named
    assert not any(NEW in said for said in listener.hears())
    assert "OK" in hub.says(hub.text)
    assert all(NEW in said for said in listener.hears())


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ('username = "agent"', 'username = "other"', "broker.username"),
        ("[broker]", '[broker]\nhost = "localhost"', "broker.host"),
        ("[cloud]", '[broker.tls]\nserver_name = "other.lan"\n[cloud]', "broker.tls.server_name"),
    ],
)
def test_a_new_password_waits_with_whoever_logs_in_and_with_where(
    hub: Hub, listener: Listener, before: str, after: str, named: str
) -> None:
    text = hub.text.replace(before, after).replace('"password"', '"other"')

    told = hub.says(text)

    assert named in told
    assert "broker.password_file" in told
    assert all(OLD in said for said in listener.hears())


def test_a_login_that_comes_waits_for_a_restart(tmp_path: Path, listener: Listener) -> None:
    hub = Hub(tmp_path / "hub", "", listener.port)
    named = "needs a restart to be in force: broker.username, broker.password_file"

    assert named in hub.says(hub.text.replace("[cloud]", f"{LOGIN}[cloud]"))

    heard = listener.hears()
    assert [OLD in said for said in heard] == [b"HTTP/1.1" in said for said in heard]
    hub.agent.close()


def test_a_login_that_is_taken_away_counts_until_the_restart(hub: Hub, listener: Listener) -> None:
    named = "needs a restart to be in force: broker.username, broker.password_file"

    assert named in hub.says(hub.text.replace(LOGIN, ""))

    assert all(OLD in said for said in listener.hears())
