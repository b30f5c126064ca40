"""Metadata of The Update Framework, verified: bytes in, values out.

The client workflow of the TUF specification (5.3 to 5.7) is that of ``tuf.ngclient``. What is held goes
into a folder of its own for one refresh and is forgotten with it: the marks that stop a rollback are in
the caller's hands, not in files (DESIGN decision 6). The present is the caller's too: metadata have
expired when their end is certainly past.

On top of that workflow: no role counts one key under two ids; no role goes below the version that is held
unless the root has replaced its keys (5.3.11); and the policy is a target of the top-level role itself.

Delegated roles sign for artifacts (``delegating``). Where one of them does not verify, its group is stale and
all else is taken: who builds files keeps neither a policy nor another's files from hubs.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

from tuf.api import exceptions
from tuf.api.metadata import Metadata as SignedMetadata
from tuf.api.metadata import Root, Signed, Snapshot, TargetFile, Targets, Timestamp
from tuf.ngclient import FetcherInterface, Updater, UpdaterConfig
from typing_extensions import override

from edgeagent.adapters.metadata.delegating import check_keys, roles_of, taken
from edgeagent.adapters.metadata.laid import lay_out, trusted_files
from edgeagent.contracts.artifact import GROUP_BYTES, group_of_role
from edgeagent.contracts.door import parse
from edgeagent.contracts.policy import POLICY_BYTES
from edgeagent.core.catalogue import Listing
from edgeagent.errors import MalformedError, RejectedError, StorageError
from edgeagent.ids import Digest
from edgeagent.ports.links import LinkError, Trouble
from edgeagent.ports.policy_source import (
    Held,
    Metadata,
    Published,
    UnprovenMetadataError,
    Versions,
)

POLICY_TARGET: Final = "policy.json"
"""The target's name."""

_LIMITS: Final = UpdaterConfig(
    root_max_length=128 * 1024,
    timestamp_max_length=16 * 1024,
    snapshot_max_length=256 * 1024,
    targets_max_length=1024 * 1024,
)
S = TypeVar("S", Root, Timestamp, Snapshot, Targets)


class Client(Updater):
    """One refresh.

    Args:
        folder: what is trusted already lies here, and what comes to be trusted is laid here.
        reader: reads the repository.
        now: a moment that is certainly past.
        bootstrap: the root that trust begins with.
        places: what the names of metadata and of targets begin with.

    Raises:
        RepositoryError: the root does not verify by itself.
    """

    def __init__(
        self,
        folder: Path,
        reader: FetcherInterface,
        now: datetime,
        bootstrap: bytes,
        places: tuple[str, str] = ("metadata/", "targets/"),
    ) -> None:
        super().__init__(
            str(folder), places[0], None, places[1], fetcher=reader, config=_LIMITS, bootstrap=bootstrap
        )
        # The library knows no other way to say what time it is; tests/adapters/test_metadata_verifying.py
        # holds that it works.
        self._trusted_set.reference_time = now

    @override
    def _load_root(self) -> None:
        # Between the roots and the rest: what such a root would let pass must not come to be trusted.
        super()._load_root()
        _check_keys(self.root)

    @property
    def root(self) -> Root:
        """The root that is trusted now."""
        return self._trusted_set.root

    @property
    def roles(self) -> tuple[Root, Timestamp, Snapshot, Targets]:
        """The roles after a refresh."""
        trusted = self._trusted_set
        return trusted.root, trusted.timestamp, trusted.snapshot, trusted.targets

    def roles_for_artifacts(self) -> list[str]:
        """The delegated roles, after a refresh.

        Raises:
            RepositoryError: one is none for artifacts.
        """
        return sorted(roles_of(self._trusted_set.targets))

    def delegated(self, role: str) -> Targets:
        """The metadata of a delegated role, after a refresh.

        Raises:
            RepositoryError: they do not verify.
            DownloadError: they do not come.
        """
        meta = self._trusted_set.snapshot.meta.get(f"{role}.json")
        if meta is not None and (meta.length or 0) > GROUP_BYTES:
            raise exceptions.RepositoryError(
                f"{meta.length} bytes of metadata, of which {GROUP_BYTES} are allowed"
            )
        # As ``get_targetinfo`` would, for one path after the other.
        return self._load_targets(role, Targets.type)

    def policy_target(self) -> TargetFile:
        """The policy's length and digest, after a refresh.

        Raises:
            RepositoryError: there is none, or it is none that a hub would take.
        """
        target = self._trusted_set.targets.targets.get(POLICY_TARGET)
        if target is None:
            raise exceptions.RepositoryError(f"the targets name no {POLICY_TARGET}")
        if target.length > POLICY_BYTES or set(target.hashes) != {"sha256"}:
            raise exceptions.RepositoryError(
                f"{POLICY_TARGET} has at most {POLICY_BYTES} bytes and is named by its sha256"
            )
        return target


