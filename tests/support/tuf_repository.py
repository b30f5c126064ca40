"""A repository of The Update Framework as a publisher keeps it, with keys made at run time.

    repository = Repository(tmp_path / "repo", now=NOON)
    repository.publishes(policy)          # the next version of everything
    repository.rotates("timestamp")       # a new root with another key for a role
    repository.writes("timestamp", repository.timestamp)   # whatever a test has made of it
    repository.delegates("plugs")         # a role that signs for artifacts; nothing yet
    repository.lists("plugs", plug=facts) # what it signs for from now on

The layout is the one that hubs read: ``metadata/N.root.json``, ``timestamp.json``, ``N.snapshot.json``,
``N.targets.json`` and ``targets/<sha256>.policy.json``.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.signer import CryptoSigner  # type: ignore[attr-defined]  # it has no __all__
from tuf.api.metadata import (
    DelegatedRole,
    Delegations,
    Key,
    Metadata,
    MetaFile,
    Root,
    Snapshot,
    T,
    TargetFile,
    Targets,
    Timestamp,
)

from edgeagent.contracts.door import encode
from edgeagent.contracts.policy import Policy

ROLES: Final = ("root", "timestamp", "snapshot", "targets")
DAY: Final = timedelta(days=1)


class Repository:
    """See the module's docstring.

    Args:
        folder: where it is published.
        now: when it begins; the roles' ends count from here.
        thresholds: how many keys sign a role, where that is not one.

    Attributes:
        signers: who signs each role now.
        root: the newest root, as every role below: to be changed by hand for an attack.
        delegated: what signs for artifacts, by role.
        contents: the bytes of artifacts that are more than their ids.
    """

    def __init__(self, folder: Path, *, now: datetime, thresholds: dict[str, int] | None = None) -> None:
        self.folder = folder
        self.now = now
        self.lasts = {"root": 365 * DAY, "timestamp": 7 * DAY, "snapshot": 30 * DAY, "targets": 90 * DAY}
        thresholds = thresholds or {}
        self.signers = {role: [new_signer() for _ in range(thresholds.get(role, 1))] for role in ROLES}
        (folder / "metadata").mkdir(parents=True)
        (folder / "targets").mkdir()
        self.root = Root(version=1, expires=self.end("root"), consistent_snapshot=True)
        for role, signers in self.signers.items():
            for signer in signers:
                self.root.add_key(signer.public_key, role)
            self.root.roles[role].threshold = len(signers)
        self.targets = Targets(expires=self.end("targets"))
        self.snapshot = Snapshot(expires=self.end("snapshot"))
        self.timestamp = Timestamp(expires=self.end("timestamp"))
        self.delegated: dict[str, Targets] = {}
        self.contents: dict[str, bytes] = {}
        # The first of each that is signed is 1.
        self.targets.version = self.snapshot.version = self.timestamp.version = 0
        self.writes_root(self.signers["root"])

    def end(self, role: str) -> datetime:
        """When what a role signs now ends."""
        return (self.now + self.lasts[role]).replace(microsecond=0)

    @property
    def first_root(self) -> bytes:
        """The root that hubs are given."""
        return (self.folder / "metadata/1.root.json").read_bytes()

    def publishes(self, policy: Policy | bytes) -> None:
        """Sign a policy, with the next version of all that stands behind it."""
        raw = policy if isinstance(policy, bytes) else encode(policy)
        self.adds_target(raw)
        self.targets.targets = {
            "policy.json": TargetFile(len(raw), {"sha256": sha256(raw).hexdigest()}, "policy.json")
        }
        self.signs_targets()

    def adds_target(self, raw: bytes) -> None:
        """Lay a policy's bytes where its digest says."""
        (self.folder / f"targets/{sha256(raw).hexdigest()}.policy.json").write_bytes(raw)

    def delegates(
        self, group: str, custom: object = MappingProxyType({"families": {"tasmota": "*"}})
    ) -> None:
        """Let a new key sign for the artifacts of a group of models, in place of any before.

        Args:
            group: its name.
            custom: for which devices; those of one profile if absent.
        """
        role = f"artifacts-{group}"
        signer = self.signers[role] = [new_signer()]
        delegations = self.targets.delegations or Delegations({}, {})
        assert delegations.roles is not None
        said = {"custom": dict(custom) if isinstance(custom, Mapping) else custom}
        delegations.roles[role] = DelegatedRole(
            role, [], 1, terminating=True, paths=[f"artifacts/{group}/*"], unrecognized_fields=said
        )
        self.targets.delegations = delegations
        self.targets.add_key(signer[0].public_key, role)
        self.delegated.setdefault(role, Targets(version=1, expires=self.end("targets"))).version -= 1
        self.signs_delegated(role)
        self.signs_targets()

    def lists(self, group: str, **artifacts: dict[str, object]) -> None:
        """Sign for these artifacts and no others: what is said of each, by its id with ``_`` for ``-``.

        The bytes of each are its id, if ``contents`` has no others.
        """
        role = self.delegated[f"artifacts-{group}"]
        role.targets = {}
        for name, custom in artifacts.items():
            artifact = name.replace("_", "-")
            path, raw = f"artifacts/{group}/{artifact}", self.contents.get(artifact, artifact.encode())
            role.targets[path] = TargetFile(
                len(raw), {"sha256": sha256(raw).hexdigest()}, path, {"custom": custom}
            )
        self.signs_delegated(f"artifacts-{group}")
        self.signs_snapshot()

    def signs_delegated(self, role: str) -> None:
        """Sign a delegated role as it is; the snapshot names it once it is signed."""
        signed = self.delegated[role]
        signed.version += 1
        signed.expires = self.end("targets")
        raw = self.writes(f"{signed.version}.{role}", signed, self.signers[role])
        self.snapshot.meta[f"{role}.json"] = _meta(signed.version, raw)

    def signs_targets(self) -> None:
        """Sign the targets as they are, and all that follows from them."""
        self.targets.version += 1
        self.targets.expires = self.end("targets")
        raw = self.writes(f"{self.targets.version}.targets", self.targets)
        self.snapshot.meta["targets.json"] = _meta(self.targets.version, raw)
        self.signs_snapshot()

    def signs_snapshot(self) -> None:
        """Sign the snapshot as it is, and the timestamp."""
        self.snapshot.version += 1
        self.snapshot.expires = self.end("snapshot")
        raw = self.writes(f"{self.snapshot.version}.snapshot", self.snapshot)
        self.timestamp.snapshot_meta = _meta(self.snapshot.version, raw)
        self.signs_timestamp()

    def signs_timestamp(self) -> None:
        """Sign a timestamp."""
        self.timestamp.version += 1
        self.timestamp.expires = self.end("timestamp")
        self.writes("timestamp", self.timestamp)

    def rotates(self, *roles: str) -> None:
        """Give roles other keys by a new root, which the old and the new root's keys sign."""
        before = self.signers["root"]
        for role in roles:
            for signer in self.signers[role]:
                self.root.revoke_key(signer.public_key.keyid, role)
            self.signers[role] = [new_signer() for _ in self.signers[role]]
            for signer in self.signers[role]:
                self.root.add_key(signer.public_key, role)
        self.root.version += 1
        self.root.expires = self.end("root")
        self.writes_root([*before, *self.signers["root"]])

    def writes_root(self, signers: list[CryptoSigner]) -> None:
        """Publish the root as it is, signed by these."""
        self.writes(f"{self.root.version}.root", self.root, signers)

    def writes(
        self,
        name: str,
        signed: T,
        signers: list[CryptoSigner] | None = None,
    ) -> bytes:
        """Publish a role under a name, signed by its own keys or by others.

        Returns:
            What was published.
        """
        metadata = Metadata(signed)
        for signer in self.signers[signed.type] if signers is None else signers:
            metadata.sign(signer, append=True)
        raw = metadata.to_bytes()
        # Whole or not at all: somebody may be reading.
        part = self.folder / "part"
        part.write_bytes(raw)
        part.replace(self.file(name))
        return raw

    def file(self, name: str) -> Path:
        """Where metadata of this name lie."""
        return self.folder / f"metadata/{name}.json"


def new_signer() -> CryptoSigner:
    """A key made now."""
    private = Ed25519PrivateKey.generate()
    signer = CryptoSigner(private)
    # The library's own key id: the digest of the key's canonical form.
    assert isinstance(signer.public_key, Key)
    return signer


def _meta(version: int, raw: bytes) -> MetaFile:
    return MetaFile(version, len(raw), {"sha256": sha256(raw).hexdigest()})
