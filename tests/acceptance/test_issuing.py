"""An issuer from its first word on: a folder, a queue that serves it, a hub that follows, keys that go.

Everything is typed as an operator types it; the hub is told nothing but the first root and the queue.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

import pytest

from tests.cli.building import Said, typed
from tests.support.agents import ROOT, AgentProcess
from tests.support.brokers import HOST, Mosquitto, free_port, wait_until
from tests.support.device import Device
from tests.support.private import write_private

HUB: Final = "venue-7"
PLUG: Final = "AABBCCDDEEFF"

pytestmark = [pytest.mark.slow]


class Business:
    """An issuer's folder, a queue, a hub and its plug."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"http://{HOST}:{free_port()}"
        self._stack = ExitStack()
        write_private(folder / "passphrase", "correct horse battery")

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._found()
            self._serve(stack)
            self.broker = stack.enter_context(Mosquitto(self.folder / "broker"))
            self.plug = stack.enter_context(Device(self.broker.port, client_id="plug-a"))
            self.agent = AgentProcess(self.folder / "hub", self._sections())
            stack.callback(self.agent.close)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_why: object) -> None:
        self._stack.close()

    def types(self, *words: str | Path) -> Said:
        """Type a command of the issuer's; it has to work."""
        said = typed("issuer", *map(str, words))
        assert said.status == 0, said
        return said

    def changes(self, *words: str | Path) -> Said:
        """Type a command that needs the offline keys."""
        return self.types(*words, "--folder", self.folder / "venue", "--passphrase-file", self._passphrase)

    @property
    def login(self) -> tuple[str | Path, ...]:
        """How the desk logs in."""
        return ("--queue", self.url, "--token-file", self.folder / "backend.token")

    @property
    def signing(self) -> tuple[str | Path, ...]:
        """With what the desk signs."""
        return ("--key", self.folder / "keys" / "backend.pem", "--hub", HUB)

    def sends(self, value: str) -> str:
        """Sign a command to switch the plug and put it into the queue; its id."""
        signed = self.types("command", "sign", PLUG, "power", f"on={value}", *self.signing, *self.login)
        (self.folder / "command.json").write_text(signed.out)
        return self.types("command", "send", self.folder / "command.json", *self.login).out.split()[0]

    def watches(self, command: str) -> Said:
        """Wait for a command's end."""
        return typed("issuer", "command", "watch", HUB, command, "--within", "2m", *map(str, self.login))

    def admits(self) -> None:
        """Let the plug in, which is off."""
        self.agent.wait_for_broker()
        admitted = self.agent.run("devices", "admit", PLUG, "--profile", "tasmota", "--set", "topic=plug-a")
        assert admitted.returncode == 0, admitted.stderr
        self.plug.listens("cmnd/plug-a/POWER1")
        self.plug.says("tele/plug-a/LWT", b"Online", retain=True)
        self.plug.says("stat/plug-a/POWER", b"OFF")
        wait_until(lambda: self.agent.status().clock.source == "statement", "the time to be proven")

    @property
    def _passphrase(self) -> Path:
        return self.folder / "passphrase"

    def _found(self) -> None:
        (self.folder / "policy.toml").write_text(typed("issuer", "policy", "sample").out)
        words = ("--policy", self.folder / "policy.toml", "--passphrase-file", self._passphrase)
        self.types("init", self.folder / "venue", *words)
        for name, role in (("hub", f"hub:{HUB}"), ("backend", "issuer")):
            token = self.types("token", "new", name, role, "--tokens", self.folder / "tokens")
            write_private(self.folder / f"{name}.token", token.out)

    def _serve(self, stack: ExitStack) -> None:
        words = [
            *("--listen", self.url.removeprefix("http://")),
            *("--database", str(self.folder / "queue.db")),
            *("--tokens", str(self.folder / "tokens")),
            *("--time-key", str(self.folder / "keys" / "clock.pem")),
            *("--repository", str(self.folder / "venue" / "repository")),
        ]
        log = self.folder / "queue.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "edgeagent", "issuer", "serve", *words],
                cwd=ROOT, stdout=file, stderr=file,
            )  # fmt: skip
        stack.enter_context(process)
        stack.callback(process.terminate)
        wait_until(lambda: "listening on" in log.read_text(), "the queue server")

    def _sections(self) -> str:
        root = self.folder / "venue" / "repository" / "metadata" / "1.root.json"
        return (
            f"[broker]\nport = {self.broker.port}\n"
            f'[cloud]\nurl = "{self.url}"\ntoken_file = "{self.folder / "hub.token"}"\n'
            f'[policy]\nsource = "{self.url}/v1/policy"\nroot = "{root}"\nrefresh = "1s"\n'
        )


@pytest.fixture
def business(tmp_path: Path) -> Iterator[Business]:
    """A business whose hub runs and knows its plug."""
    with Business(tmp_path) as running:
        running.agent.start()
        running.admits()
        yield running


@pytest.mark.requirement("P1", "P2", "T2", "V7")
def test_a_hub_follows_its_issuer_from_init_to_a_revoked_key(business: Business) -> None:
    done = business.sends("true")
    [heard] = business.plug.hears()
    business.plug.says("stat/plug-a/POWER", b"ON")
    assert business.watches(done) == Said(0, f"{done} succeeded applied\n", "")
    assert heard.payload == b"ON"

    for what in ("root", "online", "policy"):
        business.changes("keys", "rotate", what)
    business.changes("keys", "revoke", "backend")
    signed = business.types("command", "sign", PLUG, "power", "on=false", *business.signing, *business.login)
    (business.folder / "late.json").write_text(signed.out)
    sent = typed("issuer", "send", str(business.folder / "late.json"), *map(str, business.login))

    assert (sent.status, "bad_signature" in sent.err) == (1, True)
    told = business.types("refusals", *business.login)
    assert "bad_signature" in told.out
    assert "token:backend" in told.out
    wait_until(lambda: '"version": 2' in business.agent.log, "the hub to take the policy of the new keys")
    business.agent.stop()


@pytest.mark.requirement("P2", "R3", "T8")
def test_what_a_lost_database_made_void_is_signed_anew_and_done(business: Business) -> None:
    """It was in the queue when the database was lost."""
    assert business.agent.stop() == 0
    old = business.sends("true")
    shutil.rmtree(business.agent.state_dir)
    business.agent.start()
    business.admits()
    ended = business.watches(old)
    assert (ended.status, ended.out.split()[:3]) == (1, [old, "refused", "wrong_epoch"])

    anew = business.types("command", "resign", old, *business.signing, *business.login)
    [heard] = business.plug.hears()
    business.plug.says("stat/plug-a/POWER", b"ON")

    assert anew.out.startswith(f"{old} signed anew as ")
    assert f"the same operation {old}" in anew.out
    new = anew.out.split()[4].rstrip(",")
    assert business.watches(new) == Said(0, f"{new} succeeded applied\n", "")
    assert heard.payload == b"ON"
    twice = business.types("command", "resign", "--all", "--yes", *business.signing, *business.login)
    again = twice.out.split()[4].rstrip(",")
    assert "operation_done" in business.watches(again).out, "it is one operation, however often it is signed"
    refused = typed("issuer", "command", "resign", new, *map(str, (*business.signing, *business.login)))
    assert (refused.status, "was not refused for its epoch" in refused.err) == (1, True)
    business.agent.stop()
