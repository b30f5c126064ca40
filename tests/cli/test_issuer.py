"""``edgeagent issuer``: from a new key to a receipt, with the words that an operator of hubs types."""

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from edgeagent.contracts.command import COMMAND_TYPE, Command
from edgeagent.contracts.door import decode
from edgeagent.contracts.policy import Policy
from edgeagent.core.envelope import unproven_payload, verify
from edgeagent.issuer.keys import load_public_key
from tests.cli.building import Said, typed
from tests.support.agents import ROOT, AgentProcess
from tests.support.brokers import HOST, Mosquitto, free_port, wait_until
from tests.support.device import Device
from tests.support.private import write_private

HUB = "venue-7"
PLUG = "AABBCCDDEEFF"
EPOCH = "0123456789abcdef0123"
POLICY = """
version = 1
hubs = ["venue-7"]
valid_for = "30d"

[keys]
desk = "desk.pem.pub"
clock = "clock.pem.pub"

[roles.operators]
kind = "command"
keys = ["desk"]
actions = "*"
devices = "*"

[roles.clocks]
kind = "time"
keys = ["clock"]

[actions.power]
tier = "low"
"""


def keys(folder: Path, *names: str) -> dict[str, str]:
    """Make keys; the public half of each in hexadecimal."""
    made = {}
    for name in names:
        said = typed("issuer", "keys", "new", str(folder / f"{name}.pem"))
        assert said.status == 0, said.err
        found = re.search(r"^public  ([0-9a-f]{64})$", said.out, re.MULTILINE)
        assert found is not None
        made[name] = found[1]
    return made


def signs(folder: Path, *words: str) -> Said:
    """Sign a command for the plug with the desk's key, knowing the epoch."""
    known = ("--key", str(folder / "desk.pem"), "--hub", HUB, "--epoch", EPOCH)
    return typed("issuer", "command", "sign", PLUG, *words, *known)


# From a key to a receipt.


@contextmanager
def queue(folder: Path) -> Iterator[str]:
    """The reference queue server, started by its own words; its address."""
    address = f"{HOST}:{free_port()}"
    words = ["--listen", address, "--database", str(folder / "queue.db"), "--tokens", str(folder / "tokens")]
    further = ["--time-key", str(folder / "clock.pem"), "--policy", str(folder / "policy.json")]
    with (folder / "queue.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "edgeagent", "issuer", "serve", *words, *further],
            cwd=ROOT,
            stdout=log,
            stderr=log,
        )
    try:
        wait_until(lambda: "listening on" in (folder / "queue.log").read_text(), "the queue server")
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.slow
@pytest.mark.requirement("P1", "Q3", "T1", "T2", "T3", "T5", "V7", "M2")
def test_from_new_keys_to_a_receipt(tmp_path: Path) -> None:
    """Keys > policy > queue > agent > command > send > watch, each with the word for it."""
    made = keys(tmp_path, "venue", "desk", "clock")
    (tmp_path / "policy.toml").write_text(POLICY)
    for name, role, file in ((HUB, f"hub:{HUB}", "hub.token"), ("desk", "issuer", "desk.token")):
        token = typed("issuer", "token", "new", name, role, "--tokens", str(tmp_path / "tokens"))
        write_private(tmp_path / file, token.out)
    signed = typed(
        "issuer", "policy", "sign", str(tmp_path / "policy.toml"),
        "--key", str(tmp_path / "venue.pem"), "--out", str(tmp_path / "policy.json"),
    )  # fmt: skip
    assert (signed.status, signed.err) == (0, "")

    with (
        queue(tmp_path) as url,
        Mosquitto(tmp_path / "broker") as broker,
        Device(broker.port, client_id="plug-a") as plug,
        closing(
            AgentProcess(tmp_path / "hub", _sections(tmp_path, broker.port, url, made["venue"]))
        ) as agent,
    ):
        login = ("--queue", url, "--token-file", str(tmp_path / "desk.token"))
        agent.start()
        agent.wait_for_broker()
        admitted = agent.run("devices", "admit", PLUG, "--profile", "tasmota", "--set", "topic=plug-a")
        assert admitted.returncode == 0, admitted.stderr
        plug.listens("cmnd/plug-a/POWER1")
        plug.says("tele/plug-a/LWT", b"Online", retain=True)
        plug.says("stat/plug-a/POWER", b"OFF")
        wait_until(lambda: agent.status().clock.source == "statement", "the time to be proven")

        command = typed(
            "issuer", "command", "sign", PLUG, "power", "on=true",
            "--key", str(tmp_path / "desk.pem"), "--hub", HUB, *login,
        )  # fmt: skip
        (tmp_path / "command.json").write_text(command.out)
        sent = typed("issuer", "send", str(tmp_path / "command.json"), *login)
        assert (sent.status, sent.err) == (0, ""), sent
        [heard] = plug.hears()
        plug.says("stat/plug-a/POWER", b"ON")
        id_ = sent.out.split()[0]
        watched = typed("issuer", "watch", HUB, id_, "--within", "60s", *login)
        again = typed("issuer", "send", str(tmp_path / "command.json"), *login)
        after = agent.run("commands", "show", id_)
        refused = _sent(tmp_path, "nobody", login)
        is_refused = typed("issuer", "watch", HUB, refused, "--within", "60s", *login)
        stale = _sent(tmp_path, PLUG, login, "--if-version", "999")
        is_stale = typed("issuer", "watch", HUB, stale, "--within", "60s", *login)
        listed = _sent(tmp_path, f"nobody,{PLUG},other", login)
        look = ("issuer", "watch", HUB, listed, "--within", "0s", *login)
        wait_until(lambda: typed(*look).out.count("refused") == 2, "what is refused of the list")
        of_list = typed(*look)
        agent.stop()
        is_open = typed("issuer", "watch", HUB, _sent(tmp_path, PLUG, login), "--within", "0s", *login)

    assert heard.payload == b"ON"
    assert watched == Said(0, f"{id_} succeeded applied\n", "")
    assert again.status == 0
    assert after.returncode == 0
    assert "succeeded (applied)" in after.stdout
    now = r"the device is at version (\d+), not 999 \(the device is now at version \1\)"
    version = re.fullmatch(rf"{stale} refused stale {now}\n", is_stale.out)
    assert (is_stale.status, version is not None) == (1, True), is_stale
    assert is_refused == Said(1, f"{refused} refused device_unknown\n", "")
    assert (of_list.status, of_list.out.splitlines()) == (
        4,
        [
            f"{listed} nobody refused device_unknown",
            f"{listed} {PLUG} taken",
            f"{listed} other refused device_unknown",
        ],
    )
    assert is_open.status == 4


