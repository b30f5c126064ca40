"""What whoever builds a file says of it: ``custom`` of a target of The Update Framework (TUF 1.0, 4.5).

An artifact is the target ``artifacts/<group>/<artifact id>`` of the delegated role ``artifacts-<group>``. Its
length and sha256 stand in the target itself; this is the rest. What a file *is* is signed by whoever builds
it; that it may be *used* is said by the policy's ``artifacts``, which others sign. For which devices a group
may sign stands under ``custom`` in its delegation, which the top-level targets sign.
"""

import re
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from edgeagent.contracts.door import Contract
from edgeagent.contracts.scalars import Words
from edgeagent.errors import MalformedError

ARTIFACT_BYTES: Final = 1024 * 1024 * 1024
"""The most bytes of an artifact."""
FACTS_BYTES: Final = 4096
"""The most bytes of what is said of one."""
GROUP_FACTS: Final = "custom"
"""Where in a delegation stands what is said of its group."""
GROUP_FACTS_BYTES: Final = 16 * 1024
"""The most bytes of that."""
MOST_GROUPS: Final = 32
"""The most groups of models in one repository."""
MOST_ARTIFACTS: Final = 128
"""The most artifacts of a group: no builder takes the room of another."""
GROUP_BYTES: Final = 256 * 1024
"""The most bytes of the metadata of a group's role."""

_GROUP: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)
_ROLE: Final = "artifacts-"
_FOLDER: Final = "artifacts/"

Version = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+/()-]{0,63}$")]
"""A version as the device itself tells it."""
Family = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
"""The id of a device profile."""
_Names = Annotated[frozenset[Words], Field(max_length=64)]
Models = Annotated[_Names, Field(min_length=1)] | Literal["*"]
"""Which models of a family, as the devices tell them; ``*`` for all."""


class ArtifactKind(StrEnum):
    """What a file is."""

    FIRMWARE = "firmware"
    """It takes the place of what the device runs."""


class ArtifactFacts(Contract):
    """What is said of an artifact.

    Attributes:
        family: the id of the profile of the devices that it is for.
        kind: what it is.
        models: for which models, as the devices tell them; ``*`` for all of the family.
        hardware: for which revisions of the hardware; every one if empty.
        version: what the device tells once it runs.
        floor: no earlier version is installed on these models any more.
        unpacked_bytes: how much room it takes on the device.
        notes: for people.
        security: whether it mends something that can be attacked.
    """

    family: Family
    kind: ArtifactKind = Field(default=ArtifactKind.FIRMWARE, strict=False)
    models: Models
    hardware: _Names = frozenset()
    version: Version
    floor: Version | None = None
    unpacked_bytes: Annotated[int, Field(ge=1, lt=2**53)] | None = None
    notes: Words | None = None
    security: bool = False


class GroupFacts(Contract):
    """For which devices a group may sign.

    Attributes:
        families: the ids of their profiles, and which models of each.
    """

    families: Annotated[dict[Family, Models], Field(min_length=1, max_length=16)]

    def covers(self, artifact: ArtifactFacts) -> bool:
        """Whether all devices that an artifact is for are among them."""
        models = self.families.get(artifact.family)
        if models is None or models == "*":
            return models is not None
        return artifact.models != "*" and artifact.models <= models


def group_name(text: str) -> str:
    """Check the name of a group of models.

    Raises:
        MalformedError: it is none.
    """
    if _GROUP.fullmatch(text) is None:
        raise MalformedError(f"not a group of models: {text[:64]!r}; 1 to 32 of a-z 0-9 _ -")
    return text


def role_of_group(group: str) -> str:
    """The delegated role that signs for a group of models."""
    return f"{_ROLE}{group_name(group)}"


def group_of_role(role: str) -> str:
    """The group of models that a delegated role signs for.

    Raises:
        MalformedError: it signs for none.
    """
    if not role.startswith(_ROLE):
        raise MalformedError(f"not a role for artifacts: {role[:64]!r}")
    return group_name(role.removeprefix(_ROLE))


def paths_of_group(group: str) -> str:
    """The only paths that a group's role may sign for (TUF 4.5: no ``*`` goes beyond a ``/``)."""
    return f"{_FOLDER}{group_name(group)}/*"


def path_of_artifact(group: str, artifact: str) -> str:
    """The path of an artifact among the targets."""
    return f"{_FOLDER}{group_name(group)}/{artifact}"
