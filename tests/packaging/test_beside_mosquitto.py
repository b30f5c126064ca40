"""The package beside a mosquitto that was there before: installed, set up, purged (SPEC N1, H5)."""

import shutil
from collections.abc import Iterator
from typing import Final

import pytest

from tests.support.containers import Container, booted, debian, needs_container
from tests.support.packages import package

pytestmark = [needs_container, pytest.mark.slow, pytest.mark.requirement("N1", "H5")]

THEIRS: Final = "/etc/mosquitto/conf.d/home.conf"
CLIENTS: Final = ("lights", "heating")
MANAGED: Final = """
[broker]
port = 1884
username = "edgeagent"
password_file = "broker-password"

[broker.managed]
listen = "0.0.0.0:1883"
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """A machine whose mosquitto serves other software, which comes without a name and stays connected."""
    with booted(debian(), tmp_path_factory.mktemp("beside") / "hub") as machine:
        shutil.copy(package(), machine.inside("/root/edgeagent.deb"))
        machine.inside(THEIRS).write_text("listener 1883\nallow_anonymous true\n")
        machine.run("systemctl", "restart", "mosquitto")
        for name in CLIENTS:
            listen = f"exec mosquitto_sub -h 127.0.0.1 -i {name} -t {name}/# -v > /run/{name}.txt"
            machine.run("systemd-run", f"--unit={name}", "sh", "-c", listen)
            machine.eventually("grep", f"as {name} ", "/var/log/mosquitto/mosquitto.log")
        yield machine


def sums(hub: Container) -> str:
    """All that lies in mosquitto's folder: digests, owners, rights."""
    every = "find /etc/mosquitto -type f -exec sha256sum {} + | sort"
    return hub.run("sh", "-c", f"{every}; find /etc/mosquitto -printf '%p %m %u %g\\n' | sort").stdout


def install(hub: Container, sections: str) -> None:
    """Install the package, and start the agent with this configuration."""
    hub.run("dpkg", "-i", "/root/edgeagent.deb")
    hub.run("install", "-d", "-m", "750", "-o", "root", "-g", "edgeagent", "/etc/edgeagent")
    hub.run("install", "-d", "-m", "700", "/etc/edgeagent/credentials")
    hub.run(
        *(
            "install",
            "-m",
            "640",
            "-o",
            "root",
            "-g",
            "edgeagent",
            "/dev/stdin",
            "/etc/edgeagent/config.toml",
        ),
        given=f'[hub]\nid = "venue-7"\n{sections}',
    )


def test_a_guest_comes_and_goes_and_nobody_notices(hub: Container) -> None:
    before = sums(hub)

    install(hub, "")
    checked = hub.run("edgeagent", "broker", "check", check=False).stdout
    applied = hub.run("edgeagent", "broker", "apply", "--restart").stdout
    hub.run("systemctl", "start", "edgeagent")
    hub.eventually("edgeagent", "status", says="control: connected")
    hub.eventually("sh", "-c", "edgeagent health || true", says="a guest, and the broker lets in anybody")
    assert sums(hub) == before
    hub.run("dpkg", "--purge", "edgeagent")

    assert "Whoever can connect can speak for any device" in checked
    assert "there is nothing of ours" in applied
    assert sums(hub) == before
    log = hub.run("cat", "/var/log/mosquitto/mosquitto.log").stdout
    for name in CLIENTS:
        hub.run("mosquitto_pub", "-h", "127.0.0.1", "-t", f"{name}/1", "-m", "still here")
        hub.eventually("cat", f"/run/{name}.txt", says="still here")
        assert log.count(f" as {name} ") == 1
        assert f"Client {name} " not in log


def test_a_purge_takes_away_what_was_ours_and_no_more(hub: Container) -> None:
    for name in CLIENTS:
        hub.run("systemctl", "stop", name)
    hub.run("rm", THEIRS)
    hub.inside("/etc/mosquitto/conf.d/limits.conf").write_text("set_tcp_nodelay true\n")
    before = sums(hub)

    install(hub, MANAGED)
    hub.run("edgeagent", "broker", "apply", "--restart")
    assert "/etc/mosquitto/conf.d/edgeagent.conf" in sums(hub)
    hub.run("systemctl", "start", "edgeagent")
    hub.eventually("edgeagent", "status", says="control: connected")
    hub.run("dpkg", "--purge", "edgeagent")

    assert sums(hub) == before
    hub.run("systemctl", "restart", "mosquitto")
    hub.run("mosquitto_pub", "-h", "127.0.0.1", "-t", "a", "-m", "as it was")
