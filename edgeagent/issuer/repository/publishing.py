"""Publishing: a new policy, a renewed timestamp, other keys; each so that any reader sees old or new.

    policy file > N.artifacts-….json > N.targets.json > N.snapshot.json > timestamp.json

The timestamp is written last and is the only file that is replaced. A root is in force as soon as it is
there, before any timestamp. So keys of a role change in three steps: a root that lists the old and the new
key, everything signed by both, a root that lists the new one only. After a crash anywhere a reader finds a
repository that verifies, and the same change made again completes it.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from tuf.api.metadata import Delegations, Root, Snapshot, Targets, Timestamp

from edgeagent.clock import Clock
from edgeagent.contracts.artifact import GROUP_BYTES
from edgeagent.contracts.door import encode
from edgeagent.contracts.policy import POLICY_BYTES, Policy, id_of_key
from edgeagent.core.envelope import Signer
from edgeagent.errors import MalformedError, RejectedError
from edgeagent.issuer.repository.files import TIMESTAMP
from edgeagent.issuer.repository.folder import IssuerFolder, tuf_key
from edgeagent.issuer.repository.signing import (
    Lifetimes,
    MissingKeysError,
    following,
    meta_file,
    root_signers,
    signed_by,
    signers_for,
    signers_of,
    targets_of,
)
from edgeagent.issuer.repository.trusted import Trusted, read_trusted, target_file_name

KEPT_SNAPSHOTS: Final = 30
"""How many earlier snapshots stay for readers in the middle."""
ONLINE_ROLES: Final = ("snapshot", "timestamp")
"""The roles of the online key."""

_SignersOf = Callable[[str], Sequence[Signer]]
_Parts = Sequence[tuple[str, bytes]]


class Publisher:
    """Changes the repository of one folder. Whoever calls it holds the folder's lock."""

    def __init__(self, folder: IssuerFolder, clock: Clock, lifetimes: Lifetimes) -> None:
        self._folder = folder
        self._files = folder.files
        self._clock = clock
        self._lifetimes = lifetimes

    def read(self) -> Trusted:
        """What is there. Raises as ``read_trusted``."""
        return read_trusted(self._files)

    def found(self, root: Root, policy: Policy) -> Trusted:
        """Write the first root and the first policy.

        Raises:
            MissingKeysError: not every key is at hand.
            MalformedError: the policy is larger than hubs take.
            ConfigurationError: there is a repository, or the disk does not take it.
        """
        content = _policy_bytes(policy)
        self._files.make()
        root.expires = self._end(self._lifetimes.root)
        self._put_root(root, signers_for(root, "root", self._folder.signer))
        targets = targets_of(Targets(version=1, expires=self._end(self._lifetimes.targets)), content)
        snapshot = Snapshot(version=1, expires=self._end(self._lifetimes.online))
        timestamp = Timestamp(version=1, expires=self._end(self._lifetimes.online))
        parts = _signed_parts(targets, snapshot, timestamp, self._by(root))
        self._files.write_target(target_file_name(content), content)
        self._put(parts)
        return self.read()

    def publish(self, policy: Policy) -> Trusted:
        """Put another policy in force.

        Raises:
            RejectedError: its version does not grow, or it lists a key that was revoked.
            MalformedError: it is larger than hubs take.
            MissingKeysError: not every key is at hand.
            DamagedRepositoryError: what is there does not verify.
            ConfigurationError: the disk does not take it; the old policy is in force.
        """
        return self.put(self.read(), policy=policy)

    def put(
        self,
        trusted: Trusted,
        *,
        policy: Policy | None = None,
        delegations: Delegations | None = None,
        delegated: Mapping[str, Targets] = MappingProxyType({}),
        first: Callable[[], None] | None = None,
    ) -> Trusted:
        """Publish what has changed, all of it at once.

        Args:
            trusted: what is there.
            policy: another one.
            delegations: who signs for artifacts from now on.
            delegated: what they sign, by role; each is the next version of its own.
            first: puts in place what is signed for, once all is signed.

        Raises: as ``publish``.
        """
        content = None if policy is None else self._next_policy(trusted, policy)
        targets = None
        if content is not None or delegations is not None:
            targets = self._next(trusted.targets.signed)
            targets.delegations = delegations or targets.delegations
        if content is not None and targets is not None:
            targets_of(targets, content)
        # Signed before anything is written: a key that is not at hand leaves all as it was.
        by = self._by(trusted.root.signed, delegations or trusted.targets.signed.delegations)
        parts = self._next_parts(trusted, targets, by, delegated)
        if first is not None:
            first()
        if content is not None:
            self._files.write_target(target_file_name(content), content)
        self._put(parts)
        return self.read()

    def _next_policy(self, trusted: Trusted, policy: Policy) -> bytes:
        if policy.version <= trusted.policy.version:
            raise RejectedError(
                f"version: {policy.version} does not follow {trusted.policy.version}, which is in force"
            )
        revoked = self._folder.revoked()
        for name, key in policy.keys.items():
            if id_of_key(bytes.fromhex(key)) in revoked:
                raise RejectedError(f"keys.{name}: this key was revoked; give {name} a new one")
        return _policy_bytes(policy)

    def refresh(self) -> Trusted:
        """Renew snapshot and timestamp, by the online key alone. Raises as ``publish``."""
        trusted = self.read()
        self._put(self._next_parts(trusted, None, self._by(trusted.root.signed)))
        renewed = self.read()
        self._files.forget_snapshots(before=renewed.snapshot.signed.version - KEPT_SNAPSHOTS)
        return renewed

    def renew(self) -> Trusted:
        """Renew the root and the signature on the policy too, by the offline keys. Raises as ``publish``.

        What others sign for artifacts is renewed where their keys are at hand.
        """
        trusted = self.read()
        root = self._next_root(trusted.root.signed)
        targets = self._next(trusted.targets.signed)
        by = self._by(root, targets.delegations)
        delegated = {
            role: self.following(signed.signed)
            for role, signed in trusted.delegated.items()
            if _is_at_hand(role, by)
        }
        parts = self._next_parts(trusted, targets, by, delegated)
        self._put_root(root, root_signers(trusted.root.signed, root, self._folder.signer))
        self._put(parts)
        return self.read()

    def replace_root_keys(self, *, add: Sequence[bytes], remove: Sequence[str]) -> Trusted:
        """Change who signs roots: one new root, signed by enough of the old and of the new keys.

        Args:
            add: public keys.
            remove: keys by their ids in metadata.

        Raises:
            RejectedError: fewer keys than the threshold would be left.
            MissingKeysError: not enough are at hand.
            DamagedRepositoryError: what is there does not verify.
            ConfigurationError: the disk does not take it; the old root is in force.
        """
        trusted = self.read()
        root = self._next_root(trusted.root.signed)
        for public in add:
            root.add_key(tuf_key(public), "root")
        for keyid in remove:
            root.revoke_key(keyid, "root")
        role = root.roles["root"]
        if len(role.keyids) < role.threshold:
            raise RejectedError(
                f"{role.threshold} root keys are needed: rotate this one, which gives it a successor"
            )
        self._put_root(root, root_signers(trusted.root.signed, root, self._folder.signer))
        return self.read()

    def replace_role_key(self, roles: Sequence[str], new: Signer) -> Trusted:
        """Give roles other than root a new key in place of all that they have. Raises as ``publish``."""
        trusted = self.read()
        both = self._next_root(trusted.root.signed)
        earlier = sorted({keyid for role in roles for keyid in both.roles[role].keyids})
        for role in roles:
            both.add_key(tuf_key(new.public), role)

        def by(role: str) -> list[Signer]:
            if role not in roles:
                return signers_for(both, role, self._folder.signer)
            # The earlier one is for readers that have not seen this root; it may be lost.
            return [new, *(one for keyid in earlier if (one := self._folder.signer(keyid)) is not None)]

        targets = self._next(trusted.targets.signed) if "targets" in roles else None
        parts = self._next_parts(trusted, targets, by)
        last = self._next_root(both)
        for role in roles:
            for keyid in [one for one in last.roles[role].keyids if one != tuf_key(new.public).keyid]:
                last.revoke_key(keyid, role)
        self._put_root(both, root_signers(trusted.root.signed, both, self._folder.signer))
        self._put(parts)
        self._put_root(last, root_signers(both, last, self._folder.signer))
        return self.read()

    def following(self, targets: Targets) -> Targets:
        """The next version of what a role signs, to be changed further.

        Raises:
            MalformedError: it would end beyond the calendar.
        """
        return self._next(targets)

    def first(self) -> Targets:
        """The first of what a role signs: nothing. Raises as ``following``."""
        return Targets(version=1, expires=self._end(self._lifetimes.targets))

    def _by(self, root: Root, delegations: Delegations | None = None) -> _SignersOf:
        roles = {} if delegations is None or delegations.roles is None else delegations.roles

        def by(role: str) -> Sequence[Signer]:
            if role in roles:
                return signers_of(roles[role], role, self._folder.signer)
            return signers_for(root, role, self._folder.signer)

        return by

    def _next_parts(
        self,
        trusted: Trusted,
        targets: Targets | None,
        by: _SignersOf,
        delegated: Mapping[str, Targets] = MappingProxyType({}),
    ) -> _Parts:
        """What follows what is there; the targets stay where there are no others."""
        snapshot = following(trusted.snapshot.signed, expires=self._end(self._lifetimes.online))
        timestamp = following(trusted.timestamp.signed, expires=self._end(self._lifetimes.online))
        signed = [(role, one, by(role)) for role, one in delegated.items()]
        return [*_delegated_parts(signed, snapshot), *_signed_parts(targets, snapshot, timestamp, by)]

    def _put(self, parts: _Parts) -> None:
        for name, content in parts:
            self._files.write_metadata(name, content)

    def _put_root(self, root: Root, signers: Sequence[Signer]) -> None:
        self._files.write_metadata(f"{root.version}.root.json", signed_by(root, signers))

    def _next_root(self, root: Root) -> Root:
        return following(root, expires=self._end(self._lifetimes.root))

    def _next(self, targets: Targets) -> Targets:
        return following(targets, expires=self._end(self._lifetimes.targets))

    def _end(self, length: timedelta) -> datetime:
        try:
            return (self._clock.wall().best + length).replace(microsecond=0)
        except OverflowError as why:
            raise MalformedError("a lifetime ends beyond the end of the calendar") from why


