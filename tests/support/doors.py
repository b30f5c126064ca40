"""What a process of a unit can reach: tried by a program that stands in the place of the unit's own.

    tried = doors(hub, "edgeagent-worker.service", {"INET": "socket.socket(socket.AF_INET)"})
    tried["INET"]     # "EAFNOSUPPORT", or what came of it

It runs in everything that the unit says but what is said of how it starts and how long it may run.
"""

import json
import re
from collections.abc import Mapping
from secrets import token_hex
from typing import Final

from tests.support.containers import Container
from tests.support.installed import UNITS

_NOT_ITS_OWN: Final = re.compile(
    r"^(Type|NotifyAccess|WatchdogSec|WatchdogSignal|ExecStart|Restart|RestartSec|StandardInput|StandardOutput"
    r"|RestartPreventExitStatus|RuntimeMaxSec|ConditionPathExists|StateDirectory\w*|RuntimeDirectory\w*)=.*\n",
    re.MULTILINE,
)
_PROGRAM: Final = '''
import ctypes, errno, json, mmap, os, resource, socket, stat, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)

def call(name, *words):
    """A function of the C library; its error as Python's own."""
    result = getattr(libc, name)(*words)
    if result == -1:
        raise OSError(ctypes.get_errno(), name)
    return result

def connect(host, port, family=socket.AF_INET):
    with socket.socket(family, socket.SOCK_STREAM) as channel:
        channel.settimeout(0.5)
        channel.connect((host, port))

def write(path):
    with open(path, "w") as file:
        file.write("x")

def read(path):
    return open(path, "rb").read().decode(errors="replace")

said = {}
for name, what in json.loads(sys.argv[1]).items():
    try:
        said[name] = str(eval(what))
    except TimeoutError:
        said[name] = "no answer"
    except OSError as why:
        said[name] = errno.errorcode.get(why.errno, str(why))
sys.stderr.write(sys.argv[2] + json.dumps(said) + "\\n")
'''


def doors(hub: Container, unit: str, tries: Mapping[str, str]) -> dict[str, str]:
    """Try things in the place of a unit's own program.

    Args:
        hub: the machine, with the units installed.
        unit: whose place.
        tries: expressions of Python, by name.

    Returns:
        For each the name of its error, ``no answer``, or what came of it.
    """
    words = (
        json.dumps(tries).replace("%", "%%").replace("$", "$$").replace("\\", "\\\\").replace("'", "\\x27")
    )
    text = _NOT_ITS_OWN.sub("", (UNITS / unit).read_text("utf-8"))
    # What was said before lies in the journal too, and what is said now may take a moment to get there.
    mark = f"DOORS-{token_hex(8)}:"
    start = f"[Service]\nType=oneshot\nExecStart=/usr/bin/python3 /usr/local/doors.py '{words}' {mark}\n"
    if "LoadCredential" in text:
        start += "StateDirectory=edgeagent\nStateDirectoryMode=0700\n"
    hub.inside("/usr/local/doors.py").write_text(_PROGRAM)
    hub.inside("/etc/systemd/system/doors.service").write_text(text.replace("[Service]\n", start))
    hub.run("systemctl", "daemon-reload")
    hub.run("systemctl", "start", "doors")
    said = hub.eventually("journalctl", "-u", "doors", "-o", "cat", "-n", "9", "--no-pager", says=mark)
    [line] = [line for line in said.splitlines() if line.startswith(mark)]
    found: dict[str, str] = json.loads(line.removeprefix(mark))
    return found
