"""A machine on which all is installed and nothing configured becomes a hub by one line (SPEC H5, W3)."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from edgeagent.issuer.authority import AuthorityFolder
from edgeagent.issuer.keys import PrivateKey, save_key
from edgeagent.issuer.tokens import entry_text, new_token
from tests.issuer.publishing import issuing
from tests.support.containers import Container, booted, debian, needs_container
from tests.support.enrolled import PASSPHRASE
from tests.support.installed import SUITE, checked, install, needs_its_python, program
from tests.support.private import write_private

pytestmark = [pytest.mark.slow, pytest.mark.requirement("H5", "W3"), needs_container, needs_its_python]

QUEUE: Final = "https://192.168.7.1:8443"
CLOUD: Final = "/srv/cloud"
OWNED: Final = {
    "/etc/edgeagent/config.toml": "root:edgeagent 640",
    "/etc/edgeagent/root.json": "root:root 644",
    "/etc/edgeagent/credentials": "root:root 700",
    "/var/lib/edgeagent": "edgeagent:edgeagent 700",
    "/var/lib/edgeagent/identity": "edgeagent:edgeagent 700",
    "/var/lib/edgeagent/identity/current.pem": "edgeagent:edgeagent 777",
    "/var/lib/edgeagent/identity/a.pem": "edgeagent:edgeagent 600",
    "/var/lib/edgeagent/identity/claim": "edgeagent:edgeagent 600",
}


def cloud(folder: Path) -> None:
    """Everything of a queue but its database."""
    issuing(folder)
    authority = AuthorityFolder(folder / "ca")
    authority.found("test", datetime.now(UTC), passphrase=PASSPHRASE)
    authority.certify_server(["192.168.7.1"], datetime.now(UTC), timedelta(days=1))
    save_key(PrivateKey.new(), folder / "time.pem")
    token = new_token()
    (folder / "tokens.toml").write_text(entry_text("desk", "issuer", token))
    write_private(folder / "desk.token", token)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Container]:
    """A blank machine, and a queue in its network."""
    (tmp_path / "cloud").mkdir()
    cloud(tmp_path / "cloud")
    binds = dict(program(tmp_path)) | {tmp_path / "cloud": CLOUD}
    with booted(debian(SUITE), tmp_path / "hub", binds) as machine:
        install(machine, "")
        machine.run("rm", "-r", "/etc/edgeagent")
        machine.run("ip", "address", "add", "192.168.7.1/24", "dev", "lo")
        machine.run(
            *("systemd-run", "--quiet", "--unit=queue", "edgeagent", "issuer", "serve"),
            *("--listen", "192.168.7.1:8443", "--database", "/root/queue.db", "--ca", f"{CLOUD}/ca"),
            *("--tokens", f"{CLOUD}/tokens.toml", "--time-key", f"{CLOUD}/time.pem"),
            *("--repository", f"{CLOUD}/venue/repository"),
        )
        yield machine


def test_one_line_makes_it_a_hub_whose_units_run_as_they_should(hub: Container) -> None:
    hub.eventually("ss", "-ltn", says="192.168.7.1:8443")
    code = hub.run(
        *("edgeagent", "issuer", "claim", "new", "venue-7", "--zone", "Europe/Berlin", "--queue", QUEUE),
        *("--root", f"{CLOUD}/venue/repository/metadata/1.root.json", "--ca-file", f"{CLOUD}/ca/root.pem"),
        *("--token-file", f"{CLOUD}/desk.token"),
    ).stdout
    assert hub.run("edgeagent", "setup", "check", check=False).returncode == 2
    nobody = hub.run("edgeagent", "setup", "--claim", "-", "--yes", user="nobody", given=code, check=False)
    assert "sudo edgeagent setup" in nobody.stderr
    unset = hub.run("edgeagent", "health", check=False)
    assert (unset.returncode, "next: sudo edgeagent setup" in unset.stdout) == (2, True)
    # What stands in the way of a broker of its own costs no code, and leaves no half of a set-up
    theirs = hub.inside("/etc/mosquitto/conf.d/theirs.conf")
    theirs.write_text("allow_anonymous true\n")
    managed = ("edgeagent", "setup", "--claim", "-", "--broker", "managed", "--yes")
    in_vain = hub.run(*managed, given=code, check=False)
    assert (in_vain.returncode, "theirs.conf:1" in in_vain.stderr) == (1, True)
    assert hub.run("find", "/etc/edgeagent", "/var/lib/edgeagent", "-type", "f", check=False).stdout == ""
    theirs.unlink()

    said = hub.run("edgeagent", "setup", "--claim", "-", "--yes", given=code)

    assert [line.split()[:2] for line in said.stdout.splitlines()] == [
        *(["done", f"{step}:"] for step in ("folders", "identity", "root", "configuration")),
        ["kept", "broker:"],
        ["done", "services:"],
    ]
    owners = hub.run("stat", "-c", "%n %U:%G %a", *OWNED).stdout.splitlines()
    assert dict(line.split(" ", 1) for line in owners) == OWNED
    assert hub.run("find", "/var/lib/edgeagent", "!", "-user", "edgeagent").stdout == ""

    # The agent, the worker and the fetcher work with what was written.
    hub.eventually("edgeagent", "policy", "show", says="version")
    status = json.loads(hub.eventually("edgeagent", "--json", "status", says='"last_success"'))
    assert (status["hub"], status["zone"]) == ("venue-7", "Europe/Berlin")
    checked(hub, "identity", "cloud", "policy", "fetcher", "worker")
    assert hub.run("edgeagent", "setup", "check").returncode == 0

    # Who may not read the configuration is told that, and what to type.
    for words, status in ((("setup", "check"), 3), (("broker", "check"), 78)):
        said = hub.run("edgeagent", *words, user="nobody", check=False)
        assert (said.returncode, "sudo" in said.stdout + said.stderr) == (status, True), said
        assert "Traceback" not in said.stderr

    # The same words again change nothing, and nothing begins anew.
    began = hub.run("systemctl", "show", "--property=MainPID", "edgeagent").stdout
    again = hub.run("edgeagent", "setup", "--claim", "-", "--yes", given=code)
    assert {line.split()[0] for line in again.stdout.splitlines()} == {"kept"}
    assert hub.run("systemctl", "show", "--property=MainPID", "edgeagent").stdout == began