def _signed_parts(
    targets: Targets | None, snapshot: Snapshot, timestamp: Timestamp, by: _SignersOf
) -> _Parts:
    """Each part's name and bytes, in the order in which they are written."""
    parts: list[tuple[str, bytes]] = []
    if targets is not None:
        content = signed_by(targets, by("targets"))
        snapshot.meta["targets.json"] = meta_file(targets.version, content)
        parts.append((f"{targets.version}.targets.json", content))
    content = signed_by(snapshot, by("snapshot"))
    timestamp.snapshot_meta = meta_file(snapshot.version, content)
    parts.append((f"{snapshot.version}.snapshot.json", content))
    parts.append((TIMESTAMP, signed_by(timestamp, by("timestamp"))))
    return parts


def _delegated_parts(signed: Sequence[tuple[str, Targets, Sequence[Signer]]], snapshot: Snapshot) -> _Parts:
    """What signs for artifacts: each role's name and bytes; the snapshot names them from now on."""
    parts: list[tuple[str, bytes]] = []
    for role, targets, signers in signed:
        content = signed_by(targets, signers)
        if len(content) > GROUP_BYTES:
            raise RejectedError(
                f"{role}: {len(content)} bytes of metadata, of which {GROUP_BYTES} are allowed"
            )
        snapshot.meta[f"{role}.json"] = meta_file(targets.version, content)
        parts.append((f"{targets.version}.{role}.json", content))
    return parts


def _is_at_hand(role: str, by: _SignersOf) -> bool:
    try:
        by(role)
    except MissingKeysError:
        return False
    return True


def _policy_bytes(policy: Policy) -> bytes:
    content = encode(policy)
    if len(content) > POLICY_BYTES:
        raise MalformedError(f"the policy has {len(content)} bytes, of which {POLICY_BYTES} are allowed")
    return content
