"""The cloud's queue, as the flows need it: readings up, commands down, the time signed."""

from collections.abc import Sequence
from dataclasses import field
from datetime import timedelta
from typing import Protocol

from edgeagent.contracts.event import Stream
from edgeagent.contracts.receipt import AuditMark
from edgeagent.ids import Epoch
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True)
class Batch:
    """Events of one stream on their way up.

    Attributes:
        epoch: the life of the database that numbers them.
        stream: which stream.
        events: number and CloudEvent as JSON text, numbers rising.
        head: the last row of the audit trail as these were read, which the far side remembers: so that
            what it was told once cannot be told otherwise later (SPEC A3).
    """

    epoch: Epoch
    stream: Stream
    events: Sequence[tuple[int, bytes]]
    head: AuditMark | None = None


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What the far side proved about a batch.

    Attributes:
        taken: the numbers that it has stored.
        refused: numbers that it will never take, with its reason.
    """

    taken: frozenset[int]
    refused: dict[int, str] = field(default_factory=dict)


class EventSink(Protocol):
    """The cloud's side of the outbox."""

    async def upload(self, batch: Batch) -> Acknowledged:
        """Hand events over; return what is proven stored. Sending the same ones again is harmless.

        Raises:
            LinkError: nothing is known to have arrived.
            RejectedError: the far side itself refuses the batch as a whole; smaller pieces may pass, and
                a single event that is refused so never will.
        """
        ...


@dataclass(frozen=True, slots=True)
class Delivery:
    """A command lent to us by the cloud's queue.

    Attributes:
        handle: by which it is acknowledged, extended or handed back.
        envelope: the bytes that the issuer sent.
        until: boot time at which the loan ends.
        traceparent: the place in a trace that came beside it; nobody has signed it.
    """

    handle: str
    envelope: bytes
    until: timedelta
    traceparent: str | None = None


class CommandSource(Protocol):
    """The cloud's side of the inbox."""

    async def lease(self, *, most: int, wait: timedelta, hold: timedelta) -> list[Delivery]:
        """Borrow up to ``most`` commands for ``hold`` each; wait up to ``wait`` for the first.

        Raises:
            LinkError: none are known to be lent.
        """
        ...

    async def acknowledge(self, handles: Sequence[str]) -> None:
        """Tell that these are safe here; the queue forgets them.

        Raises:
            LinkError: they may come again.
        """
        ...

    async def extend(self, handles: Sequence[str], *, hold: timedelta) -> None:
        """Keep these for ``hold`` more.

        Raises:
            LinkError: they may come again.
        """
        ...

    async def hand_back(self, handles: Sequence[str]) -> None:
        """Give these back unread.

        Raises:
            LinkError: they come again when their loan ends.
        """
        ...


class TimeSource(Protocol):
    """Somebody who signs the time."""

    async def statement(self, nonce: str) -> bytes:
        """Ask for a time statement over ``nonce``.

        Returns:
            A DSSE envelope; nothing about it is proven.

        Raises:
            LinkError: there was none.
        """
        ...