def published(
    reader: FetcherInterface, bootstrap: bytes, held: Held | None, now: datetime, pin: Digest
) -> Published:
    """Verify what a repository publishes.

    Args:
        reader: reads it.
        bootstrap: the root that trust begins with.
        held: what was accepted last.
        now: a moment that is certainly past.
        pin: the digest of the first root, for what has to be held from now on.

    Raises:
        UnprovenMetadataError: it does not verify.
        LinkError: a part of it is not there.
        StorageError: there is no room to work in.
    """
    try:
        with TemporaryDirectory(prefix="edgeagent-policy-") as scratch:
            folder = Path(scratch) / "trusted"
            lay_out(folder, trusted_files(bootstrap, held))
            with _refusals(folder, bootstrap):
                return _published(Client(folder, reader, now, bootstrap), folder, held, pin)
    except OSError as why:
        raise StorageError(f"no room for the policy's metadata: {why.strerror}") from why


def _published(client: Client, folder: Path, held: Held | None, pin: Digest) -> Published:
    client.refresh()
    _check_marks(client, held)
    policy = Path(client.download_target(client.policy_target(), str(folder / "policy"))).read_bytes()
    root, timestamp, snapshot, targets = client.roles
    listing, delegated, problem = _listed(client, folder, {} if held is None else held.metadata.delegated)
    metadata = Metadata(
        delegated=delegated,
        root=(folder / "root.json").read_bytes(),
        timestamp=(folder / "timestamp.json").read_bytes(),
        snapshot=(folder / "snapshot.json").read_bytes(),
        targets=(folder / "targets.json").read_bytes(),
    )
    return Published(
        held=Held(policy=policy, metadata=metadata, pin=pin),
        versions=Versions(
            root=root.version,
            timestamp=timestamp.version,
            snapshot=snapshot.version,
            targets=targets.version,
        ),
        expires_at=min(role.expires for role in (timestamp, snapshot, targets)).astimezone(UTC),
        is_anew=held is not None and not _stands("targets", Targets, held.metadata.targets, root),
        listing=listing,
        listing_problem=problem,
    )


def _listed(
    client: Client, folder: Path, held: Mapping[str, bytes]
) -> tuple[Listing | None, Mapping[str, bytes], str]:
    """The artifacts with the metadata behind them; or what is held of those, and why there are no others."""
    try:
        roles = client.roles_for_artifacts()
    except exceptions.RepositoryError as why:
        return None, held, _said(why)
    groups, anew, stale = {}, set(), {}
    delegated = {role: raw for role, raw in held.items() if role in roles}
    for role in roles:
        group = group_of_role(role)
        try:
            signed, raw = client.delegated(role), (folder / f"{role}.json").read_bytes()
            groups[group], is_anew = taken(client.roles[-1], role, (signed, raw), held.get(role))
        except (exceptions.RepositoryError, exceptions.DownloadError, RejectedError) as why:
            stale[group] = _said(why)
        except OSError:
            raise
        except Exception as why:  # noqa: BLE001 - as for the policy: whatever a library makes of hostile bytes
            stale[group] = f"not metadata: {type(why).__name__}"
        else:
            delegated[role] = raw
            anew |= {group} if is_anew else set()
    return Listing(groups, frozenset(anew), stale), delegated, ""


def check_root(raw: bytes, *, limit: int) -> None:
    """Look whether bytes are a root that verifies by itself.

    Raises:
        MalformedError: they are not.
    """
    parse(raw, limit=limit)
    try:
        read = _read(Root, raw)
        read.signed.verify_delegate("root", read.signed_bytes, read.signatures)
        _check_keys(read.signed)
    except exceptions.RepositoryError as why:
        raise MalformedError(f"not the root of a repository: {_said(why)}") from why


