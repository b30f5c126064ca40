"""The catalogue of artifacts, with the metadata that stand behind it.

Owns ``catalogue_roles``, ``artifacts``, ``artifact_floors`` and ``catalogue_problems``. All of it is written
whole, in the commit of the policy that it came with; the daemon judges from here (DESIGN decision 6).
"""

import sqlite3
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from edgeagent.clock import EPOCH
from edgeagent.contracts.artifact import FACTS_BYTES, ArtifactFacts
from edgeagent.contracts.door import decode, encode
from edgeagent.core.catalogue import Artifact, Catalogue, Floor, Signed
from edgeagent.errors import MalformedError
from edgeagent.ids import ArtifactId, artifact_id, digest
from edgeagent.store.database import Snapshot, Transaction

_MICROSECOND: Final = timedelta(microseconds=1)

_CLEAR: Final = (
    "DELETE FROM catalogue_roles",
    "DELETE FROM artifacts",
    "DELETE FROM artifact_floors",
    "DELETE FROM catalogue_problems",
)
_ADD_ROLE: Final = "INSERT INTO catalogue_roles (role, metadata) VALUES (:role, :metadata)"
_ADD: Final = """
INSERT INTO artifacts (artifact, models, role_version, until, sha256, length, facts, is_revoked)
VALUES (:artifact, :models, :role_version, :until, :sha256, :length, :facts, :is_revoked)
"""
_ADD_FLOOR: Final = """
INSERT INTO artifact_floors (models, family, model, version) VALUES (:models, :family, :model, :version)
"""
_ADD_PROBLEM: Final = "INSERT INTO catalogue_problems (about, name, why) VALUES (:about, :name, :why)"
_ROLES: Final = "SELECT role, metadata FROM catalogue_roles ORDER BY role"
_ALL: Final = """
SELECT artifact, models, role_version, until, sha256, length, facts FROM artifacts
 WHERE is_revoked = :is_revoked ORDER BY artifact
"""
_FLOORS: Final = "SELECT models, family, model, version FROM artifact_floors ORDER BY models, family, model"
_DOUBT: Final = """
INSERT INTO catalogue_problems (about, name, why)
SELECT DISTINCT 'group', models, :why FROM artifacts WHERE is_revoked = 0
ON CONFLICT (about, name) DO UPDATE SET why = excluded.why
"""
_PROBLEMS: Final = "SELECT name, why FROM catalogue_problems WHERE about = :about ORDER BY name"


def save(tx: Transaction, catalogue: Catalogue, delegated: Mapping[str, bytes]) -> None:
    """Store a catalogue in place of the one before.

    Args:
        tx: the transaction.
        catalogue: what is known from now on.
        delegated: the metadata behind it, by role.
    """
    for statement in _CLEAR:
        tx.execute(statement)
    tx.execute_many(_ADD_ROLE, [{"role": role, "metadata": raw} for role, raw in delegated.items()])
    of_both = ((catalogue.listed, 0), (catalogue.revoked, 1))
    tx.execute_many(
        _ADD,
        [
            {
                "artifact": artifact.id,
                "models": artifact.signed.group,
                "role_version": artifact.signed.version,
                "until": (artifact.signed.until - EPOCH) // _MICROSECOND,
                "sha256": artifact.sha256,
                "length": artifact.length,
                "facts": encode(artifact.facts),
                "is_revoked": is_revoked,
            }
            for artifacts, is_revoked in of_both
            for artifact in artifacts.values()
        ],
    )
    tx.execute_many(
        _ADD_FLOOR,
        [
            {"models": floor.group, "family": floor.family, "model": floor.model, "version": floor.version}
            for floor in catalogue.floors
        ],
    )
    tx.execute_many(
        _ADD_PROBLEM,
        [
            {"about": about, "name": name, "why": why}
            for about, problems in (("group", catalogue.stale), ("artifact", catalogue.contested))
            for name, why in problems.items()
        ],
    )


def load(db: Snapshot) -> Catalogue:
    """The stored catalogue; an empty one where none was taken.

    Raises:
        MalformedError: a row of it is damaged, or a floor is not there.
    """
    found = _loaded(db)
    if found.lacks_a_floor:
        raise MalformedError("a floor is missing")
    return found


def salvaged(db: Snapshot, why: str) -> Catalogue:
    """What of a damaged catalogue can be read: its floors and what was revoked count, nothing is installed.

    Args:
        db: the store.
        why: what is wrong with it.
    """
    return _loaded(db, skip=True).doubted(why)


def doubt(tx: Transaction, why: str) -> None:
    """Install nothing of what is stored until it is looked at anew: it may be older than what was known."""
    tx.execute(_DOUBT, {"why": why})


def _loaded(db: Snapshot, *, skip: bool = False) -> Catalogue:
    floors = [
        Floor(str(row["models"]), str(row["family"]), str(row["model"]), str(row["version"]))
        for row in db.rows(_FLOORS)
    ]
    told = {} if skip else _problems(db, "artifact")
    contested = {artifact_id(name): why for name, why in told.items()}
    listed, revoked = (_artifacts(db, is_revoked, skip=skip) for is_revoked in (0, 1))
    return Catalogue(listed, revoked, tuple(floors), _problems(db, "group"), contested)


def load_metadata(db: Snapshot) -> dict[str, bytes]:
    """The metadata behind it, by role."""
    return {str(row["role"]): bytes(row["metadata"]) for row in db.rows(_ROLES)}


def _problems(db: Snapshot, about: str) -> dict[str, str]:
    return {str(row["name"]): str(row["why"]) for row in db.rows(_PROBLEMS, {"about": about})}


def _artifacts(db: Snapshot, is_revoked: int, *, skip: bool) -> dict[ArtifactId, Artifact]:
    found = {}
    for row in db.rows(_ALL, {"is_revoked": is_revoked}):
        try:
            artifact = _artifact(row)
        except (MalformedError, OverflowError) as why:
            if not skip:
                raise MalformedError(str(why)) from why
        else:
            found[artifact.id] = artifact
    return found


def _artifact(row: sqlite3.Row) -> Artifact:
    return Artifact(
        id=artifact_id(row["artifact"]),
        sha256=digest(row["sha256"]),
        length=int(row["length"]),
        facts=decode(ArtifactFacts, bytes(row["facts"]), limit=2 * FACTS_BYTES),
        signed=Signed(
            group=str(row["models"]),
            version=int(row["role_version"]),
            until=EPOCH + int(row["until"]) * _MICROSECOND,
        ),
    )
