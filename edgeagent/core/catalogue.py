"""The catalogue: which artifacts are signed for, which were and are no more, and which versions are too old.

What a group signs for is taken whole or not at all, and what is wrong with one group costs no other: while
its metadata are not believed, what it signed for before is known and not installed. One id means one file for
ever: who signs another under an id that was seen contradicts himself. A floor only grows, group by group,
until the group's keys are replaced, which takes back whatever they said (TUF 1.0, 5.3.11).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from typing import Final

from pydantic import JsonValue

from edgeagent.contracts.artifact import (
    ARTIFACT_BYTES,
    FACTS_BYTES,
    GROUP_FACTS_BYTES,
    MOST_ARTIFACTS,
    ArtifactFacts,
    GroupFacts,
    path_of_artifact,
)
from edgeagent.contracts.door import decode
from edgeagent.core.versions import Order, compare, reaches
from edgeagent.errors import MalformedError, RejectedError
from edgeagent.ids import ArtifactId, Digest, artifact_id, digest
from edgeagent.values import dataclass

MOST_REVOKED: Final = 256
"""How many that are signed for no more are remembered of a group, the latest first: a thief could sign for
ever, and takes nothing of the other groups' room."""
MOST_FLOORS: Final = 512
"""How many floors a group may set."""


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


@dataclass(frozen=True, slots=True, order=True)
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
class Listing:
    """What the groups sign for now.

    Attributes:
        groups: the artifacts of each whose metadata verify.
        anew: groups whose keys were replaced, so that what they said before counts no more.
        stale: groups whose metadata do not verify now, and why.
    """

    groups: Mapping[str, Sequence[Artifact]] = field(default_factory=dict)
    anew: frozenset[str] = frozenset()
    stale: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Everything that is known of artifacts.

    Attributes:
        listed: what is signed for now; of a stale group, what was.
        revoked: what was, and is no more.
        floors: which versions are too old.
        stale: groups that are not believed now, and why: nothing of theirs is installed.
        contested: ids to which two groups gave a file at once, and which: they are nobody's.
    """

    listed: Mapping[ArtifactId, Artifact] = field(default_factory=dict)
    revoked: Mapping[ArtifactId, Artifact] = field(default_factory=dict)
    floors: tuple[Floor, ...] = ()
    stale: Mapping[str, str] = field(default_factory=dict)
    contested: Mapping[ArtifactId, str] = field(default_factory=dict)

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with it, in words."""
        stale = (f"{group}: {why}" for group, why in sorted(self.stale.items()))
        return (*stale, *(why for _, why in sorted(self.contested.items())))

    @property
    def lacks_a_floor(self) -> bool:
        """Whether what is listed sets a floor that is not there: one was lost."""
        held = {(floor.group, floor.family, floor.model): floor.version for floor in self.floors}
        for artifact in self.listed.values():
            facts = artifact.facts
            for model in facts.models if facts.floor is not None else ():
                version = held.get((artifact.signed.group, facts.family, model))
                if version is None or not reaches(version, facts.floor or ""):
                    return True
        return False

    def doubted(self, why: str) -> "Catalogue":
        """The same, of which nothing is installed until the groups are looked at anew."""
        groups = {artifact.signed.group for artifact in self.listed.values()}
        return replace(self, stale=dict.fromkeys(groups, why) | dict(self.stale))

    def doubt(self, artifact: Artifact) -> str:
        """Why what signs for an artifact is not believed now; empty where it is."""
        return self.stale.get(artifact.signed.group, "")

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


def group_facts_of(group: str, custom: JsonValue) -> GroupFacts:
    """What a delegation says of its group.

    Raises:
        MalformedError: it does not say for which devices the group may sign.
    """
    try:
        return decode(GroupFacts, json.dumps(custom).encode(), limit=GROUP_FACTS_BYTES)
    except (MalformedError, ValueError) as why:
        raise MalformedError(f"for which devices {group} may sign: {why}") from why