def stands_behind(root: bytes, held: Held) -> bool:
    """Whether a root stands behind a held policy: its targets' keys have signed that very one."""
    try:
        trusted = _read(Root, root)
        if not _stands("targets", Targets, held.metadata.targets, trusted.signed):
            return False
        target = _read(Targets, held.metadata.targets).signed.targets.get(POLICY_TARGET)
    except exceptions.RepositoryError:
        return False
    return target is not None and target.hashes.get("sha256") == sha256(held.policy).hexdigest()


def relisted(held: Held) -> Listing:
    """What held metadata list of artifacts, verified anew from their root on; their end is no matter here.

    Raises:
        UnprovenMetadataError: they do not verify.
    """
    old = held.metadata
    try:
        root, targets = _read(Root, old.root), _read(Targets, old.targets)
        root.signed.verify_delegate("targets", targets.signed_bytes, targets.signatures)
        roles_of(targets.signed)
    except (exceptions.RepositoryError, ValueError) as why:
        raise UnprovenMetadataError(_said(why)) from why
    groups, stale = {}, {}
    for role, raw in old.delegated.items():
        group = group_of_role(role)
        try:
            one = _read(Targets, raw)
            targets.signed.verify_delegate(role, one.signed_bytes, one.signatures)
            groups[group], _ = taken(targets.signed, role, (one.signed, raw), None)
        except (exceptions.RepositoryError, RejectedError, ValueError) as why:
            stale[group] = _said(why)
    return Listing(groups, stale=stale)


@contextmanager
def _refusals(folder: Path, bootstrap: bytes) -> Iterator[None]:
    """Say in our words what the library says in its own."""
    try:
        yield
    except (exceptions.RepositoryError, exceptions.DownloadLengthMismatchError) as why:
        raise UnprovenMetadataError(_said(why), _later_root(folder, bootstrap)) from why
    except exceptions.DownloadError as why:
        raise LinkError(Trouble.UNREACHABLE, _said(why)) from why
    except OSError:
        raise
    except Exception as why:  # whatever a library makes of hostile bytes, they are not metadata
        raise UnprovenMetadataError(f"not metadata: {type(why).__name__}") from why


def _said(why: Exception) -> str:
    """One printable line: names in it may come from somebody else's file."""
    line = " ".join(str(why).split())[:200] or type(why).__name__
    return "".join(letter if letter.isprintable() else "?" for letter in line)


def _later_root(folder: Path, bootstrap: bytes) -> tuple[int, bytes] | None:
    """The root that came to be trusted before something else was refused."""
    try:
        raw = (folder / "root.json").read_bytes()
    except OSError:
        return None
    return None if raw == bootstrap else (_read(Root, raw).signed.version, raw)


def _check_keys(root: Root) -> None:
    for name, role in root.roles.items():
        check_keys(name, role.keyids, root.keys)


def _check_marks(client: Client, held: Held | None) -> None:
    """Hold every role to the version that is held, unless its keys are no longer those (5.3.11)."""
    if held is None:
        return
    root, timestamp, snapshot, targets = client.roles
    old = held.metadata
    by_timestamp = _stands("timestamp", Timestamp, old.timestamp, root)
    by_snapshot = _stands("snapshot", Snapshot, old.snapshot, root)
    by_targets = _stands("targets", Targets, old.targets, root)
    # Who replaces the keys of a role takes back what they have said of others too.
    if by_timestamp:
        _check_mark("timestamp", timestamp, _read(Timestamp, old.timestamp).signed)
    if by_timestamp and by_snapshot:
        _check_mark("snapshot", snapshot, _read(Snapshot, old.snapshot).signed)
    if by_snapshot and by_targets:
        _check_mark("targets", targets, _read(Targets, old.targets).signed)


def _check_mark(name: str, new: Signed, least: Signed) -> None:
    if new.version < least.version:
        raise exceptions.BadVersionNumberError(f"{name} {new.version} is older than {least.version}")


def _stands(name: str, kind: type[S], raw: bytes, root: Root) -> bool:
    """Whether a root's keys have signed these bytes in a role."""
    try:
        signed = _read(kind, raw)
        root.verify_delegate(name, signed.signed_bytes, signed.signatures)
    except exceptions.RepositoryError:
        return False
    return True


def _read(kind: type[S], raw: bytes) -> SignedMetadata[S]:
    read: SignedMetadata[S] = SignedMetadata.from_bytes(raw)
    if not isinstance(read.signed, kind):
        raise exceptions.RepositoryError(f"not {kind.type}")
    return read
