"""A Debian machine with git and Python and nothing else, into which the project is put as a clone would be.

It uses this machine's network, certificates and settings of pip: what the project's scripts fetch is fetched.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.cgroups import OwnGroups
from tests.support.containers import debian

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("ca-certificates", "git", "python3")
_AUTHORITIES: Final = Path("/etc/ssl/certs/ca-certificates.crt")

_INDEXES: Final = r"(?m)^(?::env:|global)\.(index-url|extra-index-url|find-links)='(.*)'$"


class BareMachine:
    """One such machine.

    Args:
        folder: its disk: what differs from what Debian installs.
    """

    def __init__(self, folder: Path) -> None:
        self._root = debian(packages=PACKAGES)
        self._upper, self._work, self._top = (folder / name for name in ("disk", "work", "top"))
        for part in (self._upper, self._work, self._top):
            part.mkdir(parents=True)

    def clone_into(self, home: str) -> None:
        """Put the project there: the files that are in the repository, or are to be."""
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for name in filter(None, names.split("\0")):
            if (ROOT / name).exists():
                target = self._upper / home.lstrip("/") / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, target)

    def run(
        self, *command: str, at: str = "/", user: str = "root", within: float = 240
    ) -> subprocess.CompletedProcess[str]:
        """Run a command there; what it says on both of its outputs is one."""
        options = [f"--directory={self._top}", f"--chdir={at}", f"--user={user}", *_of_this_machine()]
        layers = f"lowerdir={self._root},upperdir={self._upper},workdir={self._work}"
        groups = OwnGroups()
        ended = subprocess.run(
            [
                *("unshare", "--mount", "--propagation", "private", "sh", "-c"),
                f'{groups.enter} && mount -t overlay overlay -o {layers} {self._top} && exec "$@"',
                "sh",
                *("systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--as-pid2", "--pipe"),
                *options,
                *command,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=within,
        )
        groups.remove()
        return ended


def _of_this_machine() -> Iterator[str]:
    """Options that let its network, its authorities and its indexes be used inside."""
    yield "--bind-ro=/etc/resolv.conf"
    if _AUTHORITIES.exists():
        yield f"--bind-ro={_AUTHORITIES}"
        yield f"--setenv=PIP_CERT={_AUTHORITIES}"
    asked = [sys.executable, "-m", "pip", "config", "list"]
    told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    for key, value in re.findall(_INDEXES, told):
        yield f"--setenv=PIP_{key.upper().replace('-', '_')}={value}"
        for place in value.split():
            path = Path(place.removeprefix("file://"))
            if path.is_absolute() and path.exists():
                # An index of files names what lies beside it.
                yield f"--bind-ro={path.parent if place.startswith('file://') else path}"
