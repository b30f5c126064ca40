"""Whoever certifies hubs, as the flow that renews needs it."""

from pathlib import Path
from typing import Protocol

from edgeagent.errors import RejectedError
from edgeagent.ids import HubId
from edgeagent.values import dataclass


class NotRenewedError(RejectedError):
    """No further certificate is given for the one that was shown.

    Attributes:
        why: ``replaced``, ``revoked``, ``over``, or a code of the queue's.
    """

    def __init__(self, why: str, words: str) -> None:
        super().__init__(words)
        self.why = why


@dataclass(frozen=True, slots=True)
class Shown:
    """What the queue says of a certificate that was shown.

    Attributes:
        hub: whose it is.
        serial: its number.
        counts: whether it lets the hub in.
        why: ``valid``, ``replaced``, ``revoked``, ``over`` or ``unknown``.
        is_to_renew: whether a further one is to be asked for now, before its time.
    """

    hub: HubId
    serial: str
    counts: bool
    why: str
    is_to_renew: bool = False


class Registry(Protocol):
    """Whoever certifies hubs."""

    async def renew(self, request: bytes) -> bytes:
        """Ask for the next certificate, by the present one. The same key may be asked for again.

        Args:
            request: PKCS #10, DER.

        Returns:
            The chain, PEM; nothing about it is proven.

        Raises:
            NotRenewedError: none is given for this one any more.
            LinkError: no answer; it may have been given.
        """
        ...

    async def shown(self, certificate: Path) -> Shown:
        """Show a certificate, and be told whether it counts. One that does is in use from then on.

        Args:
            certificate: the file of its chain and its key, PEM.

        Raises:
            LinkError: no answer.
        """
        ...
