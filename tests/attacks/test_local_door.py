"""Others on the hub's own machine: files, rights, words behind ``--``, and a configuration that lets them in.

Nothing that the agent makes can be read or written by another user, whatever the umask it was started
with; what would let somebody in is refused at the start with what to do.
"""

import os
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.reports.commands import SendReport
from edgeagent.doorkeeper import MOST_INSIDE
from tests.cli.building import Said, typed
from tests.support.agents import AgentProcess
from tests.support.brokers import free_port, wait_until
from tests.support.stores import query

pytestmark = pytest.mark.slow

NOBODY: Final = 65_534
CONFIGURATION: Final = 78
ASKS: Final = 'for f; do test -r "$f" && echo "reads $f"; test -w "$f" && echo "writes $f"; done; true'


@pytest.fixture
def sections() -> str:
    """A hub whose broker is away: nothing here needs it."""
    return f"[broker]\nport = {free_port()}\n"


@pytest.fixture
def agent(tmp_path: Path, sections: str) -> Iterator[AgentProcess]:
    """An agent that is started by somebody who lets everybody read and write what they make."""
    before = os.umask(0)
    try:
        with closing(AgentProcess(tmp_path / "hub", sections)) as made:
            made.config.chmod(0o644)
            made.start()
            yield made
    finally:
        os.umask(before)


def rights(folder: Path) -> dict[str, int]:
    """The rights of everything that lies in a folder, itself included."""
    found = {}
    for each in (folder, *folder.rglob("*")):
        with suppress(FileNotFoundError):  # some are there for a moment
            found[each.name] = stat.S_IMODE(each.stat().st_mode)
    return found


@pytest.mark.threat("T49")
@pytest.mark.requirement("V6")
def test_whatever_the_umask_no_file_of_the_state_is_anybody_elses(agent: AgentProcess) -> None:
    agent.admit_by_hand("plug", "tasmota", topic="plug")
    agent.send("plug", ActionName.POWER)

    found = rights(agent.state_dir)

    assert {"hub.db", "hub.db-wal", "hub.db-shm", "hub.key", "agent.lock"} <= found.keys()
    folder = found.pop(agent.state_dir.name)
    assert folder & 0o007 == 0
    assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}


@pytest.mark.threat("T49")
@pytest.mark.requirement("V6")
def test_a_database_that_was_readable_is_closed_at_the_next_start(agent: AgentProcess) -> None:
    agent.kill()
    for part in agent.state_dir.glob("hub.db*"):
        part.chmod(0o666)

    agent.start()

    assert all(mode & 0o077 == 0 for name, mode in rights(agent.state_dir).items() if "hub.db" in name)


@pytest.mark.threat("T49")
@pytest.mark.requirement("V6")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_somebody_else_reads_and_writes_neither_the_state_nor_the_door(sections: str) -> None:
    """Not even where the folders let them pass."""
    with tempfile.TemporaryDirectory(prefix="edgeagent-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with closing(AgentProcess(folder / "hub", sections)) as agent:
            agent.start()
            for each in (folder / "hub", agent.state_dir, agent.socket.parent):
                each.chmod(0o755)
            paths = [*agent.state_dir.iterdir(), agent.socket]

            found = subprocess.run(
                ["/bin/sh", "-c", ASKS, "sh", *paths, "/etc/passwd"],
                user=NOBODY,
                group=NOBODY,
                extra_groups=[],
                capture_output=True,
                text=True,
                check=True,
            )

    # That one may be read shows that the others were asked for.
    assert found.stdout.splitlines() == ["reads /etc/passwd"]


def types(agent: AgentProcess, *words: str) -> Said:
    """What a command comes to."""
    return typed("--config", str(agent.config), *words)


@pytest.mark.threat("T49")
@pytest.mark.requirement("V5")
@pytest.mark.parametrize("name", ["--json", "-h", "--config", "-", "--"])
def test_what_stands_behind_two_dashes_is_never_an_option(agent: AgentProcess, name: str) -> None:
    given = ("--profile", "tasmota", "--label", "Odd", "--set", "topic=odd")

    admitted = types(agent, "devices", "admit", *given, "--", name)
    shown = types(agent, "devices", "show", "--", name)
    sent = types(agent, "send", "--wait", "1s", "--", name, "power", "on=yes")
    as_json = types(agent, "--json", "send", "--", name, "power", "on=yes")
    forgotten = types(agent, "devices", "forget", "--", name)

    assert admitted.out.startswith(f"{name}  Odd  (tasmota, ")
    assert shown.out.splitlines()[0] == admitted.out.splitlines()[0]
    assert sent.out.startswith(f"{name} power: refused: no_policy")
    assert as_json.report(SendReport).refused == "no_policy"
    assert (forgotten.status, forgotten.out, forgotten.err) == (0, f"{name} is forgotten\n", "")
    assert agent.devices().devices == []


@pytest.mark.threat("T49")
@pytest.mark.requirement("V5")
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["devices", "forget", "--help"], id="a cry for help"),
        pytest.param(["devices", "forget", "--json"], id="an option of ours"),
        pytest.param(["devices", "forget", "plug", "--conf", "/dev/null"], id="half an option"),
        pytest.param(["devices", "forget", "plug", "other"], id="two for one"),
        pytest.param(["devices", "forget", "@words"], id="words from a file"),
        pytest.param(["devices", "forget", "plug;true"], id="a shell's"),
    ],
)
def test_words_that_look_like_something_else_change_nothing(agent: AgentProcess, words: list[str]) -> None:
    agent.admit_by_hand("plug", "tasmota", topic="plug")

    types(agent, *words)

    assert [each.device for each in agent.devices().devices] == ["plug"]


