"""Where mosquitto's configuration lies, and which of its files are ours.

    FOLDER/mosquitto.conf                 theirs; has to include conf.d
    FOLDER/conf.d/edgeagent.conf          ours: listeners, limits
    FOLDER/edgeagent/passwd               ours: who may come in, as mosquitto_passwd(1) writes it
    FOLDER/edgeagent/acl                  ours: which topics each login may use
    FOLDER/edgeagent/logins               ours: which logins there are, and of which devices
    FOLDER/edgeagent/access               ours, readable by all: whose rules are in force, by digest

Each of ours begins with ``MARK``. A file in one of these places that does not is somebody else's, and is
neither changed nor removed.
"""

import fcntl
import os
import pwd
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from edgeagent.errors import ConfigurationError, TransientError
from edgeagent.settings import BROKER_ACCESS
from edgeagent.store.whole_file import write_whole
from edgeagent.values import dataclass

MARK: Final = "# Written by edgeagent broker apply, each time anew: what is changed here is lost."
"""The first line of each file that is ours."""
FOLDER: Final = Path("/etc/mosquitto")

_MOST_BYTES: Final = 16 * 1024 * 1024
_USER: Final = "mosquitto"


@dataclass(frozen=True, slots=True)
class BrokerPlace:
    """The folder of a mosquitto's configuration.

    Attributes:
        folder: ``/etc/mosquitto``.
    """

    folder: Path = FOLDER

    @property
    def main(self) -> Path:
        """What mosquitto is started with."""
        return self.folder / "mosquitto.conf"

    @property
    def includes(self) -> Path:
        """The folder that it includes."""
        return self.folder / "conf.d"

    @property
    def own(self) -> Path:
        """Our part of the configuration."""
        return self.includes / "edgeagent.conf"

    @property
    def passwords(self) -> Path:
        """Who may come in."""
        return self.folder / "edgeagent" / "passwd"

    @property
    def rules(self) -> Path:
        """Which topics each may use."""
        return self.folder / "edgeagent" / "acl"

    @property
    def logins(self) -> Path:
        """Which logins there are."""
        return self.folder / "edgeagent" / "logins"

    @property
    def access(self) -> Path:
        """Whose rules are in force."""
        return self.folder / BROKER_ACCESS

    @property
    def modes(self) -> Mapping[Path, int]:
        """All files of ours in the order in which they are written, with who may read them."""
        # The configuration comes after what it names; what tells that all is in force, when it is.
        return {
            self.passwords: 0o600,
            self.rules: 0o600,
            self.logins: 0o600,
            self.own: 0o644,
            self.access: 0o644,
        }

    def read(self, path: Path) -> str | None:
        """One of our files; None where there is none.

        Raises:
            ConfigurationError: it cannot be read, or is somebody else's.
        """
        try:
            with path.open("rb") as file:
                text = file.read(_MOST_BYTES).decode("utf-8", "replace")
        except FileNotFoundError:
            return None
        except OSError as why:
            raise ConfigurationError(f"cannot read {path}: {why.strerror}") from why
        if text.partition("\n")[0] != MARK:
            raise ConfigurationError(f"{path} is not ours: it does not begin with the line that we write")
        return text

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be the only one who writes here.

        Raises:
            TransientError: somebody else is at it.
            ConfigurationError: the folder cannot be opened.
        """
        try:
            number = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as why:
            raise ConfigurationError(f"cannot open {self.folder}: {why.strerror}") from why
        try:
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as why:
                raise TransientError("somebody else is writing the broker's files") from why
            yield
        finally:
            os.close(number)

    def write(self, path: Path, text: str | None) -> None:
        """Put one of our files in place in one move, or remove it.

        Raises:
            ConfigurationError: the disk does not take it, or we may not.
        """
        try:
            if text is None:
                path.unlink(missing_ok=True)
                if path.parent != self.includes:
                    with suppress(OSError):  # others of ours are in it
                        path.parent.rmdir()
                return
            if path.parent != self.includes:
                make_open(path.parent)
            # mosquitto reads them as itself when it is told to read them anew, and later versions want them
            # to be its own. It cannot put others in their place: the folder is root's.
            owner = user_of_broker() if path in {self.passwords, self.rules} else None
            write_whole(path, text.encode(), mode=self.modes[path], owner=owner)
        except OSError as why:
            raise ConfigurationError(f"cannot write {path}: {why.strerror}") from why


def make_open(folder: Path) -> None:
    """Make a folder that mosquitto's own user can look into, whatever the umask."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)


def user_of_broker() -> tuple[int, int] | None:
    """Mosquitto's user and group, if there is one and we may give files away."""
    with suppress(KeyError):
        if os.geteuid() == 0:
            entry = pwd.getpwnam(_USER)
            return entry.pw_uid, entry.pw_gid
    return None
