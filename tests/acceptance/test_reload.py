"""The configuration is read again while the agent runs: what can be taken is, the rest is named."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgeagent.config import Config
from edgeagent.config_keys import all_keys
from tests.support.agents import AgentProcess
from tests.support.brokers import free_port, wait_until
from tests.support.private import write_private
from tests.support.stores import query

pytestmark = [pytest.mark.slow, pytest.mark.requirement("H4")]

ROWS = "SELECT kind, actor, detail FROM audit WHERE kind LIKE 'configuration%' ORDER BY number"
WORTH = {
    "ingest.commit_linger": '"50ms"',
    "uplink.linger": '"2s"',
    "uplink.most_events": "100",
    "uplink.longest_backoff": '"2m"',
    "audit.keep": '"100d"',
    "backup.keep": "1",
    "artifacts.budget": "64",
    "artifacts.keep": '"1d"',
    "log.level": '"debug"',
    "broker.password_file": '"other"',
    "cloud.token_file": '"other"',
}
"""A new value for each key that can be taken."""


class Hub:
    """An agent whose broker and queue are away."""

    def __init__(self, folder: Path, more: str = "") -> None:
        away = free_port()
        self.sections = (
            f'[broker]\nport = {away}\nusername = "agent"\npassword_file = "secret"\n'
            f'[cloud]\nurl = "http://127.0.0.1:{away}"\ntoken_file = "secret"\n'
        )
        self.agent = AgentProcess(folder, self.sections + more)
        for name in ("secret", "other"):
            write_private(folder / name, f"{name}-of-a-hub-0123456789")
        self.text = self.agent.config.read_text("utf-8")

    def says(self, text: str) -> None:
        """Change the file, and have it read by SIGHUP."""
        self.agent.config.write_text(text, "utf-8")
        self.is_hung_up()

    def is_hung_up(self) -> None:
        """Have the file read by SIGHUP, and wait until what came of it is on record."""
        before = len(query(self.agent.database, ROWS))
        os.kill(self.agent.pid, signal.SIGHUP)
        wait_until(lambda: len(query(self.agent.database, ROWS)) > before, "the reload to be on record")

    @property
    def health(self) -> str:
        """What health says of it."""
        lines = self.agent.run("health").stdout.splitlines()
        [at] = [number for number, line in enumerate(lines) if line.split()[1:2] == ["configuration"]]
        return "\n".join(lines[at : at + 2])


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    running = Hub(tmp_path / "hub")
    running.agent.start()
    yield running
    running.agent.close()


def test_what_can_be_taken_is_and_the_rest_is_named_until_it_is_taken_back(hub: Hub) -> None:
    agent = hub.agent
    pid = agent.pid
    assert "OK" in hub.health

    hub.says(hub.text.replace('level = "info"', 'level = "debug"').replace("venue-7", "venue-8"))

    assert "needs a restart to be in force: hub.id" in hub.health
    assert "systemctl restart edgeagent" in hub.health
    shown = agent.run("config", "show", "--json")
    assert json.loads(shown.stdout)["needs_restart"] == ["hub.id"]
    assert agent.run("backup", "create").returncode == 0
    reloaded = agent.run("config", "reload")
    assert "taken: nothing new\nneeds a restart: hub.id\n" in reloaded.stdout
    hub.says(hub.text)
    assert "OK" in hub.health
    assert (agent.pid, agent.status().hub) == (pid, "venue-7")
    kinds = query(agent.database, ROWS)
    assert kinds[0][:2] == ("configuration_taken", "signal")
    assert '"taken":["log.level"]' in str(kinds[0][2])
    assert str(kinds[1][1]).startswith("uid:")
    assert '"needs_restart": ["hub.id"]' in agent.log


def test_what_fits_only_to_keys_that_wait_for_a_restart_waits_with_them(tmp_path: Path) -> None:
    managed = '[broker.managed]\nlisten = "127.0.0.1:1"\n'
    hub = Hub(tmp_path / "hub", managed)
    hub.agent.start()
    pid = hub.agent.pid
    # A guest again. No password could be taken at once; a managed broker without one is a mistake
    guest = hub.text.replace(managed, "").replace('password_file = "secret"\n', "")

    hub.says(guest.replace('level = "info"', 'level = "debug"'))

    assert "needs a restart to be in force" in hub.health
    assert all(name in hub.health for name in ("broker.managed.listen", "broker.password_file", "log.level"))
    hub.says(hub.text)
    assert "OK" in hub.health
    assert hub.agent.pid == pid
    hub.agent.close()


@pytest.mark.threat("T54")
@pytest.mark.requirement("A2")
def test_a_file_with_a_mistake_or_a_secret_that_others_read_changes_nothing(hub: Hub) -> None:
    agent = hub.agent
    loud = hub.text.replace('level = "info"', 'level = "error"')

    hub.says(loud + "[colour]\n")
    agent.config.write_text(loud, "utf-8")
    assert "WARNING" in hub.health
    assert "colour: there is no such key" in hub.health
    (agent.folder / "secret").chmod(0o644)
    asked = agent.run("config", "reload")
    assert asked.returncode == 78
    assert "others may use the secret" in asked.stderr
    assert "others may use the secret" in hub.health
    (agent.folder / "secret").unlink()
    hub.says(loud)
    agent.config.unlink()
    hub.is_hung_up()
    assert "cannot read" in agent.log

    rows = query(agent.database, ROWS)
    assert {kind for kind, _, _ in rows} == {"configuration_refused"}
    # It would not be logged at the level of the refused file.
    agent.config.write_text(hub.text, "utf-8")
    write_private(agent.folder / "secret", "another-of-a-hub-0123456789")
    hub.says(hub.text)
    assert "OK" in hub.health
    assert "configuration read again" in agent.log
    assert "of-a-hub" not in agent.log + str(query(agent.database, ROWS))
    assert agent.stop() == 0


def test_each_key_that_is_called_live_is_taken_and_told_to_systemd(tmp_path: Path) -> None:
    address = tmp_path / "notify"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(str(address))
    listener.settimeout(60)
    hub = Hub(tmp_path / "hub")
    hub.agent.environment["NOTIFY_SOCKET"] = str(address)
    hub.agent.start()
    fields: dict[str, list[str]] = {}
    live = [key.name for key in all_keys(Config) if key.is_live and not key.name.startswith("policy.")]
    for name in live:
        section, _, key = name.rpartition(".")
        fields.setdefault(section, []).append(f"{key} = {WORTH[name]}")
    text = hub.text.replace('\nlevel = "info"', "").replace('password_file = "secret"\n', "")
    text = text.replace('token_file = "secret"\n', "")
    for section, lines in fields.items():
        written = "\n".join([f"[{section}]", *lines])
        text = text.replace(f"[{section}]", written) if f"[{section}]" in text else f"{text}{written}\n"

    # What it says while it starts would fill up what nobody takes.
    told: list[str] = []
    while "READY=1" not in told:
        told += listener.recv(4096).decode().splitlines()

    hub.says(text)

    [(_, _, detail)] = query(hub.agent.database, ROWS)
    assert json.loads(str(detail)) == {"needs_restart": [], "taken": live}
    told = []
    while not told or not told[-1].startswith("READY") or not any("RELOADING" in line for line in told):
        told.append(listener.recv(4096).decode())
    listener.close()
    hub.agent.close()


def test_a_signal_that_comes_before_the_start_is_over_ends_nothing(hub: Hub) -> None:
    assert hub.agent.stop() == 0
    hub.agent.launch()
    pid = hub.agent.pid

    ignored = f"/proc/{pid}/status"
    wait_until(lambda: _ignores_or_catches(ignored), "the agent to be ready for it")
    for _ in range(20):
        os.kill(pid, signal.SIGHUP)
    hub.agent.wait_for_answer()

    assert hub.agent.stop() == 0


def _ignores_or_catches(status: str) -> bool:
    lines = [line.split() for line in Path(status).read_text("ascii").splitlines()]
    return any(int(words[1], 16) & 1 for words in lines if words[0] in {"SigIgn:", "SigCgt:"})
