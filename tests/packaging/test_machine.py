"""A machine that the package is installed on, upgraded, refused to go back, removed and purged."""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.support.containers import Container, booted, debian, needs_container
from tests.support.packages import ROOT, VERSION, package

LATER: Final = "97.0.0"
CONFIG: Final = """
[hub]
id = "hub-1"
view_group = "edgeagent-view"
operate_group = "edgeagent-operate"
"""
OURS: Final = "# Written by edgeagent broker apply, each time anew: what is changed here is lost.\n"

BROKERS_LOG: Final = "/var/log/mosquitto/mosquitto.log"
_ALIVE: Final = (
    r"/(proc|sys|dev|run|tmp|mnt|media|var/(backups|log|cache|tmp)|var/lib/(apt|dpkg|systemd))(/.*)?"
)
LISTED: Final = (
    f"find / -xdev -regextype posix-extended -regex '{_ALIVE}' -prune -o -printf '%p %y %m %U %G\\n' | sort"
)
"""Everything that lies on the disk, with kind, mode and owners, but for what any machine writes by itself."""
_USERS: Final = ("passwd", "group", "shadow", "gshadow", "subuid", "subgid")
REWRITTEN: Final = frozenset(f"/etc/{name}-" for name in _USERS)
"""Debian's own copies from before the last change of users."""


PAGE: Final = (ROOT / "docs" / "installing.md").read_text("utf-8")
INSTALLING, PEOPLE, REMOVING = (
    [re.sub(r"^sudo |\s*#.*", "", line).replace("arm64", "amd64") for line in block.splitlines()]
    for block in re.findall(r"test_machine.py runs these lines -->\n```sh\n(.+?)```", PAGE, re.DOTALL)
)
"""What the page has people type, in its chapters, on a machine like this one."""

RIVAL: Final = """
mkdir -p /run/rival/DEBIAN && cd /run/rival/DEBIAN
printf '%s\\n' 'Package: rival' 'Version: 1' 'Architecture: all' 'Maintainer: them' > control
printf '%s\\n' 'Conflicts: edgeagent' 'Replaces: edgeagent' 'Description: of others' >> control
printf '%s\\n' '#!/bin/sh' 'exit 1' > preinst && chmod 755 preinst
dpkg-deb --build /run/rival /run/rival.deb
"""
"""Makes a package that would take the agent's place, and fails before it does."""


def typed(hub: Container, line: str) -> str:
    """What comes of a line of the page, where somebody says yes whenever apt asks."""
    return hub.run("sh", "-c", f"cd /media/own && APT_CONFIG=/run/apt.conf {line}").stdout


def pid(hub: Container, unit: str) -> str:
    """The main process of a unit; 0 for none."""
    return hub.run("systemctl", "show", "--property", "MainPID", "--value", unit).stdout.strip()


def listed(hub: Container) -> set[str]:
    """What lies on its disk; of the configuration, whatever it is of, also what stands in it."""
    sums = "find /etc -type f -exec sha256sum {} + | awk '{ print $2, $1 }'"
    lines = hub.run("sh", "-c", f"{LISTED}; {sums}").stdout.splitlines()
    return {line for line in lines if line.split()[0] not in REWRITTEN}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Container]:
    """A machine of Debian's with a broker, and two packages."""
    binds = {package().parent: "/media/own", package(version=LATER).parent: "/media/later"}
    with booted(debian(), tmp_path / "hub", binds=binds) as machine:
        yield machine


@pytest.mark.slow
@pytest.mark.timeout(900)
@needs_container
@pytest.mark.requirement("H1", "W3")
def test_from_the_first_installation_to_the_purge(hub: Container) -> None:
    """One machine and all that dpkg does to it, since each of its steps takes seconds."""
    # Given a broker with a client of other software, which nobody asks for a name
    hub.run("systemd-run", "--unit=theirs", *("mosquitto_sub", "-i", "theirs", "-t", "#"))
    hub.eventually("cat", BROKERS_LOG, says="as theirs")
    before, broker = listed(hub), pid(hub, "mosquitto")

    _installed_and_not_configured(hub)
    epoch = _configured(hub)
    _people_let_in(hub)
    _upgraded(hub, epoch)
    _refused_to_go_back(hub, epoch)
    _removed(hub)
    _installed_again(hub, epoch)
    _purged(hub)

    # Then nobody was cut off, though an agent came as a guest and went
    assert "as edgeagent-" in hub.run("cat", BROKERS_LOG).stdout
    assert "Client theirs" not in hub.run("cat", BROKERS_LOG).stdout
    assert pid(hub, "mosquitto") == broker

    # In the end everything lies as it did before, but for a file that somebody else has put beside ours
    assert {line.split()[0] for line in listed(hub) - before} == {"/etc/mosquitto/conf.d/theirs.conf"}
    assert before - listed(hub) == set()


