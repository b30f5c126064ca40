"""What the two sides of the queue server stand on together."""

from collections.abc import Callable
from dataclasses import dataclass

from edgeagent.clock import Clock
from edgeagent.contracts.policy import Policy
from edgeagent.core.envelope import Signer
from edgeagent.issuer.bells import Bells
from edgeagent.issuer.settings import Limits
from edgeagent.issuer.tokens import TokenFile
from edgeagent.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The parts of a running server.

    Attributes:
        database: the queue.
        clock: its wall time is the server's word on the time; whoever runs the server keeps it right.
        tokens: who may ask for what.
        policy: of the producer's gate; None when the server was not given one.
        time_key: signs the time; None when the server signs none.
        bells: wake whoever waits.
        new_handle: 128 bits of chance in hexadecimal, for a loan.
        limits: how much is taken.
    """

    database: Database
    clock: Clock
    tokens: TokenFile
    policy: Policy | None
    time_key: Signer | None
    bells: Bells
    new_handle: Callable[[], str]
    limits: Limits