def _sent(folder: Path, device: str, login: tuple[str, ...], *terms: str) -> str:
    """Sign a command for a device and put it into the queue; its id."""
    key = ("--key", str(folder / "desk.pem"), "--hub", HUB)
    signed = typed("issuer", "command", "sign", device, "power", "on=false", *key, *login, *terms)
    (folder / "command.json").write_text(signed.out)
    return typed("issuer", "send", str(folder / "command.json"), *login).out.split()[0]


def _sections(folder: Path, broker: int, url: str, signer: str) -> str:
    """The agent's configuration."""
    return (
        f"[broker]\nport = {broker}\n"
        f'[cloud]\nurl = "{url}"\ntoken_file = "{folder / "hub.token"}"\n'
        f'[policy]\nfile = "{folder / "policy.json"}"\nsigner = "{signer}"\n'
    )


# Word by word.


@pytest.mark.requirement("P1", "W3")
def test_a_new_key_is_its_owners_alone_and_never_takes_anothers_place(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        [public] = keys(tmp_path, "desk").values()
    finally:
        os.umask(before)
    held = (tmp_path / "desk.pem").read_bytes()

    again = typed("issuer", "keys", "new", str(tmp_path / "desk.pem"))

    assert (again.status, again.out) == (78, "")
    assert "exists" in again.err
    assert (tmp_path / "desk.pem").read_bytes() == held
    assert stat.S_IMODE((tmp_path / "desk.pem").stat().st_mode) == 0o600
    assert load_public_key(tmp_path / "desk.pem.pub").hex() == public


@pytest.mark.requirement("P1", "T1", "T3")
def test_a_signed_command_is_an_envelope_that_verifies(tmp_path: Path) -> None:
    [public] = keys(tmp_path, "desk").values()

    said = signs(tmp_path, "power", "on=true", "--valid-for", "2m", "--operation", "ticket:7")

    envelope = said.out.strip().encode()
    [key_id] = [each["keyid"] for each in json.loads(envelope)["signatures"]]
    verified = verify(envelope, {key_id: bytes.fromhex(public)}, COMMAND_TYPE, limit=8192)
    command = decode(Command, verified.payload, limit=8192)
    assert (said.status, said.err) == (0, "")
    assert (command.hub, command.epoch, command.devices, command.operation) == (
        HUB,
        EPOCH,
        [PLUG],
        "ticket:7",
    )
    assert (command.expires_at - command.issued_at).total_seconds() == 120
    assert command.arguments == {"on": True}


@pytest.mark.requirement("P1", "T7")
def test_a_command_may_be_signed_by_several(tmp_path: Path) -> None:
    keys(tmp_path, "desk", "night")

    said = signs(tmp_path, "power", "on=true", "--key", str(tmp_path / "night.pem"))

    assert len(json.loads(said.out)["signatures"]) == 2


@pytest.mark.requirement("P1", "T2")
def test_a_signed_policy_is_what_was_written(tmp_path: Path) -> None:
    keys(tmp_path, "venue", "desk", "clock")
    (tmp_path / "policy.toml").write_text(POLICY)
    out = tmp_path / "policy.json"

    said = typed(
        "issuer", "policy", "sign", str(tmp_path / "policy.toml"),
        "--key", str(tmp_path / "venue.pem"), "--out", str(out),
    )  # fmt: skip

    policy = decode(Policy, unproven_payload(out.read_bytes()), limit=100_000)
    assert said.status == 0
    assert (policy.version, set(policy.keys)) == (1, {"desk", "clock"})
    assert (policy.expires_at - policy.issued_at).days == 30


@pytest.mark.requirement("P1", "V1")
@pytest.mark.parametrize(
    ("words", "status", "complaint"),
    [
        pytest.param(("explode",), 1, "there is no action 'explode'", id="action"),
        pytest.param(("power", "on=perhaps"), 1, "on is on, yes, true", id="argument"),
        pytest.param(("power",), 1, "the argument 'on' is missing", id="missing argument"),
        pytest.param(("volume", "level=200"), 1, "'level' is integer from 0 to 100 %", id="range"),
        pytest.param(("power", "on=true", "--if-version", "-1"), 1, "version", id="version"),
        pytest.param(("power", "on=true", "--valid-for", "soon"), 2, "usage", id="validity"),
        pytest.param(
            ("power", "on=true", "--valid-for", "0s"), 1, "expires before it is issued", id="no time"
        ),
        pytest.param(("power", "on=true", "--key", "none.pem"), 78, "none.pem", id="no key"),
    ],
)
def test_what_cannot_be_signed_is_told(
    tmp_path: Path, words: tuple[str, ...], status: int, complaint: str
) -> None:
    keys(tmp_path, "desk")

    said = signs(tmp_path, *words)

    assert (said.status, said.out) == (status, "")
    assert complaint in said.err
    assert "Traceback" not in said.err


@pytest.mark.requirement("P1")
def test_without_an_epoch_somebody_has_to_be_asked(tmp_path: Path) -> None:
    keys(tmp_path, "desk")

    said = typed(
        "issuer",
        "command",
        "sign",
        PLUG,
        "power",
        "on=true",
        "--key",
        str(tmp_path / "desk.pem"),
        "--hub",
        HUB,
    )

    assert (said.status, said.out) == (1, "")
    assert "--epoch" in said.err


@pytest.mark.requirement("P1", "Q3")
@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param(None, "cannot read", id="no file"),
        pytest.param(b"", "not JSON", id="empty"),
        pytest.param(b"x" * 40_000, "bytes", id="too large"),
        pytest.param(b'{"payload":"e30=","payloadType":"x","signatures":[]}', "signatures", id="no envelope"),
    ],
)
def test_what_is_no_command_is_not_sent(tmp_path: Path, content: bytes | None, complaint: str) -> None:
    file = tmp_path / "command.json"
    if content is not None:
        file.write_bytes(content)
    write_private(tmp_path / "token", "x")

    said = typed(
        "issuer", "send", str(file), "--queue", f"http://{HOST}:1", "--token-file", str(tmp_path / "token")
    )

    assert (said.status, said.out) == (1, "")
    assert complaint in said.err
    assert "Traceback" not in said.err


