"""The fetcher as a unit: one for each errand, as a user that the agent is a stranger to (SPEC W1, W2)."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from edgeagent.ids import artifact_id, hub_id
from tests.support.agents_keys import Keys
from tests.support.certificates import Authority
from tests.support.containers import Container, booted, debian, needs_container
from tests.support.fetching import lays_out, signed_file, some_bytes
from tests.support.installed import SUITE, install, needs_its_python, program, shown
from tests.support.tuf_repository import Repository

pytestmark = [
    needs_container,
    needs_its_python,
    pytest.mark.slow,
    pytest.mark.requirement("W1", "W2"),
    pytest.mark.threat("T55"),
]

PLACE: Final = "192.168.7.1"
SERVER: Final = f"""
import http.server, ssl
handler = lambda *words: http.server.SimpleHTTPRequestHandler(*words, directory="/srv/policy")
server = http.server.ThreadingHTTPServer(("{PLACE}", 443), handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/srv/tls/server.pem", "/srv/tls/server.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""
SECTIONS: Final = f"""
[policy]
source = "https://{PLACE}"
root = "root.json"
ca_file = "ca.pem"
refresh = "1s"

[fetch]
by = "outside"
"""
CONTENT: Final = some_bytes(300_000)
FILE: Final = signed_file(CONTENT, artifact=artifact_id("plug-1"), group="plugs")
CONNECT: Final = "import socket; socket.socket(socket.AF_UNIX).connect('/run/edgeagent-fetch.sock')"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Where the venue's policy is published."""
    made = Repository(tmp_path / "repository", now=datetime.now(UTC))
    made.publishes(Keys().rules(hub_id("venue-7")))
    made.delegates("plugs")
    made.contents["plug-1"] = CONTENT
    made.lists("plugs", plug_1={"family": "tasmota", "models": ["PM-1"], "version": "14.1.0"})
    lays_out(made.folder, FILE, CONTENT)
    return made


@pytest.fixture
def hub(tmp_path: Path, repository: Repository) -> Iterator[Container]:
    """A machine beside a web server of the venue's network; what is installed has not begun."""
    authority = Authority(tmp_path / "tls")
    certificate, key = authority.issues("server", PLACE)
    assert (certificate.name, key.name) == ("server.pem", "server.key")
    binds = dict(program(tmp_path)) | {repository.folder: "/srv/policy", tmp_path / "tls": "/srv/tls"}
    with booted(debian(SUITE), tmp_path / "hub", binds) as machine:
        install(machine, SECTIONS)
        for name, content in (
            ("root.json", repository.first_root),
            ("ca.pem", authority.certificate.read_bytes()),
        ):
            words = ("-m", "644", "/dev/stdin", f"/etc/edgeagent/{name}")
            machine.run("install", *words, given=content.decode())
        machine.run("ip", "address", "add", f"{PLACE}/24", "dev", "lo")
        machine.inside("/usr/local/server.py").write_text(SERVER)
        machine.run("systemd-run", "--quiet", "--unit=policy", "python3", "/usr/local/server.py")
        yield machine


def test_a_policy_and_a_file_come_through_processes_that_see_nothing_of_the_agent(hub: Container) -> None:
    # Given an agent that finds no fetcher: it goes on, and says what to start
    hub.run("systemctl", "start", "edgeagent")
    hub.eventually("sh", "-c", "edgeagent health || true", says="systemctl start edgeagent-fetch.socket")

    # When there is one
    hub.run("systemctl", "start", "edgeagent-fetch.socket")

    # Then the policy comes, by a process of another user that has ended since
    hub.eventually("edgeagent", "policy", "show", says="version")
    look = ("journalctl", "-o", "json", "--output-fields=_UID,MESSAGE,UNIT", "-u", "edgeagent-fetch@*")
    assert "Failed" not in hub.eventually(*look, says="Deactivated successfully")
    assert shown(hub, "edgeagent.service", "NRestarts")["NRestarts"] == "0"

    # So does a file for devices, which the process could never have opened
    hub.eventually("edgeagent", "artifacts", "list", says=FILE.artifact)
    fetched = hub.run("edgeagent", "artifacts", "fetch", FILE.artifact)
    assert f"is here, whole: {len(CONTENT)} bytes, sha256 {FILE.sha256}" in fetched.stdout
    place = f"/var/lib/edgeagent/artifacts/{FILE.sha256}"
    assert hub.run("stat", "-c", "%U %a", place).stdout.split()[0] == "edgeagent"
    assert hub.run("cat", place, user="edgeagent-fetch", check=False).returncode != 0

    # And nobody else of the machine can send one
    assert (
        hub.run("stat", "-c", "%U:%G %a", "/run/edgeagent-fetch.sock").stdout == "edgeagent:edgeagent 600\n"
    )
    for user in ("nobody", "mosquitto", "edgeagent-fetch", "edgeagent-worker"):
        refused = hub.run("python3", "-c", CONNECT, user=user, check=False)
        assert "PermissionError" in refused.stderr, user
    assert hub.run("python3", "-c", CONNECT, user="edgeagent", check=False).returncode == 0