def artifact_of(
    signed: Signed, devices: GroupFacts, path: str, length: int, hashes: Mapping[str, str], custom: JsonValue
) -> Artifact:
    """A target as an artifact.

    Args:
        signed: by which role.
        devices: for which ones that role may sign.
        path: of the target.
        length: in bytes.
        hashes: of its bytes.
        custom: what is said of it.

    Raises:
        MalformedError: it is none, or is for other devices.
    """
    try:
        return Artifact(
            id=_name_in(signed.group, path),
            sha256=_sha256_of(hashes),
            length=_sound_length(length),
            facts=_facts_within(signed.group, devices, custom),
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


def _facts_within(group: str, devices: GroupFacts, custom: JsonValue) -> ArtifactFacts:
    facts = _sound_facts(custom)
    if not devices.covers(facts):
        models = "all models" if facts.models == "*" else ", ".join(sorted(facts.models))
        raise MalformedError(f"{group} may not sign for {models} of {facts.family}")
    return facts


def _sound_facts(custom: JsonValue) -> ArtifactFacts:
    facts = decode(ArtifactFacts, json.dumps(custom).encode(), limit=FACTS_BYTES)
    if facts.floor is not None and not reaches(facts.version, facts.floor):
        raise MalformedError(f"its version {facts.version} is not above its own floor {facts.floor}")
    return facts


def following(old: Catalogue, said: Listing) -> Catalogue:
    """What is known once a new listing is taken, group by group.

    A group that contradicts what is known stays as it was, and becomes stale.

    Args:
        old: what was known.
        said: what is signed for now.
    """
    known = {**old.revoked, **old.listed}
    owners, contested = _owners(known, said.groups)
    groups, floors, stale = {}, list(old.floors), dict(said.stale)
    for group, artifacts in sorted(said.groups.items()):
        mine = [one for one in artifacts if one.id not in contested]
        try:
            _check_own(group, mine, known, owners, said.anew)
            floors = _floors(floors, group, mine, is_anew=group in said.anew)
        except RejectedError as why:
            stale[group] = str(why)
        else:
            groups[group] = mine
    listed = {name: one for name, one in old.listed.items() if one.signed.group in stale}
    listed |= {one.id: one for artifacts in groups.values() for one in artifacts}
    gone = [one for name, one in known.items() if name not in listed]
    return Catalogue(listed, _latest(gone), tuple(sorted(floors)), stale, contested)


def sound(said: Listing) -> Catalogue:
    """What is known by a listing alone, of whoever publishes it himself.

    Raises:
        RejectedError: something is wrong with it.
    """
    found = following(Catalogue(), said)
    for why in found.problems:
        raise RejectedError(why)
    return found


def _owners(
    known: Mapping[ArtifactId, Artifact], groups: Mapping[str, Sequence[Artifact]]
) -> tuple[dict[ArtifactId, str], dict[ArtifactId, str]]:
    """Whose an id is: of several groups, of the one that had it before; else of nobody, which is told."""
    claims: dict[ArtifactId, list[str]] = {}
    for group, artifacts in sorted(groups.items()):
        for artifact in artifacts:
            claims.setdefault(artifact.id, []).append(group)
    owners, contested = {}, {}
    for name, claimants in claims.items():
        before = known.get(name)
        if len(claimants) == 1:
            owners[name] = claimants[0]
        elif before is not None and before.signed.group in claimants:
            owners[name] = before.signed.group
        else:
            contested[name] = _signed_by_both(name, claimants)
    return owners, contested


def _signed_by_both(name: ArtifactId, groups: Iterable[str]) -> str:
    return f"artifact {name} is signed for by {' and by '.join(sorted(groups))}"


def _check_own(
    group: str,
    artifacts: Sequence[Artifact],
    known: Mapping[ArtifactId, Artifact],
    owners: Mapping[ArtifactId, str],
    anew: frozenset[str],
) -> None:
    if len(artifacts) > MOST_ARTIFACTS:
        raise RejectedError(f"{len(artifacts)} artifacts, of which {MOST_ARTIFACTS} are allowed")
    for artifact in artifacts:
        name, before = artifact.id, known.get(artifact.id)
        if owners[name] != group:
            raise EquivocationError(_signed_by_both(name, (group, owners[name])))
        if before is not None and before.signed.group not in anew and not before.is_same_as(artifact):
            raise EquivocationError(f"artifact {name} is another file than it was; a new file has a new id")


def _latest(gone: Iterable[Artifact]) -> dict[ArtifactId, Artifact]:
    """What is remembered of what is signed for no more."""
    kept: dict[ArtifactId, Artifact] = {}
    room: dict[str, int] = {}
    for artifact in sorted(gone, key=lambda one: one.signed.version, reverse=True):
        room[artifact.signed.group] = room.get(artifact.signed.group, MOST_REVOKED) - 1
        if room[artifact.signed.group] >= 0:
            kept[artifact.id] = artifact
    return kept


def _floors(old: Iterable[Floor], group: str, artifacts: Iterable[Artifact], *, is_anew: bool) -> list[Floor]:
    """All floors, once those of a group are set anew or higher."""
    others = [floor for floor in old if floor.group != group]
    own = [] if is_anew else [floor for floor in old if floor.group == group]
    found = {(floor.family, floor.model): floor for floor in own}
    for artifact in sorted(artifacts, key=lambda one: one.id):
        facts = artifact.facts
        for model in sorted(facts.models) if facts.floor is not None else ():
            assert facts.floor is not None  # noqa: S101 - asked in the line above
            new = Floor(group, facts.family, model, facts.floor)
            held = found.setdefault((facts.family, model), new)
            order = compare(new.version, held.version)
            if order is Order.UNKNOWN:
                raise RejectedError(
                    f"artifact {artifact.id}: floor {new.version} cannot be compared with {held.version}"
                )
            if order is Order.NEWER:
                found[facts.family, model] = new
    if len(found) > MOST_FLOORS:
        raise RejectedError(f"{len(found)} floors, of which {MOST_FLOORS} are allowed")
    return [*others, *found.values()]