# A configuration that would let somebody in.


def refused(folder: Path, sections: str, **files: int) -> tuple[int, str, AgentProcess]:
    """How an agent ends that is given this configuration, and files of these rights."""
    with closing(AgentProcess(folder / "hub", sections)) as agent:
        for name, mode in files.items():
            file = agent.folder / name
            if name == "state":
                file.mkdir()
            elif not file.exists():
                file.write_text("a-secret-of-this-hub")
            file.chmod(mode)
        agent.launch()
        return agent.wait_for_end(), agent.log, agent


@pytest.mark.threat("T54")
@pytest.mark.requirement("H4")
@pytest.mark.parametrize(
    ("sections", "place"),
    [
        pytest.param("[hub_]\n", "hub_: there is no such key", id="a section"),
        pytest.param("[policy]\noverride = true\n", "policy.override: there is no such key", id="override"),
        pytest.param("[cloud]\nverify = false\n", "cloud.verify: there is no such key", id="verify"),
        pytest.param("[broker]\ntls = false\n", "broker.tls: ", id="no TLS"),
        pytest.param(
            "[broker.tls]\ninsecure = true\n", "broker.tls.insecure: there is no such key", id="insecure"
        ),
        pytest.param("[gate]\noverride = true\n", "gate: there is no such key", id="the gate"),
        pytest.param(
            "[ingest]\ncommit_linger = 'soon'\n", "ingest.commit_linger: ", id="a word that is none"
        ),
    ],
)
def test_a_key_that_nobody_knows_keeps_the_agent_from_starting(
    tmp_path: Path, sections: str, place: str
) -> None:
    status, log, agent = refused(tmp_path, sections)

    assert status == CONFIGURATION
    assert f"{agent.config}:" in log
    assert place in log
    assert "Traceback" not in log
    assert not agent.database.exists()


TLS: Final = '[broker]\n[broker.tls]\ncert_file = "cert"\nkey_file = "key"\n'
CLOUD: Final = '[cloud]\nurl = "https://queue.example"\ntoken_file = "token"\n'
LOGIN: Final = '[broker]\nusername = "agent"\npassword_file = "password"\n'


@pytest.mark.threat("T54")
@pytest.mark.requirement("H4", "A2")
@pytest.mark.parametrize("mode", [0o604, 0o660])
@pytest.mark.parametrize(
    ("sections", "name"),
    [(CLOUD, "token"), (LOGIN, "password"), (TLS, "key")],
    ids=["token", "password", "key"],
)
def test_a_secret_that_others_may_use_keeps_the_agent_from_starting(
    tmp_path: Path, sections: str, name: str, mode: int
) -> None:
    status, log, agent = refused(tmp_path, sections, **{name: mode})

    file = agent.folder / name
    assert status == CONFIGURATION
    assert f"others may use the secret {file}: chmod 600 {file}" in log
    assert "a-secret-of-this-hub" not in log
    assert query(agent.database, "SELECT count(*) FROM audit") == [(0,)]


@pytest.mark.threat("T54")
@pytest.mark.requirement("H4")
def test_a_configuration_that_anybody_may_write_keeps_the_agent_from_starting(
    tmp_path: Path, sections: str
) -> None:
    status, log, agent = refused(tmp_path, sections, **{"config.toml": 0o646})

    assert status == CONFIGURATION
    assert f"anybody may change {agent.config}: chmod o-w {agent.config}" in log
    assert not agent.database.exists()


@pytest.mark.threat("T54")
@pytest.mark.requirement("H4")
def test_a_folder_in_which_anybody_may_write_is_no_place_for_the_state(tmp_path: Path, sections: str) -> None:
    status, log, agent = refused(tmp_path, sections, state=0o777)

    assert status == CONFIGURATION
    assert f"anybody may write in {agent.state_dir}: chmod o-w {agent.state_dir}" in log
    assert list(agent.state_dir.iterdir()) == []


@pytest.mark.threat("T54")
@pytest.mark.requirement("H4", "V6")
@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_the_hubs_key_that_others_may_read_keeps_the_agent_from_starting(
    agent: AgentProcess, mode: int
) -> None:
    agent.stop()
    key = agent.state_dir / "hub.key"
    before = key.read_bytes()
    key.chmod(mode)

    agent.launch()

    assert agent.wait_for_end() == CONFIGURATION
    assert f"others may read the hub's key: chmod 600 {key}" in agent.log
    assert key.read_bytes() == before
    assert not agent.socket.exists()


@pytest.mark.threat("T49", "T56")
@pytest.mark.requirement("V6")
def test_somebody_who_opens_hundreds_of_connections_takes_no_descriptor_from_the_agents_work(
    tmp_path: Path, sections: str
) -> None:
    port = free_port()
    with closing(AgentProcess(tmp_path / "hub", sections)) as agent, ExitStack() as held:
        text = agent.config.read_text("utf-8")
        agent.config.write_text(
            text.replace('listen = "127.0.0.1:0"', f'listen = "127.0.0.1:{port}"'), "utf-8"
        )
        agent.start()
        descriptors = Path(f"/proc/{agent.pid}/fd")
        before = len([*descriptors.iterdir()])

        for address in (("127.0.0.1", port), str(agent.socket)):
            family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
            for _ in range(3 * MOST_INSIDE):
                knocking = held.enter_context(socket.socket(family))
                knocking.connect(address)

        most = before + 2 * MOST_INSIDE + 20
        wait_until(lambda: len([*descriptors.iterdir()]) < most, "most of them to be cut")
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            assert answer.status == 200
        assert agent.status().hub == "venue-7"
