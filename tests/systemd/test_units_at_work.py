"""The units at work, on a machine that boots: they start with nothing there, and come back.

What they keep from whoever takes a process over is tried in ``test_unit_doors.py``.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.containers import Container, booted, debian, needs_container
from tests.support.installed import (
    SUITE,
    configure,
    drop_in,
    install,
    journal,
    needs_its_python,
    program,
    shown,
)

pytestmark = [needs_container, needs_its_python, pytest.mark.slow]

AGENT: Final = "edgeagent.service"
WORKER: Final = "edgeagent-worker.service"
FETCHER: Final = "edgeagent-fetch.socket"
SECTIONS: Final = """
[worker]
high = "outside"
user = "edgeagent-worker"
"""
CLOUD: Final = '[cloud]\nurl = "https://queue.example"\ntoken_file = "hub.token"\n'
EPOCH: Final = "SELECT max(number), subject FROM audit WHERE kind = 'epoch_begun'"
DEVICES: Final = "SELECT count(*) FROM devices"
DEVICE: Final = "0232ED7C6760"
QUICK_WATCHDOG: Final = "[Service]\nWatchdogSec=4\nTimeoutAbortSec=30\nRestartSec=100ms\n"
RESIDENT: Final = 62 * 1024 * 1024
BLOCKING: Final = '''#!/usr/bin/python3 -I
"""The agent, whose loop stands still once a device says something after a file was laid there."""
import asyncio, faulthandler, sys, time
from pathlib import Path
sys.path[:0] = ["/opt/edgeagent/lib/app", "/opt/edgeagent/lib/site"]
from edgeagent import config, logs
from edgeagent.agent.daemon import run_agent

class Blocking:
    def reached(self, point):
        wish = Path("/run/edgeagent/stand-still")
        if wish.exists():
            wish.unlink()
            time.sleep(600)

faulthandler.enable(file=2)
path = Path("/etc/edgeagent/config.toml")
logs.set_up("info")
asyncio.run(run_agent(config.load(path), path, crash=Blocking()))
'''


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """A machine without network, with the units installed; its state lies on a small disk of its own."""
    folder = tmp_path_factory.mktemp("units")
    with booted(debian(SUITE), folder / "hub", program(folder), {"/var/lib/edgeagent": 96}) as machine:
        install(machine, SECTIONS + CLOUD, {"hub.token": "a-secret-of-this-hub"})
        yield machine


@pytest.fixture(autouse=True)
def as_shipped(hub: Container) -> Iterator[None]:
    """Each story begins with the units and the configuration as they are shipped, nothing running."""
    yield
    hub.run("systemctl", "stop", AGENT, WORKER, check=False)
    hub.run("rm", "-rf", f"/etc/systemd/system/{AGENT}.d", f"/etc/systemd/system/{WORKER}.d")
    configure(hub, SECTIONS + CLOUD)
    hub.run("systemctl", "daemon-reload")
    hub.run("systemctl", "reset-failed", AGENT, WORKER, check=False)


def asked(hub: Container, *words: str) -> dict[str, object]:
    """What the agent answers to somebody at the hub."""
    answer: dict[str, object] = json.loads(hub.run("edgeagent", *words, "--json").stdout)
    return answer


def rows(hub: Container, sql: str) -> str:
    """Ask the agent's database beside it."""
    look = "import sqlite3; d = sqlite3.connect('file:/var/lib/edgeagent/hub.db?mode=ro', uri=True)"
    return hub.run("python3", "-c", f"{look}; print(d.execute({sql!r}).fetchall())").stdout.strip()


def settled(hub: Container, unit: str, **wanted: str) -> dict[str, str]:
    """Wait until systemd says so of a unit; return what it says."""
    words = [word for name in wanted for word in ("-p", name)]
    for name, value in wanted.items():
        hub.eventually("systemctl", "show", unit, *words, says=f"{name}={value}\n")
    return shown(hub, unit, *wanted, "NRestarts", "MainPID", "StatusText", "ExecMainStatus", "Result")


def owner_and_mode(hub: Container, *paths: str) -> list[str]:
    return hub.run("stat", "-c", "%U:%G %a", *paths).stdout.split("\n")[:-1]


