"""The policy that the producer's gate judges by: of a file, or of the repository as it is now.

A repository is verified from its first root on whenever its timestamp has changed. While what is there does
not verify, the earlier policy stays in force.
"""

import logging
from datetime import datetime
from typing import Final, Protocol

from edgeagent.contracts.policy import Policy
from edgeagent.core.catalogue import Catalogue
from edgeagent.errors import AgentError, ConfigurationError
from edgeagent.issuer.repository.files import MissingFileError, RepositoryFiles
from edgeagent.issuer.repository.trusted import Trusted, read_trusted
from edgeagent.values import dataclass

_LIVING: Final = frozenset({"policy", "targets", "snapshot", "timestamp"})

log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InForce:
    """A policy with its end.

    Attributes:
        policy: what it says.
        until: when it ends, or what stands behind it; None for its own end alone.
        catalogue: what is signed of artifacts; None where no repository says it.
    """

    policy: Policy
    until: datetime | None = None
    catalogue: Catalogue | None = None


class PolicyInForce(Protocol):
    """Says which policy is in force."""

    def current(self) -> InForce | None:
        """The policy; None when the server was not given one."""
        ...


class FixedPolicy:
    """One policy, for as long as the server runs."""

    def __init__(self, policy: Policy | None) -> None:
        self._policy = None if policy is None else InForce(policy)

    def current(self) -> InForce | None:
        """That policy."""
        return self._policy


class RepositoryPolicy:
    """The policy of a repository, also when another one is published."""

    def __init__(self, files: RepositoryFiles) -> None:
        self._files = files
        self._mark: tuple[int, int, int] | None = None
        self._policy: InForce | None = None

    def load(self) -> None:
        """Read it for the first time.

        Raises:
            ConfigurationError: there is none, or it does not verify.
        """
        try:
            self._mark = self._files.mark()
            self._policy = _in_force(read_trusted(self._files))
        except AgentError as why:
            raise ConfigurationError(f"{self._files.folder}: {why}") from why

    def current(self) -> InForce | None:
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
            found = _in_force(read_trusted(self._files))
        except AgentError as why:
            log.error("repository does not verify, the earlier policy stays", extra={"why": str(why)})  # noqa: TRY400 - the words say it all
            return
        if self._policy is not None and found.policy.version < self._policy.policy.version:
            log.error(
                "repository went back, the earlier policy stays", extra={"version": found.policy.version}
            )
            return
        self._policy = found
        log.info("policy in force", extra={"version": found.policy.version})


def _in_force(trusted: Trusted) -> InForce:
    # As at a hub: the root says who may sign, and its end keeps out what is new only; and that of artifacts
    # is judged with each of them.
    ends = [end for part, end in trusted.expiries.items() if part in _LIVING]
    return InForce(trusted.policy, min(ends), Catalogue(listed=trusted.artifacts))
