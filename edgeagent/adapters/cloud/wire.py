"""The shapes of the queue's HTTPS interface, for both ends (``docs/openapi.yaml``).

Whatever crosses is one of these: strict, closed, bounded. Numbers of events travel as ranges. The hub
believes an answer only as far as it fits what was asked (SPEC U4); the queue believes nobody.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from edgeagent.contracts.door import Contract
from edgeagent.contracts.event import Stream
from edgeagent.contracts.receipt import AuditMark
from edgeagent.contracts.scalars import (
    Base64,
    EpochField,
    HubIdField,
    Nonce,
    Words,
)
from edgeagent.contracts.traceparent import TraceparentText
from edgeagent.ids import Digest

JSON: Final = "application/json"
"""The media type of every answer, and of every request but an upload."""

MOST_COMMANDS: Final = 64
"""The most commands in one lease, and handles in one request."""
LONGEST_WAIT: Final = 60
"""The most seconds that a request may ask the queue to wait."""
LONGEST_HOLD: Final = 3600
"""The most seconds for which a command is lent."""
REQUEST_BYTES: Final = 16 * 1024
"""The most bytes of a request that is neither an upload nor a command."""

Number = Annotated[int, Field(ge=1, lt=2**63 - 1)]
"""An event's place in its stream."""
Range = Annotated[list[Number], Field(min_length=2, max_length=2)]
"""First and last number, both inclusive."""
Seconds = Annotated[float, Field(ge=0, le=LONGEST_WAIT)]
HoldSeconds = Annotated[float, Field(ge=0.1, le=LONGEST_HOLD)]
Handle = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
ReasonCode = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z_]{0,39}$")]


HeadText = Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,14})-[0-9a-f]{64}$")]
"""The head of an audit trail in a URL: its number, and its hash in hexadecimal."""


class Fault(StrEnum):
    """Why a request was not carried out, beside the codes of ``contracts.reasons``."""

    UNAUTHORISED = "unauthorised"
    """No token or certificate, or one that is not known."""
    FORBIDDEN = "forbidden"
    """The role of the login does not allow this."""
    CERTIFICATE_REPLACED = "certificate_replaced"
    """Another certificate of the hub counts, or the hub was enrolled anew."""
    CERTIFICATE_REVOKED = "certificate_revoked"
    """The hub's certificates were taken back."""
    CERTIFICATE_UNKNOWN = "certificate_unknown"
    """The certificate is of the queue's authority, and the queue has no record of it."""
    CERTIFICATE_OVER = "certificate_over"
    """The certificate has ended, or not begun, by the queue's clock."""
    CLAIM_UNKNOWN = "claim_unknown"
    """There is no such claim code."""
    CLAIM_USED = "claim_used"
    """The claim code was used, with another key."""
    CLAIM_OVER = "claim_over"
    """The claim code came too late, or was taken back."""
    NOT_FOUND = "not_found"
    """There is no such hub, command or path."""
    WRONG_METHOD = "wrong_method"
    """The path has other methods."""
    UNSUPPORTED_TYPE = "unsupported_type"
    """The media type or encoding of the body is not one that is taken here."""
    BUSY = "busy"
    """Come later; ``Retry-After`` says when."""
    TOO_SLOW = "too_slow"
    """The body did not come in time."""
    STORAGE = "storage"
    """The queue cannot store at the moment; nothing was taken."""
    BROKEN = "broken"
    """A fault of the queue itself."""


class Problem(Contract):
    """Why a request failed.

    Attributes:
        reason: a code of ``Fault`` or ``contracts.reasons``.
        detail: for people; repeats nothing of the request but its shape.
        batch: the nonce of the upload that this answers, which proves that the queue itself refuses it.
    """

    reason: ReasonCode
    detail: Words
    batch: Nonce | None = None


class RefusedEvent(Contract):
    """An event that the queue will never take."""

    number: Number
    reason: Words


class UploadQuery(Contract):
    """What an upload says of itself, in its URL.

    Attributes:
        batch: a nonce.
        epoch: the life of the hub's database.
        stream: of which stream.
        head: the last row of the hub's audit trail, as ``head_text`` writes it.
    """

    batch: Nonce
    epoch: EpochField
    stream: Stream
    head: HeadText | None = None


class UploadAnswer(Contract):
    """What is proven of an upload: everything in ``taken`` is on the queue's disk.

    Attributes:
        batch: the nonce of the upload.
        hub: whose.
        epoch: of which life of its database.
        stream: of which stream.
        taken: ranges of numbers that are stored, now or before.
        refused: numbers that never will be.
    """

    batch: Nonce
    hub: HubIdField
    epoch: EpochField
    stream: Stream
    taken: list[Range]
    refused: list[RefusedEvent]


class LeaseRequest(Contract):
    """Lend me commands."""

    most: Annotated[int, Field(ge=1, le=MOST_COMMANDS)]
    wait_seconds: Seconds
    hold_seconds: HoldSeconds


class LentCommand(Contract):
    """A command lent to the hub, as its issuer sent it.

    Attributes:
        handle: of this loan.
        envelope: the command.
        hold_seconds: for how long.
        traceparent: the place in a trace that its issuer named beside it.
    """

    handle: Handle
    envelope: Base64
    hold_seconds: HoldSeconds
    traceparent: TraceparentText | None = None


class LeaseAnswer(Contract):
    """The commands that are lent from now on.

    Attributes:
        commands: oldest first.
        waited_seconds: how long the queue waited before it lent them; the loan began then.
    """

    commands: Annotated[list[LentCommand], Field(max_length=MOST_COMMANDS)]
    waited_seconds: Annotated[float, Field(ge=0)]


Handles = Annotated[list[Handle], Field(min_length=1, max_length=MOST_COMMANDS)]


class HandlesRequest(Contract):
    """Acknowledge these, or take them back."""

    handles: Handles


class ExtendRequest(Contract):
    """Lend these for so much longer, counted from now."""

    handles: Handles
    hold_seconds: HoldSeconds


class HandlesAnswer(Contract):
    """What became of the handles.

    Attributes:
        done: those for which it was done.
        gone: those that are no loan of this hub: over and lent anew, settled, or another's.
    """

    done: list[Handle]
    gone: list[Handle]


class TimeRequest(Contract):
    """Sign the time over this."""

    nonce: Nonce


class Health(Contract):
    """Whether the queue can store."""

    status: Annotated[str, Field(pattern="^ok$")]


def head_text(head: AuditMark) -> str:
    """Write the head of an audit trail for a URL."""
    return f"{head.number}-{head.hash}"


def head_of(text: HeadText) -> AuditMark:
    """Read what ``head_text`` has written."""
    number, _, digest = text.partition("-")
    return AuditMark(number=int(number), hash=Digest(digest))


def one_line(text: str) -> str:
    """Make words for people of a text that may hold anything: printable, 1 to 200 characters."""
    line = "".join(letter if letter.isprintable() else " " for letter in text[:200])
    return line.strip() or "no words"


def ranges_of(numbers: Iterable[int]) -> list[list[int]]:
    """Write numbers as ranges, first and last inclusive, rising."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges


def numbers_of(ranges: Sequence[Sequence[int]], *, most: int) -> set[int] | None:
    """Read ranges as numbers.

    Returns:
        None when they hold more than ``most`` numbers, turn back or overlap.
    """
    numbers: set[int] = set()
    for first, last in ranges:
        if (
            last < first
            or last - first >= most - len(numbers)
            or not numbers.isdisjoint(range(first, last + 1))
        ):
            return None
        numbers.update(range(first, last + 1))
    return numbers