@pytest.mark.requirement("H2", "W3", "R5", "H7")
def test_it_starts_with_no_network_no_broker_and_no_cloud_and_says_so(hub: Container) -> None:
    hub.run("systemctl", "stop", "mosquitto")

    # When both are started, each is ready at once
    hub.run("systemctl", "start", AGENT, WORKER)
    told = shown(hub, AGENT, "ActiveState", "StatusText", "NRestarts", "Type")

    assert (told["ActiveState"], told["NRestarts"]) == ("active", "0")
    assert shown(hub, WORKER, "ActiveState")["ActiveState"] == "active"
    hub.eventually("systemctl", "status", WORKER, says='Status: "waits for commands, or works them"')
    # And the line for people says what is missing
    hub.eventually("systemctl", "status", AGENT, says='Status: "0 devices; ')
    hub.eventually("systemctl", "status", AGENT, says="cloud fails")
    hub.eventually("systemctl", "status", AGENT, says="edgeagent health)")

    # And its folders are its own, its secret nobody's, its sockets of whom they are for
    assert owner_and_mode(hub, "/var/lib/edgeagent", "/var/lib/edgeagent/hub.db", "/run/edgeagent") == [
        "edgeagent:edgeagent 700",
        "edgeagent:edgeagent 600",
        "edgeagent:edgeagent 755",
    ]
    assert owner_and_mode(hub, "/run/edgeagent/admin.sock", "/run/edgeagent/work.sock") == [
        "edgeagent:edgeagent 660",
        "edgeagent:edgeagent 660",
    ]
    pids = {unit: shown(hub, unit, "MainPID")["MainPID"] for unit in (AGENT, WORKER)}
    users = [hub.run("stat", "-c", "%U", f"/proc/{pid}").stdout.strip() for pid in pids.values()]
    assert users == ["edgeagent", "edgeagent-worker"]
    everything = "".join(path.read_text(errors="replace") for path in _told_of(hub, pids[AGENT]))
    assert "a-secret-of-this-hub" not in everything + journal(hub, AGENT)

    # And when the broker comes, it goes on by itself
    hub.run("systemctl", "start", "mosquitto")
    health = "edgeagent health --json | tr -d ' \n' || true"
    hub.eventually("sh", "-c", health, says='"broker-control","level":"ok","summary":"connected"')
    assert shown(hub, AGENT, "NRestarts")["NRestarts"] == "0"

    # And what its start alone needed leaves its memory
    resident = f"/^VmRSS:/ && $2 <= {RESIDENT // 1024} {{ found = 1 }} END {{ exit !found }}"
    hub.eventually("awk", resident, f"/proc/{pids[AGENT]}/status")

    # And it reads its configuration again, or says why not and stays as it was
    configure(hub, SECTIONS + CLOUD + '[log]\nlevel = "debug"\n')
    hub.run("systemctl", "reload", AGENT)
    hub.eventually("journalctl", "-u", AGENT, "-o", "cat", says='"taken": ["log.level"]')
    configure(hub, SECTIONS + CLOUD + "[colour]\n")
    assert hub.run("systemctl", "reload", AGENT, check=False).returncode != 0
    assert "colour: there is no such key" in journal(hub, AGENT)
    assert shown(hub, AGENT, "ActiveState", "MainPID") == {"ActiveState": "active", "MainPID": pids[AGENT]}

    # And it ends in order within its time
    hub.run("systemctl", "stop", AGENT)
    ended = shown(hub, AGENT, "ActiveState", "Result", "ExecMainStatus")
    assert ended == {"ActiveState": "inactive", "Result": "success", "ExecMainStatus": "0"}
    assert '"event": "stopped"' in journal(hub, AGENT)


@pytest.mark.requirement("H1", "T8")
def test_a_backup_is_made_in_the_sandbox_and_put_back_by_root(hub: Container) -> None:
    hub.run("systemctl", "start", AGENT)
    epoch = asked(hub, "status")["epoch"]
    made = asked(hub, "backup", "create", "--to", "/root")
    assert str(made["path"]).startswith("/root/")
    assert hub.run("edgeagent", "backup", "restore", str(made["path"]), "--yes", check=False).returncode == 1

    hub.run("systemctl", "stop", AGENT)
    hub.run("edgeagent", "backup", "restore", str(made["path"]), "--yes")
    hub.run("systemctl", "start", AGENT)

    assert asked(hub, "status")["epoch"] != epoch
    assert (
        hub.run("find", "/var/lib/edgeagent", "!", "-user", "edgeagent", "!", "-name", "lost+found").stdout
        == ""
    )
    kept = hub.run("sh", "-c", "ls -d /var/lib/edgeagent/replaced-*").stdout.split()
    assert owner_and_mode(hub, *kept) == ["edgeagent:edgeagent 700"]


def _told_of(hub: Container, pid: str) -> list[Path]:
    """Where a process shows what it was started with."""
    return [hub.inside(f"/proc/{pid}/{name}") for name in ("cmdline", "environ")]


