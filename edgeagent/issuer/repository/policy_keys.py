"""Keys and artifacts within a policy: another one for a name, or none any more.

The policy that is in force is changed and nothing else in it; its version grows by one. The key that goes
is put on the folder's list first, so that no policy written from an older file brings it back.
"""

from datetime import datetime

from edgeagent.contracts.door import decode, encode
from edgeagent.contracts.policy import POLICY_BYTES, Policy, RoleKind, id_of_key
from edgeagent.errors import RejectedError
from edgeagent.ids import ArtifactId, Digest

_SHORTEST_ID = 8


def key_named(policy: Policy, text: str) -> str | None:
    """Whom somebody means by a name, or by the first 8 or more signs of a key's id; None for nobody."""
    if text in policy.keys:
        return text
    fitting = [
        name
        for name, public in policy.keys.items()
        if len(text) >= _SHORTEST_ID and id_of_key(bytes.fromhex(public)).startswith(text.lower())
    ]
    return fitting[0] if len(fitting) == 1 else None


def with_key(policy: Policy, name: str, public: bytes, *, now: datetime) -> Policy:
    """The next policy, in which a name stands for another key.

    Raises:
        MalformedError: the policy would contradict itself; the key has another name, for one.
        RejectedError: the policy's own time is over.
    """
    return _following(policy, now, keys={**policy.keys, name: public.hex()})


def without_key(policy: Policy, name: str, *, now: datetime) -> Policy:
    """The next policy, in which nobody has this name; nor is there a role that only it held.

    Raises:
        RejectedError: the policy's own time is over.
    """
    keys = {one: key for one, key in policy.keys.items() if one != name}
    roles = {
        one: role.model_copy(update={"keys": role.keys - {name}})
        for one, role in policy.roles.items()
        if role.kind is RoleKind.LOCAL_OPERATOR or role.keys != {name}
    }
    bans = policy.bans.model_copy(update={"keys": policy.bans.keys - {name}})
    return _following(policy, now, keys=keys, roles=roles, bans=bans)


def with_artifact(policy: Policy, artifact: ArtifactId, sha256: Digest, *, now: datetime) -> Policy:
    """The next policy, by which a file may be installed as an artifact. Raises as ``with_key``."""
    approved = policy.artifacts.get(artifact, frozenset()) | {sha256}
    return _following(policy, now, artifacts={**policy.artifacts, artifact: approved})


def without_artifact(policy: Policy, artifact: ArtifactId, *, now: datetime) -> Policy:
    """The next policy, by which nothing may be installed as an artifact. Raises as ``without_key``."""
    left = {name: files for name, files in policy.artifacts.items() if name != artifact}
    return _following(policy, now, artifacts=left)


def lost_roles(old: Policy, new: Policy) -> list[str]:
    """Roles that are in the old policy only."""
    return sorted(old.roles.keys() - new.roles.keys())


def _following(policy: Policy, now: datetime, **changes: object) -> Policy:
    if policy.expires_at <= now:
        raise RejectedError("the policy's own time is over; publish another one")
    changed = policy.model_copy(update={"version": policy.version + 1, "issued_at": now, **changes})
    # A copy is not checked; what is read back is.
    return decode(Policy, encode(changed), limit=2 * POLICY_BYTES)
