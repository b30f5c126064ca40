"""What the kernel tells of processes."""

from contextlib import suppress
from pathlib import Path


def children_of(pid: int) -> list[int]:
    """The processes that one has started, and those that these have, and so on."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *children_of(int(child))]
    return found


def command_line(pid: int) -> bytes:
    """The words that one was started with, each with a zero behind it; nothing where it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def fetching(pid: int) -> list[int]:
    """The fetching processes below one."""
    found = {child: command_line(child).split(b"\0") for child in children_of(pid)}
    return [
        child
        for child, [program, *words] in found.items()
        if b"python" in program and words[-4:] == [b"-m", b"edgeagent", b"fetch", b""]
    ]