@pytest.mark.requirement("R6", "H2")
@pytest.mark.threat("T56")
def test_who_stands_still_is_ended_by_the_watchdog_and_comes_back_with_everything(hub: Container) -> None:
    hub.run("systemctl", "start", "mosquitto")
    hub.inside("/usr/local/blocking").write_text(BLOCKING)
    hub.run("chmod", "755", "/usr/local/blocking")
    paths = "ExecPaths=/usr/local\nExecStart=\nExecStart=/usr/local/blocking\n"
    drop_in(hub, AGENT, f"{QUICK_WATCHDOG}{paths}")
    drop_in(hub, WORKER, QUICK_WATCHDOG)
    hub.run("systemctl", "start", AGENT, WORKER)
    hub.run("edgeagent", "devices", "admit", DEVICE, "--profile", "tasmota", "--set", "topic=plug")
    before = rows(hub, DEVICES)
    epoch = rows(hub, EPOCH)

    # When it is stopped in the middle of whatever it does
    hub.run("systemctl", "kill", "--kill-whom=main", "--signal=STOP", AGENT)
    back = settled(hub, AGENT, NRestarts="1", ActiveState="active", SubState="running")
    assert "Watchdog timeout" in journal(hub, AGENT)

    # And when its loop stands still, while its process and its threads live
    hub.run("touch", "/run/edgeagent/stand-still")
    says = "mosquitto_pub -h 127.0.0.1 -q 1 -t tele/plug/LWT -m Online"
    hub.eventually("sh", "-c", f"{says}; [ ! -e /run/edgeagent/stand-still ]")
    again = settled(hub, AGENT, NRestarts="2", ActiveState="active", SubState="running")

    # Then it says where it stood, and has what it had
    said = journal(hub, AGENT)
    assert said.count("Watchdog timeout") == 2
    assert "Fatal Python error: Aborted" in said
    assert "in reached" in said
    assert back["MainPID"] != again["MainPID"]
    assert (rows(hub, DEVICES), rows(hub, EPOCH)) == (before, epoch)

    # And so does the worker
    hub.run("systemctl", "kill", "--kill-whom=main", "--signal=STOP", WORKER)
    settled(hub, WORKER, NRestarts="1", ActiveState="active", SubState="running")
    assert "Watchdog timeout" in journal(hub, WORKER)


@pytest.mark.requirement("H2", "H4", "W3")
@pytest.mark.threat("T54")
@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        pytest.param("[hub\n", "/etc/edgeagent/config.toml:", id="no TOML"),
        pytest.param(
            '[cloud]\nurl = "https://queue.example"\ntoken_file = "absent"\n', "absent", id="no secret"
        ),
        pytest.param(
            '[cloud]\nurl = "https://queue.example"\ntoken_file = "/etc/edgeagent/open.token"\n',
            "others may use the secret /etc/edgeagent/open.token: chmod 600",
            id="a secret that others may read",
        ),
        pytest.param(
            '[cloud]\nurl = "https://queue.example"\ntoken_file = "/etc/edgeagent/foreign.token"\n',
            "the secret /etc/edgeagent/foreign.token belongs to another user",
            id="a secret of another user",
        ),
    ],
)
def test_what_a_person_has_to_put_right_is_said_once_and_not_tried_again(
    hub: Container, wrong: str, why: str
) -> None:
    for name, mode, user in (("open", "644", "root"), ("foreign", "640", "daemon")):
        words = ("-m", mode, "-o", user, "-g", "edgeagent", "/dev/stdin", f"/etc/edgeagent/{name}.token")
        hub.run("install", *words, given="a-secret-of-this-hub")
    configure(hub, wrong)

    started = hub.run("systemctl", "start", AGENT, check=False)

    assert started.returncode != 0
    ended = settled(hub, AGENT, ActiveState="failed", SubState="failed")
    assert (ended["ExecMainStatus"], ended["NRestarts"]) == ("78", "0")
    assert why in journal(hub, AGENT).replace("\\n", "\n")
    assert "a-secret-of-this-hub" not in journal(hub, AGENT)


@pytest.mark.requirement("W3")
def test_a_unit_that_names_root_is_refused(hub: Container) -> None:
    for unit in (AGENT, WORKER):
        drop_in(hub, unit, "[Service]\nUser=root\n")

        assert hub.run("systemctl", "start", unit, check=False).returncode != 0
        ended = settled(hub, unit, ActiveState="failed", SubState="failed")

        assert (ended["ExecMainStatus"], ended["NRestarts"]) == ("78", "0")
        assert "this does not run as root" in journal(hub, unit)


