"""Where the hub's identity lies (``store/identity``), for whoever only shows it; reads no certificate."""

from pathlib import Path

from edgeagent.errors import ConfigurationError


class IdentityFolder:
    """The folder of the hub's identity.

    Args:
        folder: there is none before the hub is enrolled.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def current(self) -> Path:
        """The file that is shown: a link, which follows a renewal."""
        return self.folder / "current.pem"

    @property
    def authority(self) -> Path:
        """Whom the hub trusts to be the queue."""
        return self.folder / "authority.pem"

    @property
    def is_enrolled(self) -> bool:
        """Whether there is anything to show.

        Raises:
            ConfigurationError: we may not even look.
        """
        try:
            return self.current.exists()
        except OSError as why:
            raise ConfigurationError(f"cannot read {self.folder}: {why.strerror}") from why
