"""The issuing kit: what a backend imports to have things done at venues.

    async with desk_at(url, token=Path("desk.token"), signers=[load_key(Path("desk.key"))]) as desk:
        order = await desk.sends(hub, [device], ActionName.POWER, {"on": True})
        receipt = await desk.receipt(order, within=timedelta(minutes=1))

These names stay as they are within a major version; ``docs/issuing.md`` explains them. A desk shares nothing
with another one: any number of replicas sign with the same key or with their own.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from edgeagent.adapters.cloud.settings import CloudSettings, read_token
from edgeagent.clock import ProvenClock, SystemTime
from edgeagent.contracts.actions import ActionName, Arguments
from edgeagent.contracts.command import Precondition
from edgeagent.contracts.receipt import Outcome, Receipt
from edgeagent.core.envelope import Signer
from edgeagent.errors import RejectedError
from edgeagent.ids import DeviceId, HubId, Operation
from edgeagent.issuer.client import IssuerClient, NoReceiptError, RefusedByQueueError, StillOpenError
from edgeagent.issuer.commands import Intent, Issuer, SignedCommand
from edgeagent.issuer.keys import load_key, load_public_key
from edgeagent.issuer.signers import ExternalSigner

__all__ = [
    "ActionName",
    "Arguments",
    "Desk",
    "DeviceId",
    "ExternalSigner",
    "HubId",
    "Intent",
    "Issuer",
    "IssuerClient",
    "NoReceiptError",
    "Operation",
    "Outcome",
    "Precondition",
    "Receipt",
    "RefusedByQueueError",
    "SignedCommand",
    "Signer",
    "StillOpenError",
    "UnknownHubError",
    "desk_at",
    "load_key",
    "load_public_key",
]

_VALID_FOR = timedelta(minutes=5)


class UnknownHubError(RejectedError):
    """The hub has never said hello to this queue, so that nobody knows its epoch."""


class Desk:
    """Signs commands and sends them to a queue.

    Attributes:
        issuer: signs.
        queue: carries.
    """

    def __init__(self, issuer: Issuer, queue: IssuerClient) -> None:
        self.issuer = issuer
        self.queue = queue

    async def sends(
        self,
        hub: HubId,
        devices: Sequence[DeviceId],
        action: ActionName,
        arguments: Arguments,
        *,
        valid_for: timedelta = _VALID_FOR,
        operation: Operation | None = None,
        precondition: Precondition | None = None,
    ) -> SignedCommand:
        """Sign a command for the present epoch of a hub and put it into the queue.

        Args:
            hub: the hub that is to act.
            devices: on which devices.
            action: what to do.
            arguments: with what.
            valid_for: for how long it may be begun.
            operation: the same for each command that means the same happening; give one to be able to ask
                again after a crash of yours without a second effect.
            precondition: the state that it was decided on.

        Raises:
            UnknownHubError: the hub has not said hello yet.
            RefusedByQueueError: the producer's gate refuses it, with its reason.
            MalformedError: the action has no such arguments.
            LinkError: it is unknown whether it was taken: send the same operation again.
        """
        epoch = (await self.queue.hub(hub)).epoch
        if epoch is None:
            raise UnknownHubError(f"{hub} has not said hello to this queue yet")
        intent = Intent(
            hub=hub,
            epoch=epoch,
            devices=devices,
            action=action,
            arguments=arguments,
            valid_for=valid_for,
            operation=operation,
            precondition=precondition,
        )
        order = self.issuer.sign(intent)
        await self.queue.send(order)
        return order

    async def receipt(
        self, order: SignedCommand, *, within: timedelta, hub_key: bytes | None = None
    ) -> Receipt:
        """Wait for the receipt of a command for one device. Raises as the client's.

        Args:
            order: what was sent.
            within: how long to wait at most.
            hub_key: the hub's public key: its signature on the receipt is verified. Without it the receipt
                is held against what was signed, and is otherwise the queue's word.
        """
        return await self.queue.receipt(order, within=within, hub_key=hub_key)


@asynccontextmanager
async def desk_at(
    url: str, *, token: Path, signers: Sequence[Signer], ca_file: Path | None = None
) -> AsyncIterator[Desk]:
    """Open a desk; its connections are closed at the end.

    Args:
        url: the queue's address.
        token: the file with an issuer's token, readable by its owner only.
        signers: keys, or commands that sign.
        ca_file: certificates to trust; the system's if absent.

    Raises:
        ConfigurationError: the token or the address is not usable.
    """
    clock = ProvenClock(SystemTime())
    settings = CloudSettings(url=url, token=read_token(token), ca_file=ca_file)
    async with IssuerClient(settings, clock) as queue:
        yield Desk(Issuer(signers, clock), queue)