@pytest.mark.requirement("H2", "R6")
@pytest.mark.threat("T22")
def test_a_start_on_a_read_only_disk_waits_as_long_as_it_takes(hub: Container) -> None:
    """And asks systemd for the time, which here gives a start eight seconds."""
    hub.run("systemctl", "start", AGENT)
    hub.run("systemctl", "stop", AGENT)
    drop_in(hub, AGENT, "[Service]\nTimeoutStartSec=8\n")
    # As the kernel does it after an error: the file system, and not the place where it is mounted.
    hub.run("mount", "-o", "remount,ro", "/var/lib/edgeagent")
    hub.run("mount", "-o", "remount,bind,rw", "/var/lib/edgeagent")
    before = hub.run("sh", "-c", "sha256sum /var/lib/edgeagent/hub*").stdout

    # When it is started there
    hub.run("systemctl", "start", "--no-block", AGENT)
    status = ("systemctl", "show", "-p", "StatusText", AGENT)
    hub.eventually(*status, says="waiting: the disk does not let us start")
    pid = shown(hub, AGENT, "MainPID")["MainPID"]
    hub.eventually("sh", "-c", f"[ $(ps -o etimes= -p {pid}) -ge 10 ]")

    # Then it still waits, as the same process, and has changed nothing
    waiting = shown(hub, AGENT, "ActiveState", "NRestarts", "MainPID")
    assert (waiting["ActiveState"], waiting["NRestarts"]) == ("activating", "0")
    assert hub.run("sh", "-c", "sha256sum /var/lib/edgeagent/hub*").stdout == before

    # And goes on when the disk takes writes
    hub.run("mount", "-o", "remount,rw", "/var/lib/edgeagent")
    ready = settled(hub, AGENT, ActiveState="active", SubState="running")
    assert (ready["MainPID"], ready["NRestarts"]) == (waiting["MainPID"], "0")


@pytest.mark.requirement("H6")
@pytest.mark.threat("T49")
def test_its_page_is_shown_to_root_and_the_groups_and_to_nobody_else(hub: Container) -> None:
    asks = r"printf 'GET /api/status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n' >&3; read -r line <&3; echo $line"
    users = {"guest": "users", "viewer": "edgeagent-view", "owner": "edgeagent-operate"}
    for name, groups in users.items():
        hub.run("useradd", "--no-create-home", "--groups", groups, name)
    hub.run("systemctl", "start", AGENT)

    said = {
        name: hub.run("bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/9464; {asks}", user=name).stdout
        for name in (*users, "root")
    }

    status = {name: line.split()[1] for name, line in said.items()}
    assert status == {"guest": "403", "viewer": "200", "owner": "200", "root": "200"}


@pytest.mark.requirement("R2", "R6", "Q1")
@pytest.mark.threat("T22")
def test_a_card_that_dies_under_the_agent_is_told_and_no_reason_to_be_restarted(hub: Container) -> None:
    """The file system sets itself read-only, as ext4 does after an error of its disk."""
    hub.run("systemctl", "start", "mosquitto")
    drop_in(hub, AGENT, QUICK_WATCHDOG)
    hub.run("systemctl", "start", AGENT)
    had = rows(hub, DEVICES), rows(hub, EPOCH)
    pid = shown(hub, AGENT, "MainPID")["MainPID"]

    # When it does
    hub.run("mount", "-o", "remount,abort", "/var/lib/edgeagent")
    admit = hub.run(
        "edgeagent", "devices", "admit", "LAMP", "--profile", "tasmota", "--set", "topic=lamp", check=False
    )

    # Then nothing is taken, and people are told why and what to do
    assert admit.returncode != 0
    hub.eventually("sh", "-c", "edgeagent health || true", says="read-only")
    hub.eventually("systemctl", "status", AGENT, says="CRITICAL database: ")
    assert "LAMP" not in hub.run("edgeagent", "devices", "list").stdout

    # And the watchdog goes on being fed, by the same process
    fed = "systemctl show -P WatchdogTimestampMonotonic edgeagent"
    longer = f"first=$({fed}); until [ $({fed}) -gt $((first + 6000000)) ]; do sleep 0.1; done"
    hub.run("timeout", "90", "sh", "-c", longer)
    assert shown(hub, AGENT, "MainPID", "NRestarts") == {"MainPID": pid, "NRestarts": "0"}

    # And after a power cut all comes back by itself, with the card as it took its last write
    hub.run("systemctl", "enable", AGENT, WORKER, FETCHER)
    hub.run("sync")
    hub.kill()
    hub.boot()
    for unit, state in ((AGENT, "running"), (WORKER, "running"), (FETCHER, "listening")):
        settled(hub, unit, ActiveState="active", SubState=state)
    assert (rows(hub, DEVICES), rows(hub, EPOCH)) == had
