"""Where a hub's files are to lie, and whose they are.

    /etc/edgeagent/config.toml        root, group of the agent    0640
    /etc/edgeagent/root.json          root                        0644
    /etc/edgeagent/credentials/       root                        0700
    /var/lib/edgeagent/               the agent                   0700
    /var/lib/edgeagent/identity/      the agent                   0700, files 0600

Each file is written whole (``store/whole_file``), and where the folder is the agent's, as that user.
"""

import os
import pwd
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from edgeagent.errors import ConfigurationError
from edgeagent.rights import acting_as
from edgeagent.store.identity import IdentitySlots
from edgeagent.store.whole_file import write_whole
from edgeagent.values import dataclass

STATE_DIR: Final = Path("/var/lib/edgeagent")
RUN_DIR: Final = Path("/run/edgeagent")
AGENT: Final = "edgeagent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A user of this machine, with its group."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where everything lies.

    Attributes:
        config: the configuration.
        state_dir: the agent's state.
        run_dir: its sockets.
        agent: whose the state is.
    """

    config: Path
    state_dir: Path = STATE_DIR
    run_dir: Path = RUN_DIR
    agent: Owner

    @property
    def root(self) -> Path:
        """The first root of the policy."""
        return self.config.parent / "root.json"

    @property
    def credentials(self) -> Path:
        """The folder of secrets that systemd lends."""
        return self.config.parent / "credentials"

    @property
    def slots(self) -> IdentitySlots:
        """The hub's identity. Whoever writes there is the agent's user: it is in a folder of that user's."""
        return IdentitySlots(self.state_dir / "identity")

    def as_agent(self) -> AbstractContextManager[None]:
        """Be the agent's user, if we are root."""
        return acting_as(self.agent.uid, self.agent.gid)

    def make_folders(self) -> bool:
        """Make the folders.

        Returns:
            Whether one was missing.

        Raises:
            ConfigurationError: it cannot be made.
        """
        missing = [
            self._make(self.config.parent, 0o755),
            self._make(self.credentials, 0o700),
            self._make(self.state_dir, 0o700, is_agents=True),
        ]
        return any(missing)

    def write(self, path: Path, content: bytes, *, mode: int, is_read_by_agent: bool = False) -> None:
        """Write a file of root's, which the agent's group may read or everybody may.

        Raises:
            ConfigurationError: it cannot be written.
        """
        owner = (-1, self.agent.gid) if is_read_by_agent else None
        try:
            write_whole(path, content, mode=mode, owner=owner)
        except OSError as why:
            raise ConfigurationError(f"cannot write {path}: {why.strerror}") from why

    def _make(self, folder: Path, mode: int, *, is_agents: bool = False) -> bool:
        try:
            if folder.is_dir():
                # A disk of its own is root's as it comes; the unit would give it away at its first start.
                is_roots = folder.stat().st_uid == 0
                if not (is_agents and is_roots and self._gives_away()):
                    return False
            else:
                folder.mkdir(mode=mode, parents=True)
            folder.chmod(mode)
            if is_agents and self._gives_away():
                os.chown(folder, self.agent.uid, self.agent.gid)
        except OSError as why:
            raise ConfigurationError(f"cannot make {folder}: {why.strerror}") from why
        return True

    def _gives_away(self) -> bool:
        return os.geteuid() == 0 and self.agent.uid != 0


def places(config: Path, *, state_dir: Path, run_dir: Path, user: str) -> Places:
    """Where everything is to lie, for an agent that runs as a user.

    Raises:
        ConfigurationError: there is no such user, or we may not make files for it.
    """
    try:
        entry = pwd.getpwnam(user)
    except KeyError as why:
        raise ConfigurationError(
            f"there is no user {user} on this machine: install the package, which makes it"
        ) from why
    if os.geteuid() not in {0, entry.pw_uid}:
        raise ConfigurationError(f"only root makes files for {user}: sudo edgeagent setup")
    return Places(
        config=config.absolute(),
        state_dir=state_dir.absolute(),
        run_dir=run_dir.absolute(),
        agent=Owner(uid=entry.pw_uid, gid=entry.pw_gid),
    )