@pytest.mark.requirement("P1", "H4")
@pytest.mark.requirement("A2", "W3")
def test_a_token_that_others_may_read_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    token = tmp_path / "token"
    write_private(token, "a-token-of-a-desk")
    token.chmod(0o644)

    said = typed("issuer", "watch", HUB, "c-1", "--queue", f"http://{HOST}:1", "--token-file", str(token))

    assert (said.status, said.out) == (78, "")
    assert "chmod" in said.err
    assert "a-token-of-a-desk" not in said.err


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("token", "new", "desk", "issuer", "--tokens", "none/tokens"), id="token"),
        pytest.param(
            ("policy", "sign", "none.toml", "--key", "desk.pem", "--out", "policy.json"), id="policy to read"
        ),
        pytest.param(
            ("policy", "sign", "policy.toml", "--key", "desk.pem", "--out", "none/policy.json"),
            id="policy to write",
        ),
        pytest.param(("keys", "new", "none/desk.pem"), id="key"),
        pytest.param(
            ("watch", HUB, "c-1", "--queue", f"http://{HOST}:1", "--token-file", "none.token"), id="login"
        ),
    ],
)
def test_a_file_that_is_not_there_is_the_operators_to_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    keys(tmp_path, "venue", "desk", "clock")
    (tmp_path / "policy.toml").write_text(POLICY)
    monkeypatch.chdir(tmp_path)

    said = typed("issuer", *words)

    assert (said.status, said.out) == (78, "")
    assert "next: ls -l " in said.err  # a hub's configuration has nothing to do with it
    assert "none" in said.err
    assert "Traceback" not in said.err


@pytest.mark.requirement("P1")
@pytest.mark.parametrize("role", ["operator", "hub:", "hub:a/b"])
def test_a_role_that_is_none_gets_no_token(tmp_path: Path, role: str) -> None:
    said = typed("issuer", "token", "new", "desk", role, "--tokens", str(tmp_path / "tokens"))

    assert (said.status, said.out) == (1, "")
    assert not (tmp_path / "tokens").exists()
