"""The repository as it verifies: from the first root on, every signature, version, length and digest.

What is written next rests on what stands here, so nothing is built on a file that was not verified. The
order is that of a client (TUF specification 1.0, section 5); expiry is no fault here, since whoever renews
what has expired has to read it first: ``lifetimes`` tells of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import datetime
from hashlib import sha256
from typing import Final, TypeVar

from tuf.api.exceptions import RepositoryError
from tuf.api.metadata import DelegatedRole, Metadata, Root, Snapshot, TargetFile, Targets, Timestamp
from tuf.api.serialization import DeserializationError

from edgeagent.contracts.artifact import GROUP_FACTS, GroupFacts, group_of_role, role_of_group
from edgeagent.contracts.door import decode
from edgeagent.contracts.policy import POLICY_BYTES, Policy
from edgeagent.core.catalogue import Artifact, Listing, Signed, artifact_of, group_facts_of, sound
from edgeagent.errors import MalformedError, RejectedError
from edgeagent.ids import ArtifactId
from edgeagent.issuer.repository.files import (
    POLICY_TARGET,
    TIMESTAMP,
    MissingFileError,
    RepositoryFiles,
)
from edgeagent.values import dataclass

S = TypeVar("S", Root, Timestamp, Snapshot, Targets)

_MOST_ROOTS: Final = 10_000


class DamagedRepositoryError(RejectedError):
    """The repository does not verify; the message names the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusted:
    """What the repository says, verified.

    Attributes:
        root: the newest; who may sign what.
        timestamp: which snapshot is in force.
        snapshot: which targets are.
        targets: which policy is.
        policy: that policy.
        delegated: what signs for artifacts, by role.
    """

    root: Metadata[Root]
    timestamp: Metadata[Timestamp]
    snapshot: Metadata[Snapshot]
    targets: Metadata[Targets]
    policy: Policy
    delegated: Mapping[str, Metadata[Targets]] = field(default_factory=dict)

    @property
    def artifacts(self) -> Mapping[ArtifactId, Artifact]:
        """What is signed for, by its id.

        Raises:
            RejectedError: one is no artifact, two roles sign for it, or a group signs for too many.
        """
        groups = {group_of_role(role): self._signed_by(role) for role in self.delegated}
        return sound(Listing(groups)).listed

    def devices_of(self, group: str) -> GroupFacts:
        """For which devices a group may sign.

        Raises:
            MalformedError: nobody says.
        """
        role = roles_of(self.targets.signed)[role_of_group(group)]
        return group_facts_of(group, role.unrecognized_fields.get(GROUP_FACTS))

    def _signed_by(self, role: str) -> list[Artifact]:
        targets = self.delegated[role].signed
        signed = Signed(group=group_of_role(role), version=targets.version, until=targets.expires)
        devices = self.devices_of(signed.group)
        return [
            artifact_of(signed, devices, path, target.length, target.hashes, target.custom)
            for path, target in targets.targets.items()
        ]

    @property
    def expiries(self) -> dict[str, datetime]:
        """Until when each part may be used, by its name."""
        return {
            "root": self.root.signed.expires,
            "targets": self.targets.signed.expires,
            "snapshot": self.snapshot.signed.expires,
            "timestamp": self.timestamp.signed.expires,
            "policy": self.policy.expires_at,
            **{role: signed.signed.expires for role, signed in self.delegated.items()},
        }


def read_trusted(files: RepositoryFiles) -> Trusted:
    """Read and verify a repository.

    Raises:
        DamagedRepositoryError: something is missing or does not verify.
        ConfigurationError: a file cannot be read.
    """
    root = read_root(files)
    timestamp = _signed_by(root, "timestamp", files, TIMESTAMP, Timestamp)
    of_snapshot = timestamp.signed.snapshot_meta
    name = f"{of_snapshot.version}.snapshot.json"
    snapshot = _signed_by(root, "snapshot", files, name, Snapshot)
    _check(name, of_snapshot.verify_length_and_hashes, files.metadata(name))
    _check_version(name, snapshot, of_snapshot.version)
    of_targets = snapshot.signed.meta.get("targets.json")
    if of_targets is None:
        raise DamagedRepositoryError(f"{name}: it names no targets")
    name = f"{of_targets.version}.targets.json"
    targets = _signed_by(root, "targets", files, name, Targets)
    _check(name, of_targets.verify_length_and_hashes, files.metadata(name))
    _check_version(name, targets, of_targets.version)
    policy = _policy(files, targets.signed.targets.get(POLICY_TARGET), name)
    delegated = {role: _delegated(files, role, targets, snapshot) for role in roles_of(targets.signed)}
    return Trusted(
        root=root,
        timestamp=timestamp,
        snapshot=snapshot,
        targets=targets,
        policy=policy,
        delegated=delegated,
    )


