"""The packaged mosquitto on a machine that boots, as the hub's own; guests: tests/packaging."""

import json
import re
from collections.abc import Iterator
from typing import Final

import pytest

from tests.support.containers import Container, booted, debian, needs_container
from tests.support.installed import ROOT, SUITE, configure, install, needs_its_python, program

pytestmark = [
    needs_container,
    needs_its_python,
    pytest.mark.slow,
    pytest.mark.requirement("H5", "M4", "W2"),
]

THEIRS: Final = "/etc/mosquitto/conf.d/home.conf"
MANAGED: Final = """
[broker]
port = 1884
username = "edgeagent"
password_file = "broker-password"

[broker.managed]
listen = "0.0.0.0:1883"
"""
PLUG: Final = "0232ED7C6760"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """A machine whose mosquitto somebody has configured."""
    folder = tmp_path_factory.mktemp("broker")
    with booted(debian(SUITE), folder / "hub", program(folder)) as machine:
        machine.inside(THEIRS).write_text("listener 1883\nallow_anonymous true\n")
        machine.run("systemctl", "restart", "mosquitto")
        yield machine


def sums(hub: Container) -> str:
    """The digests of all that lies in mosquitto's folder, with owners and rights."""
    every = "find /etc/mosquitto -type f -exec sha256sum {} + | sort"
    look = f"{every}; find /etc/mosquitto -printf '%p %m %u %g\n' | sort"
    return hub.run("sh", "-c", look).stdout


def checks(hub: Container) -> dict[str, dict[str, str]]:
    """What health says, by check."""
    said = json.loads(hub.run("edgeagent", "health", "--json", check=False).stdout)
    return {check["name"]: check for check in said["checks"]}


def log(hub: Container) -> str:
    """What mosquitto has logged."""
    return hub.run("cat", "/var/log/mosquitto/mosquitto.log").stdout


def test_managed_it_is_configured_tried_and_serves_the_agent_and_a_device(hub: Container) -> None:
    install(hub, MANAGED)
    before = sums(hub)
    refused = hub.run("edgeagent", "broker", "apply", "--restart", check=False)
    assert refused.returncode == 1
    assert f"{THEIRS}:2 says who may come in (allow_anonymous)" in refused.stderr
    assert sums(hub) == before
    hub.run("rm", THEIRS)

    plan = hub.run("edgeagent", "broker", "plan").stdout
    assert "+listener 1883 0.0.0.0" in plan
    assert hub.run("edgeagent", "broker", "apply", check=False).returncode == 1
    hub.run("edgeagent", "broker", "apply", "--restart")
    mine = sums(hub)
    assert "/etc/mosquitto/edgeagent/passwd 600 mosquitto mosquitto" in mine
    assert "nothing has changed" in hub.run("edgeagent", "broker", "apply", "--restart").stdout
    assert sums(hub) == mine

    hub.run("systemctl", "start", "edgeagent")
    hub.eventually("edgeagent", "status", says="control: connected")
    login = json.loads(
        hub.run(
            *("edgeagent", "broker", "logins", "add", PLUG, "--profile", "tasmota"),
            *("--set", "topic=bar_plug", "--json"),
        ).stdout
    )
    announced = json.dumps(
        {
            "ver": 1,
            "mac": PLUG,
            "dn": "Bar",
            "ft": "%prefix%/%topic%/",
            "t": "bar_plug",
            "tp": ["cmnd", "stat", "tele"],
        }
        | {
            "hn": "bar",
            "md": "Plug",
            "sw": "14.2.0",
            "rl": [1],
            "lt_st": 0,
            "so": {"4": 0},
            "state": ["OFF", "ON"],
        }
        | {"onln": "Online", "ofln": "Offline"}
    )
    as_plug = ("mosquitto_pub", "-h", "127.0.0.1", "-V", "5", "-q", "1", "-u", PLUG, "-P", login["password"])
    hub.run(*as_plug, "-t", f"tasmota/discovery/{PLUG}/config", "-m", announced, "-r")
    hub.eventually("edgeagent", "devices", "list", says=PLUG)
    hub.run("edgeagent", "devices", "admit", PLUG)
    assert checks(hub)["broker-access"]["summary"] == f"its rules are not those of: {PLUG}"
    assert "reloaded" in hub.run("edgeagent", "broker", "apply").stdout
    assert checks(hub)["broker-access"]["level"] == "ok"
    hub.run(*as_plug, "-t", "stat/bar_plug/STATUS2", "-m", '{"StatusFWR":{"Version":"14.2.0"}}')
    hub.eventually("edgeagent", "devices", "show", PLUG, says="14.2.0")
    hub.run(
        "mosquitto_pub", "-h", "127.0.0.1", "-q", "1", "-t", "stat/bar_plug/STATUS2", "-m", "1", check=False
    )
    assert "not authorised" in log(hub)
    forged = hub.run(*as_plug, "-d", "-t", "stat/other/STATUS2", "-m", "1")
    assert "RC:135" in forged.stdout

    hub.run("edgeagent", "devices", "forget", PLUG)
    stale = checks(hub)["broker-access"]
    assert (stale["level"], f"may still come in: {PLUG}" in stale["summary"]) == ("warning", True)
    hub.run("edgeagent", "broker", "apply")
    assert checks(hub)["broker-access"]["level"] == "ok"
    assert hub.run(*as_plug, "-t", "stat/bar_plug/STATUS2", "-m", "1", check=False).returncode != 0
    hub.run("systemctl", "is-active", "edgeagent", "mosquitto")


def test_the_lines_of_the_page_about_connecting_are_good_as_they_stand(hub: Container) -> None:
    page = (ROOT / "docs" / "connecting.md").read_text("utf-8")
    lines = [line for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) for line in block.splitlines()]

    assert len(lines) > 8
    for line in lines:
        # Whoever looks at a broker is told by the status how it stands.
        fine = {0, 1, 2, 3} if " check" in line else {0}
        assert hub.run("sh", "-c", line, check=False).returncode in fine, line
    listed = json.loads(hub.run("edgeagent", "broker", "logins", "list", "--json").stdout)["logins"]
    names = [login["login"] for login in listed]
    assert names == ["screen-1", "shellyplugsg3-3030f9ec8a10", "zigbee2mqtt"]


def test_when_it_does_not_come_up_all_is_as_it_was(hub: Container) -> None:
    """Somebody else listens on the port that it is given: nobody can see that in a configuration."""
    before = sums(hub)
    hub.run("systemd-run", "--unit=squatter", "python3", "-m", "http.server", "1999", "--bind", "127.0.0.1")
    hub.eventually("ss", "-ltn", says=":1999")
    configure(hub, MANAGED.replace("1883", "1999"))

    failed = hub.run("edgeagent", "broker", "apply", "--restart", check=False)

    assert failed.returncode == 1
    assert "the earlier files are back, and in force" in failed.stderr
    assert sums(hub) == before
    hub.run("systemctl", "is-active", "mosquitto")
