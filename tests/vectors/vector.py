"""What a vector is: an envelope as it comes, the hub that it comes to, and what that hub says.

``envelopes.json`` holds them for programs in any language; ``docs/protocol.md`` tells what its fields mean.
They are made by ``python -m tests.vectors`` out of published keys, so that nobody has to believe the file.
"""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue

from edgeagent.contracts.command import COMMAND_BYTES, COMMAND_TYPE
from edgeagent.contracts.door import Contract, decode
from edgeagent.contracts.order import ORDER_BYTES, ORDER_TYPE
from edgeagent.contracts.scalars import (
    Base64,
    DeviceIdField,
    EpochField,
    HubIdField,
    KeyIdField,
    PublicKeyHex,
    Timestamp,
)

FILE: Final = Path(__file__).with_name("envelopes.json")
_FILE_BYTES: Final = 1024 * 1024


class Stage(StrEnum):
    """How far an envelope comes."""

    ENVELOPE = "envelope"
    """It says nothing that anybody known has signed."""
    COMMAND = "command"
    """Somebody known has signed it, and it is no command."""
    GATE = "gate"
    """It is a command; the gate has judged it."""


class Kind(StrEnum):
    """What an envelope is to be."""

    COMMAND = "command"
    """A command."""
    ORDER = "order"
    """An order to stop or resume a kind of command."""


TYPES: Final[Mapping[Kind, tuple[str, int]]] = MappingProxyType(
    {Kind.COMMAND: (COMMAND_TYPE, COMMAND_BYTES), Kind.ORDER: (ORDER_TYPE, ORDER_BYTES)}
)
"""The payload type of each kind, and the most bytes of an envelope around one."""


class Vector(Contract):
    """One envelope and its answer.

    Attributes:
        name: unique, for people and test reports.
        why: what is special about it.
        kind: as what it comes.
        policy: by which it is judged, by name; its keys are those whose word counts.
        hub: whom it comes to.
        epoch: of that hub.
        time: what that hub takes for the time.
        error: how far that may be off, in milliseconds; absent when the hub does not know.
        device: the one of its devices that the answer is for; absent where it has but one.
        stage: how far it comes.
        answer: what the hub says.
        reason: why; absent when it is accepted.
        last: of an order: the sequence of the last word on its kind; absent for none.
        spaces: how many spaces follow the envelope's bytes.
        envelope: its bytes, in base64.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,64}$")]
    why: str
    kind: Kind = Field(default=Kind.COMMAND, strict=False)
    policy: str
    hub: HubIdField
    epoch: EpochField
    time: Timestamp
    error: Annotated[int, Field(ge=0)] | None = None
    device: DeviceIdField | None = None
    stage: Stage = Field(strict=False)
    answer: Literal["accepted", "held", "refused"]
    reason: str | None = None
    last: Annotated[int, Field(ge=1, lt=2**63)] | None = None
    spaces: Annotated[int, Field(ge=0)] = 0
    envelope: Base64

    @property
    def raw(self) -> bytes:
        """The bytes as they come."""
        return self.envelope + b" " * self.spaces


class Terms(Contract):
    """A policy by which vectors are judged.

    Attributes:
        keys: for each kind the public keys whose signature counts, by their id.
        document: the policy's payload.
    """

    keys: dict[Annotated[Kind, Field(strict=False)], dict[KeyIdField, PublicKeyHex]]
    document: dict[str, JsonValue]


class Vectors(Contract):
    """The whole file."""

    policies: dict[str, Terms]
    vectors: list[Vector]


def load() -> Vectors:
    """Read the file."""
    return decode(Vectors, FILE.read_bytes(), limit=_FILE_BYTES)
