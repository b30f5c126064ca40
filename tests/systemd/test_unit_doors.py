"""What whoever takes a process over can reach from there: tried in the units of a running machine (W1-W3)."""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.support.containers import Container, booted, debian, needs_container
from tests.support.doors import doors
from tests.support.installed import SUITE, UNITS, drop_in, install, needs_its_python, program

pytestmark = [
    needs_container,
    needs_its_python,
    pytest.mark.slow,
    pytest.mark.requirement("W1", "W2", "W3"),
    pytest.mark.threat("T55"),
]

CLOSED: Final = frozenset({"EPERM", "EACCES", "EROFS", "EAFNOSUPPORT", "ENOENT", "ENOSYS"})
LAN: Final = "192.168.7.1"
LINK: Final = "169.254.169.254"
PAGE: Final = 8080
FAMILIES: Final = {
    "netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "packet": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "raw": "socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)",
}
KERNEL: Final = {
    "mount": 'call("mount", b"none", b"/tmp", b"tmpfs", 0, None)',
    "namespace": 'call("unshare", 0x10000000)',
    "become root": "os.setuid(0)",
    "look into another": 'call("ptrace", 16, 1, None, None)',
    "memory that is written and run": (
        "mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)"
    ),
    "set the clock": "time.clock_settime(time.CLOCK_REALTIME, 0)",
    "keys of the kernel": 'call("syscall", 248, b"user", b"x", b"y", 1, -3)',
    "see others": "os.listdir('/proc/1/fd')",
    "nice": "os.nice(-1)",
    "a shell": 'subprocess.run(["/bin/sh", "-c", "true"])',
}
FILES: Final = {
    "its own program": 'write("/opt/edgeagent/lib/x")',
    "programs": 'write("/usr/bin/x")',
    "settings": 'write("/etc/x")',
    "what is lent": 'read("/etc/edgeagent/credentials/hub.token")',
    "shadow": 'read("/etc/shadow")',
    "run": 'write("/run/x")',
}
OF_THE_AGENT: Final = {
    "state": 'os.listdir("/var/lib/edgeagent")',
    "configuration": 'read("/etc/edgeagent/config.toml")',
    "logins of the broker": 'os.listdir("/etc/mosquitto")',
    "what the broker keeps": 'os.listdir("/var/lib/mosquitto")',
    "credentials": 'os.listdir("/run/credentials/edgeagent.service")',
}
ROOTLESS: Final = {
    "user": "os.getuid()",
    "core": "resource.getrlimit(resource.RLIMIT_CORE)",
    "rights": 'int([line for line in open("/proc/self/status") if "CapBnd" in line][0].split()[1], 16)',
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """A machine with a broker on its loopback, and a page on an address of the venue's network."""
    folder = tmp_path_factory.mktemp("doors")
    with booted(debian(SUITE), folder / "hub", program(folder)) as machine:
        install(machine, "", {"hub.token": "a-secret"})
        for address in (LAN, LINK):
            machine.run("ip", "address", "add", f"{address}/24", "dev", "lo")
        serve = ("python3", "-m", "http.server", "--directory", "/usr/share/doc", str(PAGE))
        machine.run("systemd-run", "--unit=page", "--quiet", *serve)
        for address in (LAN, LINK):
            reach = f"import socket; socket.create_connection(('{address}', {PAGE}))"
            machine.eventually("python3", "-c", reach)
        machine.eventually("systemctl", "is-active", "mosquitto", says="active")
        yield machine


@pytest.fixture(autouse=True)
def without_drop_ins(hub: Container) -> Iterator[None]:
    """Each story begins with the units as they are shipped."""
    yield
    hub.run("rm", "-rf", "/etc/systemd/system/doors.service.d")


def of_the_page(unit: str) -> str:
    """The drop-in that ``docs/operating.md`` shows for a unit."""
    page = (UNITS.parent / "docs" / "operating.md").read_text("utf-8")
    block = page.split(f"# systemctl edit {unit}\n")[1].split("\n\n")[0]
    return "".join(f"{line.strip()}\n" for line in block.splitlines())


def uid(hub: Container, user: str) -> str:
    return hub.run("id", "-u", user).stdout.strip()


def test_the_agent_can_do_what_it_is_for_and_nothing_else(hub: Container) -> None:
    tries = FAMILIES | KERNEL | FILES

    found = doors(hub, "edgeagent.service", tries)

    assert {name: found[name] for name in tries if found[name] not in CLOSED} == {}

    open_ones = doors(
        hub,
        "edgeagent.service",
        ROOTLESS
        | {
            "the broker": 'connect("127.0.0.1", 1883)',
            "the venue": f'connect("{LAN}", {PAGE})',
            "what a cloud tells": f'connect("{LINK}", {PAGE})',
            "its state": 'write("/var/lib/edgeagent/x")',
            "what is lent": 'read(os.environ["CREDENTIALS_DIRECTORY"] + "/edgeagent_hub.token")',
            "its configuration": 'read("/etc/edgeagent/config.toml")[:5]',
            "is the clock synchronised": 'call("adjtimex", ctypes.create_string_buffer(256)) >= 0',
        },
    )
    assert open_ones == {
        "user": uid(hub, "edgeagent"),
        "core": "(0, 0)",
        "rights": "0",
        "the broker": "None",
        "the venue": "None",
        "what a cloud tells": "no answer",
        "its state": "None",
        "what is lent": "a-secret",
        "its configuration": "[hub]",
        "is the clock synchronised": "True",
    }


def test_the_worker_reaches_nothing_at_all(hub: Container) -> None:
    tries = FAMILIES | KERNEL | FILES | OF_THE_AGENT
    tries |= {
        "the internet": "socket.socket(socket.AF_INET)",
        "the internet, newer": "socket.socket(socket.AF_INET6)",
        "a file of its own": 'write("/tmp/x")',
    }

    found = doors(hub, "edgeagent-worker.service", tries | ROOTLESS)

    closed = CLOSED | {"EFBIG"}
    assert {name: found[name] for name in tries if found[name] not in closed} == {}
    assert [found[name] for name in ROOTLESS] == [uid(hub, "edgeagent-worker"), "(0, 0)", "0"]
    assert doors(hub, "edgeagent-worker.service", {"links": 'os.listdir("/sys/class/net")'}) == {
        "links": "['lo']"
    }


def test_the_fetcher_reaches_strangers_and_neither_this_machine_nor_its_files(hub: Container) -> None:
    tries = FAMILIES | KERNEL | FILES | OF_THE_AGENT
    tries |= {"a socket of this machine": "socket.socket(socket.AF_UNIX)"}
    tries |= {"listen": 'socket.create_server(("0.0.0.0", 4444))'}

    found = doors(hub, "edgeagent-fetch@.service", tries | ROOTLESS)

    assert {name: found[name] for name in tries if found[name] not in CLOSED} == {}
    assert [found[name] for name in ROOTLESS] == [uid(hub, "edgeagent-fetch"), "(0, 0)", "0"]

    ways = {
        "broker": 'connect("127.0.0.1", 1883)',
        "broker, newer": 'connect("::1", 1883, socket.AF_INET6)',
        "broker, disguised": 'connect("::ffff:127.0.0.1", 1883, socket.AF_INET6)',
        "what a cloud tells": f'connect("{LINK}", {PAGE})',
    }
    reached = doors(hub, "edgeagent-fetch@.service", ways | {"venue": f'connect("{LAN}", {PAGE})'})
    assert {reached[name] for name in ways} <= {"no answer", "EPERM"}
    # The venue's network stays open as it is shipped: the resolver of names is there, mostly.
    assert reached["venue"] == "None"

    # With the drop-in that the page for operators has it is closed, but for the resolver
    drop_in(hub, "doors.service", of_the_page("edgeagent-fetch@.service"))
    shut = doors(hub, "edgeagent-fetch@.service", {"venue": f'connect("{LAN}", {PAGE})'})
    assert shut["venue"] in {"no answer", "EPERM"}


def test_the_agent_can_be_narrowed_to_its_venue_and_its_queue(hub: Container) -> None:
    drop_in(hub, "doors.service", of_the_page("edgeagent.service"))
    ways = {"broker": 'connect("127.0.0.1", 1883)', "elsewhere": f'connect("{LAN}", {PAGE})'}

    assert doors(hub, "edgeagent.service", ways) == {"broker": "None", "elsewhere": "no answer"}


def test_secrets_are_root_s_alone_on_the_disk(hub: Container) -> None:
    """And nobody of the machine reads what is lent to the agent."""
    for user in ("edgeagent", "edgeagent-worker", "edgeagent-fetch", "mosquitto", "nobody"):
        seen = hub.run("cat", "/etc/edgeagent/credentials/hub.token", check=False, user=user)
        assert (seen.stdout, "Permission denied" in seen.stderr) == ("", True), user