@pytest.mark.slow
@pytest.mark.timeout(900)
@needs_container
@pytest.mark.requirement("H1", "W3")
def test_what_went_wrong_half_way_is_mended_by_the_next_package(hub: Container) -> None:
    """One machine again: the agent runs, and what waits for errands of its own does not."""
    hub.run("sh", "-c", "dpkg -i /media/own/*.deb")
    _configured(hub)

    _upgraded_when_an_upgrade_has_failed(hub)
    _kept_when_another_fails_to_take_its_place(hub)
    _upgraded_when_unpacking_was_cut_short(hub)
    _put_back_and_purged_when_its_files_are_gone(hub)


def _installed_and_not_configured(hub: Container) -> None:
    hub.run("tee", "/run/apt.conf", given='APT::Get::Assume-Yes "true";')

    installed, version, verified = (typed(hub, line) for line in INSTALLING)

    assert "next: sudo edgeagent setup" in installed
    assert version == f"edgeagent {VERSION}\n"
    assert verified == ""
    assert hub.run(
        "stat", "-c", "%A %U %G", "/etc/edgeagent", "/etc/edgeagent/credentials", "/var/lib/edgeagent"
    ).stdout == ("drwxr-x--- root edgeagent\ndrwx------ root root\ndrwx------ edgeagent edgeagent\n")
    assert (
        hub.run("getent", "group", "edgeagent-view", "edgeagent-operate", "edgeagent-fetch").stdout.count(
            "\n"
        )
        == 3
    )
    for unit in ("edgeagent.service", "edgeagent-worker.service", "edgeagent-fetch.socket"):
        assert hub.run("systemctl", "is-enabled", unit).stdout.strip() == "enabled"
        assert hub.run("systemctl", "is-active", unit, check=False).stdout.strip() == "inactive"
    # What is imported at each start is compiled
    assert hub.run(
        "find",
        "/opt/edgeagent/lib/edgeagent",
        "-name",
        "agent.cpython-311.pyc",
        "-o",
        "-name",
        "main.cpython-311.pyc",
    ).stdout


def _configured(hub: Container) -> str:
    """The epoch of its database."""
    hub.run("sh", "-c", "cat > /etc/edgeagent/config.toml", given=CONFIG)
    hub.run(
        "sh", "-c", "chown root:edgeagent /etc/edgeagent/config.toml; chmod 640 /etc/edgeagent/config.toml"
    )
    # The worker is not wanted here, and somebody has changed the services' environment
    hub.run("systemctl", "disable", "edgeagent-worker")
    hub.run("sh", "-c", "echo VENUE=bar >> /etc/default/edgeagent")

    hub.run("systemctl", "start", "edgeagent")

    assert hub.run("ps", "-o", "user=", "-p", pid(hub, "edgeagent")).stdout.strip() == "edgeagent"
    return _epoch(hub)


def _people_let_in(hub: Container) -> None:
    for name, line in zip(("anna", "bert"), PEOPLE, strict=True):
        hub.run("useradd", name)
        typed(hub, line)
    hub.run("useradd", "mallory")

    assert hub.run("edgeagent", "devices", "list", user="anna").returncode == 0
    assert hub.run("edgeagent", "hub", "stop", "action:power", user="anna", check=False).returncode == 1
    assert hub.run("edgeagent", "hub", "stop", "action:power", user="bert").returncode == 0
    assert hub.run("edgeagent", "devices", "list", user="mallory", check=False).returncode == 1
    # Nor do they need to read the configuration for what the agent does
    assert "whole" in hub.run("edgeagent", "backup", "create", user="bert").stdout
    assert "whole" in hub.run("edgeagent", "backup", "list", user="anna").stdout
    assert hub.run("edgeagent", "backup", "create", user="anna", check=False).returncode == 1
    assert hub.run("edgeagent", "backup", "list", user="mallory", check=False).returncode == 1

    for name in ("anna", "bert", "mallory"):
        hub.run("userdel", name)


def _epoch(hub: Container) -> str:
    return str(json.loads(hub.run("edgeagent", "status", "--json").stdout)["epoch"])


def _upgraded(hub: Container, epoch: str) -> None:
    was = pid(hub, "edgeagent")

    hub.run("sh", "-c", "dpkg -i /media/later/*.deb")

    # What ran runs anew, on the same database; what did not run does not
    assert pid(hub, "edgeagent") not in {"0", was}
    assert _epoch(hub) == epoch
    assert hub.run("edgeagent", "--version").stdout == f"edgeagent {LATER}\n"
    assert pid(hub, "edgeagent-worker") == "0"
    assert hub.run("systemctl", "is-enabled", "edgeagent-worker", check=False).stdout == "disabled\n"
    assert "VENUE=bar" in hub.run("cat", "/etc/default/edgeagent").stdout


def _refused_to_go_back(hub: Container, epoch: str) -> None:
    was = pid(hub, "edgeagent")

    refused = hub.run("sh", "-c", "dpkg -i /media/own/*.deb", check=False)

    assert refused.returncode != 0
    assert f"{LATER} is here, and {VERSION} is earlier" in refused.stderr
    assert "edgeagent backup restore" in refused.stderr
    # And nothing has changed: not even the process
    assert pid(hub, "edgeagent") == was
    assert _epoch(hub) == epoch
    assert (
        hub.run("dpkg-query", "-f", "${Status} ${Version}", "-W", "edgeagent").stdout
        == f"install ok installed {LATER}"
    )


