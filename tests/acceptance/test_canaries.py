"""Secrets stay where they are, however things go wrong.

They are not in the log, the record, the database, an export, a bundle, a metric, a complaint, the words or
the environment of a process, and no memory with them is written to a disk.

Each secret is a canary of its own. Everything that the hub has said or written is read through for them, in
every spelling that a bundle would look for.
"""

import secrets
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from edgeagent.core.redacting import spellings
from edgeagent.issuer.tokens import new_token
from tests.cli.building import Said, typed
from tests.support.agents import AgentProcess
from tests.support.brokers import HOST, Mosquitto, free_port, wait_until
from tests.support.certificates import Authority
from tests.support.private import write_private
from tests.support.queue_server import QueueServer

WORDS: Final = (
    ("health",),
    ("--json", "health"),
    ("status",),
    ("--json", "status"),
    ("devices", "list"),
    ("send", "tv-1", "power", "on=true"),
    ("commands", "list"),
    ("outbox", "stats"),
    ("dead-letters", "list"),
    ("policy", "show"),
    ("audit", "list"),
    ("audit", "verify"),
    ("config", "check"),
    ("config", "show", "--origin"),
)


def locked(folder: Path, password: str) -> Mosquitto:
    """A broker that lets nobody in but ``hub``, with a password."""
    folder.mkdir()
    names = folder / "passwords"
    subprocess.run(["mosquitto_passwd", "-b", "-c", str(names), "hub", password], check=True)
    names.chmod(0o600)
    options = [f"password_file {names}"]
    return Mosquitto(folder, options=options, anonymous=False)


def put(folder: Path, name: str, secret: str) -> None:
    """A secret in its file."""
    write_private(folder / name, secret)