def roles_of(targets: Targets) -> Mapping[str, DelegatedRole]:
    """The roles that sign for artifacts."""
    roles = None if targets.delegations is None else targets.delegations.roles
    return {} if roles is None else roles


def _delegated(
    files: RepositoryFiles, role: str, targets: Metadata[Targets], snapshot: Metadata[Snapshot]
) -> Metadata[Targets]:
    meta = snapshot.signed.meta.get(f"{role}.json")
    if meta is None:
        raise DamagedRepositoryError(f"{snapshot.signed.version}.snapshot.json: it does not name {role}")
    name = f"{meta.version}.{role}.json"
    metadata = _parsed(files, name, Targets)
    _verify(targets, role, metadata, name)
    _check(name, meta.verify_length_and_hashes, files.metadata(name))
    _check_version(name, metadata, meta.version)
    return metadata


def read_root(files: RepositoryFiles) -> Metadata[Root]:
    """Follow the roots from the first to the newest, each signed by its predecessor's keys and its own.

    Raises:
        DamagedRepositoryError: there is none, or one does not verify.
    """
    root: Metadata[Root] | None = None
    for version in range(1, _MOST_ROOTS):
        name = f"{version}.root.json"
        if not files.has_metadata(name):
            break
        following = _parsed(files, name, Root)
        for signing in (root or following, following):
            _verify(signing, "root", following, name)
        _check_version(name, following, version)
        root = following
    if root is None:
        raise DamagedRepositoryError(f"{files.folder}: there is no repository in it")
    return root


def target_file_name(policy: bytes) -> str:
    """Under which name a policy lies among the targets."""
    return f"{sha256(policy).hexdigest()}.{POLICY_TARGET}"


def _signed_by(
    root: Metadata[Root], role: str, files: RepositoryFiles, name: str, kind: type[S]
) -> Metadata[S]:
    metadata = _parsed(files, name, kind)
    _verify(root, role, metadata, name)
    return metadata


def _parsed(files: RepositoryFiles, name: str, kind: type[S]) -> Metadata[S]:
    try:
        metadata: Metadata[S] = Metadata.from_bytes(files.metadata(name))
    except MissingFileError as why:
        raise DamagedRepositoryError(f"{name} is missing") from why
    except DeserializationError as why:
        raise DamagedRepositoryError(f"{name}: no metadata") from why
    if not isinstance(metadata.signed, kind):
        raise DamagedRepositoryError(f"{name}: metadata of another kind")
    return metadata


def _verify(by: Metadata[Root] | Metadata[Targets], role: str, metadata: Metadata[S], name: str) -> None:
    try:
        by.signed.verify_delegate(role, metadata.signed_bytes, metadata.signatures)
    except (RepositoryError, ValueError) as why:
        raise DamagedRepositoryError(f"{name}: not signed by enough keys of {role}") from why


def _check_version(name: str, metadata: Metadata[S], wanted: int) -> None:
    if metadata.signed.version != wanted:
        raise DamagedRepositoryError(f"{name}: it says of itself to be version {metadata.signed.version}")


def _check(name: str, verify: Callable[[bytes], None], content: bytes) -> None:
    try:
        verify(content)
    except RepositoryError as why:
        raise DamagedRepositoryError(f"{name}: not the bytes that are signed for") from why


def _policy(files: RepositoryFiles, target: TargetFile | None, named_in: str) -> Policy:
    if target is None or "sha256" not in target.hashes:
        raise DamagedRepositoryError(f"{named_in}: it names no {POLICY_TARGET}")
    name = f"{target.hashes['sha256']}.{POLICY_TARGET}"
    try:
        content = files.target(name)
        _check(name, target.verify_length_and_hashes, content)
        return decode(Policy, content, limit=POLICY_BYTES)
    except MissingFileError as why:
        raise DamagedRepositoryError(f"{name} is missing") from why
    except MalformedError as why:
        raise DamagedRepositoryError(f"{name}: {why}") from why
