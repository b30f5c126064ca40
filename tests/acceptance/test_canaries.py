"""Secrets stay where they are: not in the log, the record, the database, an export, health or a complaint."""

import secrets
from base64 import b64encode
from pathlib import Path
from typing import Final

import pytest

from edgeagent.issuer.tokens import new_token
from tests.support.agents import AgentProcess
from tests.support.brokers import free_port, wait_until
from tests.support.queue_server import QueueServer

WORDS: Final = (
    ("health",),
    ("status",),
    ("--json", "status"),
    ("devices", "list"),
    ("send", "tv-1", "power", "on=true"),
    ("commands", "list"),
    ("outbox", "stats"),
    ("policy", "show"),
    ("audit", "list"),
    ("audit", "verify"),
    ("config", "check"),
)


@pytest.mark.slow
@pytest.mark.requirement("A2")
def test_no_secret_leaves_its_file_however_things_go_wrong(tmp_path: Path) -> None:
    folder = tmp_path / "hub"
    folder.mkdir()
    kept = {"queue.token": new_token(), "broker.password": f"canary-{secrets.token_hex(16)}"}
    for name, secret in kept.items():
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(secret, "utf-8")
    with QueueServer(tmp_path / "queue") as server:
        agent = AgentProcess(
            folder,
            f'[broker]\nport = {free_port()}\nusername = "hub"\npassword_file = "broker.password"\n'
            f'[cloud]\nurl = "http://127.0.0.1:{server.port}"\ntoken_file = "queue.token"\n',
        )
        try:
            # The broker is not there, and the queue knows no such token.
            agent.start()
            wait_until(lambda: "uplink fails" in agent.log, "the queue's refusal")
            said = [agent.run(*words) for words in WORDS]
            # A secret in the configuration's place, by a slip.
            said += [agent.run("--config", str(folder / name), "config", "check") for name in kept]
            said.append(agent.run("audit", "export", str(folder / "trail.jsonl")))
            assert agent.stop() == 0
            said.append(agent.run("audit", "verify"))
        finally:
            agent.close()
        queue_log = server.log

    seed = (folder / "state" / "hub.key").read_bytes()
    canaries = [secret.encode() for secret in kept.values()]
    canaries += [seed, seed.hex().encode(), b64encode(seed).rstrip(b"=")]
    seen = {f"{each.args}": (each.stdout + each.stderr).encode() for each in said}
    seen |= {"the log": agent.log.encode(), "the queue's log": queue_log.encode()}
    holders = {folder / name for name in kept} | {folder / "state" / "hub.key"}
    files = [path for path in folder.rglob("*") if path.is_file() and path not in holders]
    seen |= {str(path): path.read_bytes() for path in files}

    assert (folder / "trail.jsonl") in files
    assert [where for where, what in seen.items() for canary in canaries if canary in what] == []
