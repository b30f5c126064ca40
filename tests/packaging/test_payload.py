"""What is in a package works where it will be installed: that release's Python, that kind of machine."""

import signal
from pathlib import Path
from typing import Final

import pytest

from tests.support.foreign import Debian, needs_foreign_python
from tests.support.waiting import eventually

LAUNCHER: Final = "/opt/edgeagent/bin/edgeagent"
MACHINES: Final = (Debian("bookworm", "arm64"), Debian("trixie", "amd64"))
OLDER: Final = Debian("bookworm", "armhf", ("base-files", "libgcc-s1", "python3", "python3-cffi-backend"))
KEYS: Final = """
import contextlib, io, os, pathlib, sys
sys.path += ["/opt/edgeagent/lib", "/usr/lib/python3/dist-packages"]
os.chdir("/mnt")
from edgeagent.cli.main import main
sign = "policy sign policy.toml --key policy.key --out policy.json"
said = io.StringIO()
with contextlib.redirect_stdout(said):
    for words in ("keys new desk.key", "keys new policy.key", sign):
        assert main(["issuer", *words.split()]) == 0, words
print(said.getvalue())
"""
CHECKED: Final = """
signer = said.getvalue().split("public")[2].split()[0]
config = pathlib.Path("config.toml")
config.write_text(config.read_text().format(signer=signer))
assert main("config check --config /mnt/config.toml".split()) == 0
"""
"""In the same process, since each start takes qemu seconds."""
POLICY: Final = """
version = 1
valid_for = "365d"
[keys]
desk = "desk.key.pub"
[roles.desk]
kind = "command"
keys = ["desk"]
actions = "*"
devices = "*"
[actions.power]
tier = "low"
"""
CONFIG: Final = """
[hub]
id = "hub-1"
state_dir = "/mnt/state"
run_dir = "/mnt/run"
[broker]
port = 9
[policy]
file = "policy.json"
signer = "{signer}"
"""


def prepared(folder: Path) -> Path:
    """A folder with a policy to be signed, and places for the agent."""
    folder.mkdir()
    (folder / "policy.toml").write_text(POLICY)
    for name in ("state", "run"):
        (folder / name).mkdir(mode=0o700)
    return folder


def typed_at(machine: Debian, folder: Path, *words: str) -> str:
    """What a Python of that machine says, which has to end well."""
    said = folder / "said"
    with said.open("w") as into, machine.start(folder, *words, into=into) as process:
        assert process.wait(timeout=90) == 0, said.read_text()
    return said.read_text()


@pytest.mark.slow
@needs_foreign_python
@pytest.mark.requirement("H1")
@pytest.mark.parametrize("machine", MACHINES, ids=lambda each: f"{each.suite}-{each.architecture}")
async def test_keys_are_made_signatures_verified_and_the_agent_runs(machine: Debian, tmp_path: Path) -> None:
    folder = prepared(tmp_path / "hub")
    said = folder / "said"
    (folder / "config.toml").write_text(CONFIG)

    # Given keys and a policy that were made and signed there, and a configuration that is in order
    assert "in order" in typed_at(machine, folder, "-c", KEYS + CHECKED)

    # When the agent runs
    with said.open("w") as into:
        agent = machine.start(folder, LAUNCHER, "run", "--config", "/mnt/config.toml", into=into)
        try:
            await eventually(lambda: '"policy ' in said.read_text(), within=90)
        finally:
            agent.send_signal(signal.SIGTERM)
            status = agent.wait(timeout=60)

    # Then it has taken its policy and opened its database, and ends in order
    assert status == 0, said.read_text()
    assert '"policy accepted"' in said.read_text()
    assert '"stopped"' in said.read_text()
    assert (folder / "state" / "hub.db").stat().st_size > 0


@pytest.mark.slow
@needs_foreign_python
@pytest.mark.requirement("H1")
def test_on_an_older_pi_signatures_are_made_and_verified_with_debians_own_part(tmp_path: Path) -> None:
    """There is no wheel of cffi for it; the rest of this architecture is tried by hand."""
    folder = prepared(tmp_path / "hub")

    assert "policy version 1" in typed_at(OLDER, folder, "-c", KEYS)
