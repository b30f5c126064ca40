"""The README's examples, run as they stand: its lines of shell, its configuration, its Python."""

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.receipt import Outcome, Receipt
from edgeagent.errors import SuspiciousError
from edgeagent.ids import DeviceId, HubId
from edgeagent.issuer.keys import PrivateKey, load_public_key, save_key, save_public_key
from edgeagent.store.hubkey import public_half
from tests.firmware_sim.images import a_tasmota_image
from tests.firmware_sim.process import fleet
from tests.support.brokers import Mosquitto, wait_until
from tests.support.private import write_private
from tests.support.queue_server import QueueServer

ROOT: Final = Path(__file__).parents[2]
README: Final = (ROOT / "README.md").read_text("utf-8")
PLUG: Final = "0232ED7C6760"
_PLUG_FILE: Final = f'[[appliance]]\nmodel = "tasmota-plug"\nmac = "{PLUG}"\n'


def _block(language: str, holding: str) -> str:
    """The README's example in a language that holds a text."""
    [found] = [
        block for block in re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL) if holding in block
    ]
    return str(found)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty folder whose ``bin`` has the program, and a short one for its socket."""
    program = tmp_path / "bin" / "edgeagent"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m edgeagent "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    run_dir = Path(tempfile.mkdtemp(prefix="edgeagent-"))
    (tmp_path / "run_dir").write_text(str(run_dir))
    yield tmp_path
    shutil.rmtree(run_dir, ignore_errors=True)


def _environment(folder: Path) -> dict[str, str]:
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    return os.environ | {"PATH": path, "EDGEAGENT_CONFIG": "config.toml", "PYTHONPATH": str(ROOT)}


def _write_configuration(folder: Path, broker: Mosquitto, server: QueueServer) -> None:
    """The README's two files, with this machine's ports and the key that was just made."""
    run_dir = (folder / "run_dir").read_text()
    config = _block("toml", "[cloud]").replace("port = 1883", f"port = {broker.port}")
    config = config.replace("https://queue.example.org", server.url)
    config = config.replace(
        'id = "hub-1"', f'id = "hub-1"\nstate_dir = "{folder / "state"}"\nrun_dir = "{run_dir}"'
    )
    config += '\n[web]\nlisten = "127.0.0.1:0"\n'
    (folder / "config.toml").write_text(config)
    (folder / "policy.toml").write_text(_block("toml", "[roles.staff]"))
    token = folder / "hub.token"
    write_private(token, server.new_hub("hub-1").token)
    desk = PrivateKey.new()
    save_key(desk, folder / "desk.key")
    save_public_key(desk.public, folder / "desk.key.pub")
    save_public_key(server.time_key.public, folder / "clock.key.pub")


@pytest.mark.slow
@pytest.mark.requirement("H3", "V6", "M1")
def test_its_ten_lines_bring_a_hub_to_life_and_switch_a_plug(folder: Path) -> None:
    lines = _block("sh", "edgeagent run").splitlines()
    plug = folder / "plug.toml"
    plug.write_text(_PLUG_FILE)
    with (
        Mosquitto(folder / "broker") as broker,
        QueueServer(folder / "queue") as server,
        fleet(broker, "--specifications", str(plug), "--journal", str(folder / "journal")) as appliances,
    ):
        _write_configuration(folder, broker, server)
        told: dict[str, str] = {}
        agent: subprocess.Popen[bytes] | None = None
        try:
            for line in lines:
                if "edgeagent run" in line:
                    agent = _run(folder, line)
                    continue
                told[line] = _type(folder, line)
                if "keys new" in line:
                    _trust_the_new_key(folder)
        finally:
            if agent is not None:
                os.killpg(agent.pid, signal.SIGTERM)
                agent.wait(60)

        assert len(lines) == 10
        assert "succeeded" in told[f"edgeagent send {PLUG} power on=yes"]
        assert "EDGEAGENT OK" in told["edgeagent health"]
        assert appliances.state(PLUG) is not None


def _type(folder: Path, line: str) -> str:
    """What a person would see; what has to be there first is waited for, as a person would."""

    def typed() -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S602 - our own lines, as a shell runs them
            line,
            shell=True,
            cwd=folder,
            env=_environment(folder),
            capture_output=True,
            text=True,
            check=False,
        )

    if "devices admit" in line:
        wait_until(lambda: PLUG in _type(folder, "edgeagent devices list"), "the plug to show itself")
    if line == "edgeagent health":
        wait_until(lambda: typed().returncode == 0, "the hub to be well")
    done = typed()
    assert done.returncode == 0, (line, done.stdout, done.stderr)
    return done.stdout


def _run(folder: Path, line: str) -> "subprocess.Popen[bytes]":
    command = line.removesuffix("&").strip()
    agent = subprocess.Popen(  # noqa: S602 - our own line, as a shell runs it
        f"exec {command}",
        shell=True,
        cwd=folder,
        env=_environment(folder),
        start_new_session=True,
    )
    config = ["edgeagent", "--json", "status"]
    environment = _environment(folder)

    def connected() -> bool:
        asked = subprocess.run(
            config, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        return asked.returncode == 0 and '"connected": true' in asked.stdout

    wait_until(connected, "the agent to reach its broker")
    return agent


def _trust_the_new_key(folder: Path) -> None:
    config = folder / "config.toml"
    public = load_public_key(folder / "policy.key.pub").hex()
    config.write_text(config.read_text().replace("the public key that keys new has printed", public))


@pytest.mark.slow
@pytest.mark.requirement("P1", "T1", "A4")
async def test_its_python_leads_from_a_backend_to_a_verified_receipt(folder: Path) -> None:
    plug = folder / "plug.toml"
    plug.write_text(_PLUG_FILE)
    with (
        Mosquitto(folder / "broker") as broker,
        QueueServer(folder / "queue") as server,
        fleet(broker, "--specifications", str(plug), "--journal", str(folder / "journal")),
    ):
        _write_configuration(folder, broker, server)
        _type(folder, "edgeagent issuer keys new policy.key")
        _trust_the_new_key(folder)
        _type(folder, "edgeagent issuer policy sign policy.toml --key policy.key --out policy.json")
        agent = _run(folder, "edgeagent run 2> agent.log &")
        try:
            _type(folder, f"edgeagent devices admit {PLUG}")
            write_private(folder / "desk.token", server.issuer_token)
            example = _block("python", "async def switch_on")
            for name in ("desk.token", "desk.key"):
                example = example.replace(f'Path("{name}")', f"Path({str(folder / name)!r})")
            names: dict[str, object] = {}
            exec(compile(example, "README.md", "exec"), names)  # noqa: S102 - it is our own example
            switch_on = names["switch_on"]
            assert callable(switch_on)

            hub_key = public_half(folder / "state" / "hub.key")
            receipt = await switch_on(server.url, HubId("hub-1"), DeviceId(PLUG), hub_key)
            with pytest.raises(SuspiciousError, match="its hub has not signed"):
                await switch_on(server.url, HubId("hub-1"), DeviceId(PLUG), PrivateKey.new().public)
        finally:
            os.killpg(agent.pid, signal.SIGTERM)
            agent.wait(60)

    assert isinstance(receipt, Receipt)
    assert receipt.outcome is Outcome.SUCCEEDED


@pytest.mark.slow
@pytest.mark.requirement("F1", "F2", "F4", "H3")
def test_its_lines_about_firmware_bring_a_plug_to_another_version(folder: Path) -> None:
    lines = _block("sh", "artifact release").splitlines()
    plug = folder / "plug.toml"
    plug.write_text(_PLUG_FILE)
    (folder / "tasmota.bin").write_bytes(a_tasmota_image())
    write_private(folder / "secret", "correct horse battery\n")
    with (
        Mosquitto(folder / "broker") as broker,
        QueueServer(folder / "queue") as server,
        fleet(broker, "--specifications", str(plug), "--journal", str(folder / "journal")) as appliances,
    ):
        _write_configuration(folder, broker, server)
        _publish(folder)
        agent = _run(folder, "edgeagent run 2> agent.log &")
        told: dict[str, str] = {}
        try:
            _type(folder, f"edgeagent devices admit {PLUG}")
            for line in lines:
                if "artifacts list" in line:
                    # The hub looks for it every second.
                    wait_until(lambda: "released" in _type(folder, "edgeagent artifacts list"), "the file")
                told[line] = _type(folder, line)
        finally:
            os.killpg(agent.pid, signal.SIGTERM)
            agent.wait(60)
        flash = appliances.state(PLUG)["flash"]

    assert "is here, whole" in told["edgeagent artifacts fetch plug-14.2.0"]
    assert "succeeded" in told[lines[-2]]
    assert "1" in told["edgeagent firmware status"]
    assert '"version": "14.2.0"' in json.dumps(flash)


def _publish(folder: Path) -> None:
    """Have the README's policy come from a repository and say how firmware is installed."""
    policy = (folder / "policy.toml").read_text().replace('actions = ["power"]', 'actions = "*"')
    (folder / "policy.toml").write_text(
        f'{policy}\n[actions.install]\ntier = "low"\n[firmware]\nsoak = "1s"\n'
    )
    _type(folder, "edgeagent issuer init venue --policy policy.toml --passphrase-file secret")
    config = (folder / "config.toml").read_text()
    published = '[policy]\nroot = "venue/repository/metadata/1.root.json"\n'
    published += f'source = "{folder}/venue/repository"\nrefresh = "1s"\n[firmware]\nlisten = "127.0.0.1:0"\n'
    config = re.sub(r"\[policy\]\nfile = .*\nsigner = .*\n", published, config)
    (folder / "config.toml").write_text(config)