def of_process(pid: int) -> Iterator[tuple[str, bytes]]:
    """What anybody on the machine may see of a process and its children."""
    tree = [pid, *(int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    for each in tree:
        for name in ("cmdline", "environ", "limits"):
            yield f"{name} of {each}", Path(f"/proc/{each}/{name}").read_bytes()


def unpacked(bundle: Path) -> Iterator[tuple[str, bytes]]:
    """The files of a support bundle."""
    with tarfile.open(bundle) as tar:
        for member in tar:
            opened = tar.extractfile(member)
            assert opened is not None
            yield f"{bundle.name}: {member.name}", opened.read()


def found(kept: Mapping[str, bytes], seen: Mapping[str, bytes]) -> list[tuple[str, str]]:
    """Where a secret was seen, and which."""
    return [
        (where, name)
        for name, secret in kept.items()
        for spelling in spellings(secret)
        for where, what in seen.items()
        if spelling.encode() in what
    ]


def said_to(agent: AgentProcess, *words: str, config: Path | None = None) -> Said:
    """What the command line comes to at this hub, typed in this process: it starts faster."""
    return typed("--config", str(config or agent.config), *words)


@pytest.mark.slow
@pytest.mark.requirement("A2")
@pytest.mark.threat("T46")
def test_no_secret_leaves_its_file_however_things_go_wrong(tmp_path: Path) -> None:
    folder = tmp_path / "hub"
    folder.mkdir()
    kept = {"queue.token": new_token(), "broker.password": f"canary-{secrets.token_hex(16)}"}
    for name, secret in kept.items():
        put(folder, name, secret)
    broker = locked(tmp_path / "broker", kept["broker.password"])
    bundles = [folder / "up.tar.gz", folder / "down.tar.gz"]
    with QueueServer(tmp_path / "queue") as server, broker:
        agent = AgentProcess(
            folder,
            f'[broker]\nhost = "{HOST}"\nport = {broker.port}\nusername = "hub"\n'
            'password_file = "broker.password"\n'
            f'[cloud]\nurl = "http://127.0.0.1:{server.port}"\ntoken_file = "queue.token"\n',
        )
        try:
            # The queue knows no such token; the broker lets us in, goes away, and then forgets our password.
            agent.start(from_nothing=True)
            wait_until(lambda: "uplink fails" in agent.log, "the queue's refusal")
            wait_until(lambda: all(link.connected for link in agent.status().broker.values()), "the broker")
            seen = dict(of_process(agent.pid))
            broker.stop()
            (broker.folder / "passwords").write_text("", "utf-8")
            broker.start()
            wait_until(lambda: "not authorised" in broker.log, "the broker's refusal")
            said = [said_to(agent, *words) for words in WORDS]
            said.append(said_to(agent, "support-bundle", "--yes", "--with-labels", "--out", str(bundles[0])))
            # A secret in the configuration's place, by a slip.
            said += [said_to(agent, "config", "check", config=folder / name) for name in kept]
            said.append(said_to(agent, "audit", "export", str(folder / "trail.jsonl")))
            assert agent.stop() == 0
            said += [said_to(agent, "audit", "verify"), said_to(agent, "health")]
            said.append(said_to(agent, "support-bundle", "--yes", "--out", str(bundles[1])))
        finally:
            agent.close()
        queue_log = server.log

    limits = next(what for where, what in seen.items() if where.startswith("limits"))
    seed = (folder / "state" / "hub.key").read_bytes()
    seen |= {f"answer {number}": (each.out + each.err).encode() for number, each in enumerate(said)}
    seen |= {"the log": agent.log.encode(), "the queue's log": queue_log.encode()}
    holders = {folder / name for name in kept} | {folder / "state" / "hub.key"}
    files = [path for path in folder.rglob("*") if path.is_file() and path not in holders]
    seen |= {str(path): path.read_bytes() for path in files}
    for bundle in bundles:
        seen |= dict(unpacked(bundle))

    assert (folder / "trail.jsonl") in files
    assert found({name: secret.encode() for name, secret in kept.items()} | {"hub.key": seed}, seen) == []
    assert any(line.split()[:5] == [b"Max", b"core", b"file", b"size", b"0"] for line in limits.splitlines())


@pytest.mark.slow
@pytest.mark.requirement("A2")
@pytest.mark.threat("T46")
def test_a_key_of_tls_and_what_is_in_no_order_are_told_by_their_file_alone(tmp_path: Path) -> None:
    """A key that does not belong to its certificate, a token with a line too much, a proxy with a login."""
    folder, authority = tmp_path / "hub", Authority(tmp_path / "authority")
    certificate, _ = authority.issues("hub", "venue-7")
    _, key = authority.issues("other", "other")
    folder.mkdir()
    token, login = f"{secrets.token_hex(12)}\n{secrets.token_hex(12)}", secrets.token_hex(12)
    put(folder, "queue.token", token)
    agent = AgentProcess(
        folder,
        f'[broker]\nport = {free_port()}\n[broker.tls]\ncert_file = "{certificate}"\nkey_file = "{key}"\n'
        f'[cloud]\nurl = "http://127.0.0.1:9"\ntoken_file = "queue.token"\nproxy = "http://anna:{login}@[::1]:9"\n',
    )
    try:
        started = [agent.run("run")]
        said = [said_to(agent, "config", "check"), said_to(agent, "health"), said_to(agent, "status")]
        said += [said_to(agent, "support-bundle", "--yes", "--out", str(tmp_path / "b.tar.gz"))]
        text = agent.config.read_text("utf-8")
        agent.config.write_text(text.replace(f'proxy = "http://anna:{login}@[::1]:9"\n', ""), "utf-8")
        started.append(agent.run("run"))
        said += [said_to(agent, "config", "check"), said_to(agent, "--json", "health")]
        put(folder, "queue.token", new_token())
        key.chmod(0o600)
        agent.start()
        wait_until(lambda: all(link.why for link in agent.status().broker.values()), "a complaint")
        said += [
            said_to(agent, "health"),
            said_to(agent, "support-bundle", "--yes", "--out", str(tmp_path / "c.tar.gz")),
        ]
    finally:
        agent.close()
    seen = {f"answer {number}": (each.out + each.err).encode() for number, each in enumerate(said)}
    seen |= {"the log": agent.log.encode(), **dict(unpacked(tmp_path / "b.tar.gz"))}
    seen |= dict(unpacked(tmp_path / "c.tar.gz"))
    seen |= {f"start {number}": (each.stdout + each.stderr).encode() for number, each in enumerate(started)}
    first, second = token.split("\n")

    assert [each.returncode for each in started] == [78, 78]
    assert [each.status for each in said[:3]] == [78, 2, 78]
    assert found({"1": first.encode(), "2": second.encode(), "login": login.encode()}, seen) == []
    assert found({"key": key.read_bytes()}, seen) == []
    assert all(each.out or each.err for each in said)


@pytest.mark.slow
@pytest.mark.requirement("A2")
@pytest.mark.threat("T46")
def test_the_passphrase_of_the_offline_keys_is_in_nothing_that_an_issuer_makes_or_complains_of(
    tmp_path: Path,
) -> None:
    venue, policy = tmp_path / "venue", tmp_path / "policy.toml"
    right, wrong = (f"canary {secrets.token_hex(12)}" for _ in range(2))
    put(tmp_path, "right", right)
    put(tmp_path, "wrong", wrong)
    policy.write_text(typed("issuer", "policy", "sample").out, "utf-8")

    def types(*words: str, kept: str = "right") -> Said:
        return typed("issuer", *words, "--passphrase-file", str(tmp_path / kept))

    said = [
        types("init", str(venue), "--policy", str(policy)),
        types("keys", "rotate", "root", "--folder", str(venue), kept="wrong"),
        types("keys", "rotate", "root", "--folder", str(venue)),
        typed("issuer", "keys", "show", str(tmp_path / "right")),
        typed("--config", str(tmp_path / "right"), "config", "check"),
        typed("--json", "issuer", "init", str(venue), "--policy", str(tmp_path / "right")),
    ]
    seen = {f"answer {number}": (each.out + each.err).encode() for number, each in enumerate(said)}
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name not in {"right", "wrong"}]
    seen |= {str(path): path.read_bytes() for path in files}

    assert (said[0].status, said[2].status) == (0, 0)
    assert all(each.status != 0 for each in (said[1], *said[3:]))
    assert found({"right": right.encode(), "wrong": wrong.encode()}, seen) == []
