"""The policy that the producer's gate judges by: of a file, or of the repository as it is now.

A repository is verified from its first root on whenever its timestamp has changed. While what is there does
not verify, the earlier policy stays in force.
"""

import logging
from typing import Final, Protocol

from edgeagent.contracts.policy import Policy
from edgeagent.errors import AgentError, ConfigurationError
from edgeagent.issuer.repository.files import MissingFileError, RepositoryFiles
from edgeagent.issuer.repository.trusted import read_trusted

log: Final = logging.getLogger(__name__)


class PolicyInForce(Protocol):
    """Says which policy is in force."""

    def current(self) -> Policy | None:
        """The policy; None when the server was not given one."""
        ...


class FixedPolicy:
    """One policy, for as long as the server runs."""

    def __init__(self, policy: Policy | None) -> None:
        self._policy = policy

    def current(self) -> Policy | None:
        """That policy."""
        return self._policy


class RepositoryPolicy:
    """The policy of a repository, also when another one is published."""

    def __init__(self, files: RepositoryFiles) -> None:
        self._files = files
        self._mark: tuple[int, int, int] | None = None
        self._policy: Policy | None = None

    def load(self) -> None:
        """Read it for the first time.

        Raises:
            ConfigurationError: there is none, or it does not verify.
        """
        try:
            self._mark = self._files.mark()
            self._policy = read_trusted(self._files).policy
        except AgentError as why:
            raise ConfigurationError(f"{self._files.folder}: {why}") from why

    def current(self) -> Policy | None:
        """The newest that verifies."""
        try:
            mark = self._files.mark()
        except MissingFileError:
            return self._policy
        if mark != self._mark:
            self._mark = mark  # what does not verify is told once, not with each command
            self._renew()
        return self._policy

    def _renew(self) -> None:
        try:
            policy = read_trusted(self._files).policy
        except AgentError as why:
            log.error("repository does not verify, the earlier policy stays", extra={"why": str(why)})  # noqa: TRY400 - the words say it all
            return
        if self._policy is not None and policy.version < self._policy.version:
            log.error("repository went back, the earlier policy stays", extra={"version": policy.version})
            return
        self._policy = policy
        log.info("policy in force", extra={"version": policy.version})
