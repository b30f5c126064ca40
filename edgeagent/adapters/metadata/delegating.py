"""Delegated roles, verified: who signs for artifacts, and what they sign for.

The top-level targets name a role for each group of models: ``artifacts-<group>``, for ``artifacts/<group>/*``
alone, terminating (TUF 1.0, 4.5). Other delegations are none of ours, and a repository that has them is not
taken: they would be a second way to the same files. On top of the client workflow (5.6.7): no role counts one
key under two ids, none goes below the version that is held or signs another of that version, unless its keys
were replaced; and no role delegates further.
"""

from collections.abc import Mapping
from datetime import UTC
from typing import Final

from tuf.api import exceptions
from tuf.api.metadata import DelegatedRole, Key, Targets
from tuf.api.metadata import Metadata as SignedMetadata

from edgeagent.contracts.artifact import MOST_GROUPS, group_of_role, paths_of_group
from edgeagent.core.catalogue import Artifact, Signed, artifact_of, listing
from edgeagent.errors import RejectedError
from edgeagent.ports.policy_source import Listing

ALL_BYTES: Final = 4 * 1024 * 1024
"""The most bytes of all delegated roles' metadata together."""


def roles_of(targets: Targets) -> Mapping[str, DelegatedRole]:
    """The roles to which the top-level targets delegate.

    Raises:
        RepositoryError: one is none for artifacts.
    """
    delegations = targets.delegations
    if delegations is None:
        return {}
    roles = delegations.roles
    if roles is None:
        raise exceptions.RepositoryError("delegations to hash bins are not taken")
    if len(roles) > MOST_GROUPS:
        raise exceptions.RepositoryError(f"{len(roles)} delegations, of which {MOST_GROUPS} are allowed")
    for name, role in roles.items():
        _check_role(name, role)
        check_keys(name, role.keyids, delegations.keys)
    return roles


def check_keys(name: str, keyids: list[str], keys: Mapping[str, Key]) -> None:
    """Hold a role to keys that are different ones.

    Raises:
        RepositoryError: it counts one key under two ids.
    """
    held = [keys[key].keyval.get("public") for key in keyids if key in keys]
    if len(set(held)) != len(held):
        raise exceptions.RepositoryError(f"role {name} counts one key under two ids")


def listing_of(
    targets: Targets, delegated: Mapping[str, tuple[Targets, bytes]], held: Mapping[str, bytes]
) -> Listing:
    """What verified metadata of all delegated roles list.

    Args:
        targets: the top-level ones.
        delegated: each role's, with the bytes that were signed.
        held: the bytes that were taken last.

    Raises:
        RepositoryError: a role goes back, or signs for what is not its own.
        RejectedError: an artifact is none, or two roles sign for it.
    """
    if sum(len(raw) for _, raw in delegated.values()) > ALL_BYTES:
        raise exceptions.RepositoryError(f"more than {ALL_BYTES} bytes of metadata of artifacts")
    artifacts: list[Artifact] = []
    anew: set[str] = set()
    for name, (signed, raw) in sorted(delegated.items()):
        before = held.get(name)
        if before is not None and not _stands(targets, name, before):
            anew.add(group_of_role(name))
        elif before is not None:
            _check_mark(name, signed, raw, before)
        artifacts += artifacts_of(name, signed)
    return Listing(artifacts=listing(artifacts), anew=frozenset(anew))


def artifacts_of(name: str, targets: Targets) -> list[Artifact]:
    """What the metadata of one role list.

    Raises:
        RepositoryError: they delegate further.
        RejectedError: one is no artifact, or not of that role.
    """
    if targets.delegations is not None:
        raise exceptions.RepositoryError(f"role {name} delegates further")
    signed = Signed(group=group_of_role(name), version=targets.version, until=targets.expires.astimezone(UTC))
    return [
        artifact_of(signed, path, target.length, target.hashes, target.custom)
        for path, target in targets.targets.items()
    ]


def _check_role(name: str, role: DelegatedRole) -> None:
    try:
        wanted = paths_of_group(group_of_role(name))
    except RejectedError as why:
        raise exceptions.RepositoryError(str(why)) from why
    if role.paths != [wanted] or role.path_hash_prefixes is not None or not role.terminating:
        raise exceptions.RepositoryError(f"role {name} is for {wanted} alone, and terminating")


def _check_mark(name: str, new: Targets, raw: bytes, before: bytes) -> None:
    least = SignedMetadata.from_bytes(before).signed.version
    if new.version < least:
        raise exceptions.BadVersionNumberError(f"{name} {new.version} is older than {least}")
    if new.version == least and raw != before:
        raise exceptions.RepositoryError(f"{name} {new.version} is signed with two contents")


def _stands(targets: Targets, name: str, raw: bytes) -> bool:
    """Whether the keys that a role has now have signed these bytes."""
    try:
        signed: SignedMetadata[Targets] = SignedMetadata.from_bytes(raw)
        targets.verify_delegate(name, signed.signed_bytes, signed.signatures)
    except (exceptions.RepositoryError, ValueError):
        return False
    return True
