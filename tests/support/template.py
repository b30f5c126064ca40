"""A process that has read the modules of a program and forks it as often as it is asked to.

    python -m tests.support.template SOCKET MODULE...

Each message is the words behind ``python -m``, environment and umask, with four open files: standard input,
output and error, and where the end is told. The answer is the new process's id. What it forks has nothing of
it but the modules: one thread, the files that came, the signals as they are at a start. It ends when its
socket does.

See ``tests/support/warm.py``, which speaks with it. Nothing but the standard library is used here: what a
program does not import itself, it shall not find imported.
"""

import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Final

_ORDER_BYTES: Final = 128 * 1024
_STANDARD: Final = 3


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be run: what stands behind ``python -m``, the environment, and the umask."""

    words: list[str]
    environment: dict[str, str]
    umask: int


def obey(orders: socket.socket) -> Order | None:
    """Fork whatever is ordered, and tell of every end.

    Returns:
        What this process is to run, in each that was forked; None in the template, at its end.
    """
    living: dict[int, tuple[int, int]] = {}
    waiting = select.poll()
    waiting.register(orders, select.POLLIN)
    while True:
        for ready, _ in waiting.poll():
            if ready in living:
                waiting.unregister(ready)
                _tell_end(ready, *living.pop(ready))
                continue
            said, files, _, _ = socket.recv_fds(orders, _ORDER_BYTES, _STANDARD + 1)
            if not said:
                return None
            pid = os.fork()
            if pid == 0:
                _become(orders, files)
                return Order(**json.loads(said))
            for file in files[:_STANDARD]:
                os.close(file)
            handle = os.pidfd_open(pid)
            living[handle] = (pid, files[_STANDARD])
            waiting.register(handle, select.POLLIN)
            orders.send(str(pid).encode())


def _tell_end(handle: int, pid: int, told: int) -> None:
    os.close(handle)
    _, status = os.waitpid(pid, 0)
    os.write(told, str(os.waitstatus_to_exitcode(status)).encode())
    os.close(told)


def _become(orders: socket.socket, files: Sequence[int]) -> None:
    """Have nothing open but what came, as standard files."""
    orders.detach()
    for number, file in enumerate(files[:_STANDARD]):
        os.dup2(file, number)
    os.closerange(_STANDARD, os.sysconf("SC_OPEN_MAX"))
    signal.signal(signal.SIGINT, signal.default_int_handler)


def main() -> None:
    """Read the modules, and obey."""
    # Ctrl-C is for the programs; this one ends when nobody can ask it any more.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    orders = socket.socket(fileno=int(sys.argv[1]))
    for module in sys.argv[2:]:
        import_module(module)
    # What is there now is not looked through in every process, and its memory stays shared.
    gc.collect()
    gc.freeze()
    order = obey(orders)
    if order is None:
        return
    os.environ.clear()
    os.environ.update(order.environment)
    os.umask(order.umask)
    sys.argv = order.words
    # What this raises ends the interpreter, as it would without a template: an exit status or a traceback.
    runpy.run_module(order.words[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
