"""Delegated roles, verified: who signs for artifacts, and what they sign for.

The top-level targets name a role for each group of models: ``artifacts-<group>``, for ``artifacts/<group>/*``
alone, terminating (TUF 1.0, 4.5). Other delegations are none of ours, and a repository that has them is not
taken: they would be a second way to the same files. On top of the client workflow (5.6.7): no role counts one
key under two ids, none goes below the version that is held or signs another of that version, unless its keys
were replaced; no role delegates further; and none signs for devices that its delegation does not name. A role
of which that is not true costs its own group alone.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC

from tuf.api import exceptions
from tuf.api.metadata import DelegatedRole, Key, Targets
from tuf.api.metadata import Metadata as SignedMetadata

from edgeagent.contracts.artifact import (
    GROUP_BYTES,
    GROUP_FACTS,
    MOST_GROUPS,
    GroupFacts,
    group_of_role,
    paths_of_group,
)
from edgeagent.core.catalogue import Artifact, Signed, artifact_of, group_facts_of
from edgeagent.errors import RejectedError


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
    return roles


def check_keys(name: str, keyids: list[str], keys: Mapping[str, Key]) -> None:
    """Hold a role to keys that are different ones.

    Raises:
        RepositoryError: it counts one key under two ids.
    """
    held = [keys[key].keyval.get("public") for key in keyids if key in keys]
    if len(set(held)) != len(held):
        raise exceptions.RepositoryError(f"role {name} counts one key under two ids")


def taken(
    targets: Targets, name: str, delegated: tuple[Targets, bytes], before: bytes | None
) -> tuple[Sequence[Artifact], bool]:
    """What verified metadata of one role list.

    Args:
        targets: the top-level ones.
        name: the role's.
        delegated: its metadata, with the bytes that were signed.
        before: the bytes that were taken last; None for none.

    Returns:
        The artifacts, and whether the role's keys were replaced.

    Raises:
        RepositoryError: it goes back, is too much, or counts one key under two ids.
        RejectedError: an artifact is none, or is not its own, or nobody says for which devices it may sign.
    """
    signed, raw = delegated
    if len(raw) > GROUP_BYTES:
        raise exceptions.RepositoryError(f"{len(raw)} bytes of metadata, of which {GROUP_BYTES} are allowed")
    delegations = targets.delegations
    if delegations is None or delegations.roles is None:
        raise exceptions.RepositoryError(f"nobody lets {name} sign")
    role = delegations.roles[name]
    check_keys(name, role.keyids, delegations.keys)
    devices = group_facts_of(group_of_role(name), role.unrecognized_fields.get(GROUP_FACTS))
    is_anew = before is not None and not _stands(targets, name, before)
    if before is not None and not is_anew:
        _check_mark(name, signed, raw, before)
    return artifacts_of(name, signed, devices), is_anew


def artifacts_of(name: str, targets: Targets, devices: GroupFacts) -> list[Artifact]:
    """What the metadata of one role list.

    Raises:
        RepositoryError: they delegate further.
        RejectedError: one is no artifact, or not of that role.
    """
    if targets.delegations is not None:
        raise exceptions.RepositoryError(f"role {name} delegates further")
    signed = Signed(group=group_of_role(name), version=targets.version, until=targets.expires.astimezone(UTC))
    return [
        artifact_of(signed, devices, path, target.length, target.hashes, target.custom)
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
