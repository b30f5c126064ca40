"""What may be asked at the operator's door, as values: the socket turns them into HTTP."""

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import TypeVar

from edgeagent.contracts.door import Contract, decode
from edgeagent.values import dataclass

REQUEST_BYTES = 64 * 1024
"""The most bytes of a request's body."""

C = TypeVar("C", bound=Contract)


class Role(StrEnum):
    """What whoever asks has to be."""

    VIEW = "view"
    """May look."""
    OPERATE = "operate"
    """May have things done."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request.

    Attributes:
        names: the parts of the path that the route leaves open.
        query: of the address.
        body: as it came.
        actor: who asks, as the kernel tells; for the audit trail.
    """

    names: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes
    actor: str

    def read(self, kind: type[C]) -> C:
        """The body as a contract.

        Raises:
            MalformedError: it is none.
        """
        return decode(kind, self.body, limit=REQUEST_BYTES)


Handler = Callable[[Asked], Awaitable[Contract | None]]
"""Answers a request; None says that it is done and there is nothing to tell."""


@dataclass(frozen=True, slots=True)
class Route:
    """A thing that may be asked.

    Attributes:
        method: of HTTP.
        path: with open parts as ``{name}``.
        role: who may.
        handler: answers.
    """

    method: str
    path: str
    role: Role
    handler: Handler