def _removed(hub: Container) -> None:
    typed(hub, REMOVING[0])

    assert hub.run("sh", "-c", "ls -d /opt/* /usr/bin/edgeagent /run/edgeagent", check=False).stdout == ""
    assert hub.run("pgrep", "-f", "/opt/edgeagent", check=False).stdout == ""
    for kept in ("/etc/edgeagent/config.toml", "/etc/default/edgeagent", "/var/lib/edgeagent/hub.db"):
        hub.run("test", "-f", kept)


def _installed_again(hub: Container, epoch: str) -> None:
    # An earlier one is refused also now: its data are there
    assert hub.run("sh", "-c", "dpkg -i /media/own/*.deb", check=False).returncode != 0

    hub.run("sh", "-c", "dpkg -i /media/later/*.deb")

    assert _epoch(hub) == epoch


def _purged(hub: Container) -> None:
    put = partial(hub.run, "tee")
    hub.run("mkdir", "-p", "/etc/mosquitto/edgeagent", "/etc/systemd/system/edgeagent.service.d")
    for path in ("conf.d/edgeagent.conf", "edgeagent/acl"):
        put(f"/etc/mosquitto/{path}", given=OURS)
    # What a power cut has left half written
    for path in ("conf.d/.edgeagent.conf.new", "edgeagent/.logins.new"):
        put(f"/etc/mosquitto/{path}", given="half")
    put("/etc/mosquitto/conf.d/theirs.conf", given="# of another software\n")
    put("/etc/systemd/system/edgeagent.service.d/venue.conf", given="[Service]\nMemoryMax=128M\n")

    # A state that is a disk of its own, which nobody can remove from under itself
    hub.run("mount", "--bind", "/var/lib/edgeagent", "/var/lib/edgeagent")

    typed(hub, REMOVING[1])

    assert hub.run("test", "-e", "/run/edgeagent", check=False).returncode == 1
    assert hub.run("find", "/var/lib/edgeagent", "-printf", "%u %y %p").stdout == "root d /var/lib/edgeagent"
    hub.run("sh", "-c", "umount /var/lib/edgeagent && rmdir /var/lib/edgeagent")
    assert hub.run("getent", "passwd").stdout.count("edgeagent") == 0
    assert hub.run("getent", "group").stdout.count("edgeagent") == 0


def _upgraded_when_an_upgrade_has_failed(hub: Container) -> None:
    hub.run("chmod", "a-x", "/usr/bin/systemd-sysusers")
    failed = hub.run("sh", "-c", "dpkg -i /media/later/*.deb", check=False)
    assert failed.returncode != 0
    assert pid(hub, "edgeagent") == "0"
    hub.run("chmod", "a+x", "/usr/bin/systemd-sysusers")

    hub.run("sh", "-c", "dpkg -i /media/later/*.deb")

    _runs_as_before(hub)


def _kept_when_another_fails_to_take_its_place(hub: Container) -> None:
    was = pid(hub, "edgeagent")
    hub.run("sh", "-c", RIVAL)

    assert hub.run("dpkg", "-i", "/run/rival.deb", check=False).returncode != 0

    assert pid(hub, "edgeagent") != was
    _runs_as_before(hub)


def _upgraded_when_unpacking_was_cut_short(hub: Container) -> None:
    """The power went in the middle of it; the machine has come up, and so has the agent that was there."""
    was = pid(hub, "edgeagent")
    ours = "/^Package: edgeagent$/,/^$/"
    half = f"{ours} s/^Status: .*/Status: install reinstreq half-installed/"
    hub.run("sed", "-i", half, "/var/lib/dpkg/status")

    hub.run("sh", "-c", "dpkg -i /media/later/*.deb")

    # It does not go on with the files of before
    _runs(hub)
    assert pid(hub, "edgeagent") != was


def _put_back_and_purged_when_its_files_are_gone(hub: Container) -> None:
    hub.run("rm", "-rf", "/opt/edgeagent")
    hub.run("sh", "-c", "dpkg -i /media/later/*.deb")
    _runs(hub)
    assert hub.run("edgeagent", "--version").stdout == f"edgeagent {LATER}\n"

    hub.run("rm", "-rf", "/opt/edgeagent")
    hub.run("/usr/share/python3/runtime.d/edgeagent.rtupdate", "rtupdate", "python3.11", "python3.13")
    hub.run("dpkg", "--purge", "edgeagent")
    assert hub.run("dpkg-query", "-W", "edgeagent", check=False).stdout == ""


def _runs(hub: Container) -> None:
    """A start that a busy machine has broken is begun anew by systemd."""
    hub.eventually("systemctl", "is-active", "edgeagent")


def _runs_as_before(hub: Container) -> None:
    _runs(hub)
    assert hub.run("systemctl", "is-active", "edgeagent-fetch.socket", check=False).stdout == "inactive\n"
