"""The artifacts that a hub knows of: what is signed for, what was revoked, what of it is here."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from edgeagent.contracts.artifact import ArtifactFacts
from edgeagent.contracts.door import Contract
from edgeagent.contracts.scalars import ArtifactIdField, DigestField, Timestamp


class Standing(StrEnum):
    """Whether an artifact may be installed, wherever it fits."""

    RELEASED = "released"
    """It is signed for, and the policy lists it."""
    SIGNED = "signed"
    """It is signed for; the policy does not list it."""
    STALE = "stale"
    """It was signed for; what its group signs now is refused, and nothing of it is installed."""
    ENDED = "ended"
    """The metadata that sign for it are over."""
    REVOKED = "revoked"
    """It was signed for, and is no more."""


class Cached(StrEnum):
    """What of an artifact lies at the hub."""

    ABSENT = "absent"
    """Nothing."""
    WHOLE = "whole"
    """All of it, as it is signed for."""
    DAMAGED = "damaged"
    """Something else than what is signed for: it is not used."""


class ArtifactShown(Contract):
    """An artifact.

    Attributes:
        artifact: its id.
        standing: whether it may be installed.
        sha256: of its bytes.
        length: in bytes.
        group: the group of models whose role signs for it.
        role_version: of that role's metadata.
        until: when these end.
        facts: what is said of it.
        here: whether its file lies at the hub.
    """

    artifact: ArtifactIdField
    standing: Standing = Field(strict=False)
    sha256: DigestField
    length: Annotated[int, Field(ge=1)]
    group: str
    role_version: int
    until: Timestamp
    facts: ArtifactFacts
    here: bool = False


class FloorShown(Contract):
    """No earlier version is installed on a model.

    Attributes:
        group: whose role says so.
        family: the profile's id.
        model: which model; ``*`` for all of the family.
        version: the earliest that is.
    """

    group: str
    family: str
    model: str
    version: str


class ArtifactsShown(Contract):
    """All of them.

    Attributes:
        artifacts: by id.
        floors: which versions are too old.
        problem: why another catalogue, or what a group signs now, was refused; empty for no problem.
    """

    artifacts: list[ArtifactShown]
    floors: list[FloorShown]
    problem: str = ""


class ArtifactVerified(Contract):
    """What of an artifact lies at the hub.

    Attributes:
        artifact: its id.
        cached: whether its file is here and whole.
    """

    artifact: ArtifactIdField
    cached: Cached = Field(strict=False)


class ArtifactsVerified(Contract):
    """Everything looked at anew.

    Attributes:
        artifacts: each that is signed for.
        metadata: why what is stored does not go back to its signatures; empty where it does.
        roles: how many roles sign for artifacts.
    """

    artifacts: list[ArtifactVerified]
    metadata: str = ""
    roles: int

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.metadata and all(one.cached is not Cached.DAMAGED for one in self.artifacts)
