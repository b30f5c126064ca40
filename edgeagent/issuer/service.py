"""What the two sides of the queue server stand on together."""

from collections.abc import Callable
from dataclasses import field

from edgeagent.clock import Clock
from edgeagent.core.envelope import Signer
from edgeagent.issuer.attempts import Attempts
from edgeagent.issuer.authority_in_force import AuthorityInForce
from edgeagent.issuer.bells import Bells
from edgeagent.issuer.instruments import Instruments
from edgeagent.issuer.logins import Logins
from edgeagent.issuer.policy_in_force import PolicyInForce
from edgeagent.issuer.repository.files import RepositoryFiles
from edgeagent.issuer.settings import Limits
from edgeagent.store.database import Database
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The parts of a running server.

    Attributes:
        database: the queue.
        clock: its wall time is the server's word on the time; whoever runs the server keeps it right.
        logins: who may ask for what.
        policy: of the producer's gate.
        repository: what hubs read their policy from; None when none is served.
        instruments: count what the gate does.
        time_key: signs the time; None when the server signs none.
        bells: wake whoever waits.
        new_handle: 128 bits of chance in hexadecimal, for a loan.
        limits: how much is taken.
        authority: certifies hubs; None when the server enrols none.
        attempts: wrong claim codes.
    """

    database: Database
    clock: Clock
    logins: Logins
    policy: PolicyInForce
    repository: RepositoryFiles | None
    instruments: Instruments
    time_key: Signer | None
    bells: Bells
    new_handle: Callable[[], str]
    limits: Limits
    authority: AuthorityInForce | None = None
    attempts: Attempts = field(default_factory=Attempts)
