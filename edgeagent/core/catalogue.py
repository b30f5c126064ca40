"""The catalogue: which artifacts are signed for, which were and are no more, and which versions are too old.

A catalogue is taken whole or not at all. One id means one file for ever: who signs another under an id that
was seen contradicts himself. A floor only grows, group by group, until the group's keys are replaced, which
takes back whatever they said (TUF 1.0, 5.3.11).
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from pydantic import JsonValue

from edgeagent.contracts.artifact import (
    ARTIFACT_BYTES,
    FACTS_BYTES,
    MOST_ARTIFACTS,
    ArtifactFacts,
    path_of_artifact,
)
from edgeagent.contracts.door import decode
from edgeagent.core.versions import Order, compare, reaches
from edgeagent.errors import MalformedError, RejectedError
from edgeagent.ids import ArtifactId, Digest, artifact_id, digest

MOST_REVOKED: Final = 4096
"""How many that are signed for no more are remembered, the latest first: a thief could sign for ever."""


class EquivocationError(RejectedError):
    """The same id was given to two files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """What a group's role says, as its metadata have it.

    Attributes:
        group: of models.
        version: of the metadata.
        until: when they end.
    """

    group: str
    version: int
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A file that is signed for.

    Attributes:
        id: its name for people and commands.
        sha256: of its bytes.
        length: in bytes.
        facts: what is said of it.
        signed: by which role.
    """

    id: ArtifactId
    sha256: Digest
    length: int
    facts: ArtifactFacts
    signed: Signed

    @property
    def path(self) -> str:
        """Its path among the targets."""
        return path_of_artifact(self.signed.group, self.id)

    def is_same_as(self, other: "Artifact") -> bool:
        """Whether the same is said of the same bytes, by the same group."""
        return (self.id, self.sha256, self.length, self.facts, self.signed.group) == (
            *(other.id, other.sha256, other.length, other.facts),
            other.signed.group,
        )


@dataclass(frozen=True, slots=True)
class Floor:
    """No earlier version of a group's is installed on a model.

    Attributes:
        group: whose role says so; it binds what that group signs for, and no other's.
        family: the profile's id.
        model: which model; ``*`` for all of the family.
        version: the earliest that is.
    """

    group: str
    family: str
    model: str
    version: str


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Everything that is known of artifacts.

    Attributes:
        listed: what is signed for now.
        revoked: what was, and is no more.
        floors: which versions are too old.
    """

    listed: Mapping[ArtifactId, Artifact] = field(default_factory=dict)
    revoked: Mapping[ArtifactId, Artifact] = field(default_factory=dict)
    floors: tuple[Floor, ...] = ()

    def floor_over(self, artifact: Artifact, model: str | None) -> Floor | None:
        """A floor that its version is not certainly above; for a model, or for any that it is made for."""
        facts, said = artifact.facts, (artifact.signed.group, artifact.facts.family)
        for floor in self.floors:
            is_meant = (floor.group, floor.family) == said and (
                floor.model in {"*", model}
                if model is not None
                else "*" in {floor.model, facts.models} or floor.model in facts.models
            )
            if is_meant and not reaches(facts.version, floor.version):
                return floor
        return None


def artifact_of(
    signed: Signed, path: str, length: int, hashes: Mapping[str, str], custom: JsonValue
) -> Artifact:
    """A target as an artifact.

    Raises:
        MalformedError: it is none.
    """
    try:
        return Artifact(
            id=_name_in(signed.group, path),
            sha256=_sha256_of(hashes),
            length=_sound_length(length),
            facts=_sound_facts(custom),
            signed=signed,
        )
    except (MalformedError, ValueError) as why:
        raise MalformedError(f"artifact {path[:100]!a}: {why}") from why


def _name_in(group: str, path: str) -> ArtifactId:
    name = artifact_id(path.rpartition("/")[2])
    if path != path_of_artifact(group, name):
        raise MalformedError(f"the role of {group} does not sign for it")
    return name


def _sha256_of(hashes: Mapping[str, str]) -> Digest:
    if set(hashes) != {"sha256"}:
        raise MalformedError("it is named by its sha256 and nothing else")
    return digest(hashes["sha256"])


def _sound_length(length: int) -> int:
    if not 1 <= length <= ARTIFACT_BYTES:
        raise MalformedError(f"{length} bytes, of which 1 to {ARTIFACT_BYTES} are allowed")
    return length


def _sound_facts(custom: JsonValue) -> ArtifactFacts:
    facts = decode(ArtifactFacts, json.dumps(custom).encode(), limit=FACTS_BYTES)
    if facts.floor is not None and not reaches(facts.version, facts.floor):
        raise MalformedError(f"its version {facts.version} is not above its own floor {facts.floor}")
    return facts


def listing(artifacts: Iterable[Artifact]) -> dict[ArtifactId, Artifact]:
    """Artifacts by their ids.

    Raises:
        RejectedError: two have one id, or there are too many.
    """
    found: dict[ArtifactId, Artifact] = {}
    for artifact in artifacts:
        other = found.setdefault(artifact.id, artifact)
        if other is not artifact:
            raise EquivocationError(
                f"artifact {artifact.id} is signed for by {other.signed.group} and by {artifact.signed.group}"
            )
    if len(found) > MOST_ARTIFACTS:
        raise RejectedError(f"{len(found)} artifacts, of which {MOST_ARTIFACTS} are allowed")
    return found


def following(old: Catalogue, listed: Mapping[ArtifactId, Artifact], *, anew: frozenset[str]) -> Catalogue:
    """What is known once a new listing is taken.

    Args:
        old: what was known.
        listed: what is signed for now.
        anew: groups whose keys were replaced: what they said before counts no more.

    Raises:
        EquivocationError: an id has another file than it had.
        RejectedError: a floor has another shape than the one before.
    """
    kept = {
        name: artifact
        for name, artifact in ({**old.revoked, **old.listed}).items()
        if artifact.signed.group not in anew or name not in listed
    }
    for name, artifact in listed.items():
        before = kept.get(name)
        if before is not None and not before.is_same_as(artifact):
            raise EquivocationError(f"artifact {name} is another file than it was; a new file has a new id")
    gone = sorted(
        (artifact for name, artifact in kept.items() if name not in listed),
        key=lambda one: one.signed.version,
        reverse=True,
    )
    floors = _floors([floor for floor in old.floors if floor.group not in anew], listed.values())
    return Catalogue(listed, {artifact.id: artifact for artifact in gone[:MOST_REVOKED]}, floors)


def _floors(old: Iterable[Floor], artifacts: Iterable[Artifact]) -> tuple[Floor, ...]:
    found = {(floor.group, floor.family, floor.model): floor for floor in old}
    for artifact in sorted(artifacts, key=lambda one: one.id):
        facts, group = artifact.facts, artifact.signed.group
        for model in sorted(facts.models) if facts.floor is not None else ():
            assert facts.floor is not None  # noqa: S101 - asked in the line above
            new = Floor(group, facts.family, model, facts.floor)
            held = found.setdefault((group, facts.family, model), new)
            order = compare(new.version, held.version)
            if order is Order.UNKNOWN:
                raise RejectedError(
                    f"artifact {artifact.id}: floor {new.version} cannot be compared with {held.version}"
                )
            if order is Order.NEWER:
                found[group, facts.family, model] = new
    return tuple(found[key] for key in sorted(found))
