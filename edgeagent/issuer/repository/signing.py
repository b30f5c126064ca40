"""Making metadata: the next version of each part, signed by as many keys as its role asks for.

Lifetimes are long where a person has to come (TUF's root and targets) and short where a machine does it,
yet so long that a hub that is offline for a holiday goes on (SPEC P2).
"""

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from datetime import datetime, timedelta
from typing import TypeVar

from tuf.api.metadata import (
    Metadata,
    MetaFile,
    Role,
    Root,
    Signature,
    Snapshot,
    TargetFile,
    Targets,
    Timestamp,
)
from tuf.api.serialization.json import JSONSerializer

from edgeagent.core.envelope import Signer
from edgeagent.errors import RejectedError
from edgeagent.issuer.repository.files import POLICY_TARGET
from edgeagent.issuer.repository.folder import tuf_key
from edgeagent.values import dataclass

S = TypeVar("S", Root, Timestamp, Snapshot, Targets)

SignerOf = Callable[[str], Signer | None]
"""Who signs with a key, by its id in metadata; None when it is not at hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """For how long each part may be used from its signing on.

    Attributes:
        root: who may sign what.
        targets: which policy is in force.
        online: snapshot and timestamp; the longest that a hub takes commands without a renewal.
    """

    root: timedelta = timedelta(days=730)
    targets: timedelta = timedelta(days=365)
    online: timedelta = timedelta(days=30)


class MissingKeysError(RejectedError):
    """Fewer keys are at hand than a signature asks for."""


def following(signed: S, *, expires: datetime) -> S:
    """The next version of a part, to be changed further."""
    copied = deepcopy(signed)
    copied.version += 1
    copied.expires = expires.replace(microsecond=0)
    return copied


def targets_of(signed: Targets, policy: bytes) -> Targets:
    """The same targets with this policy."""
    signed.targets = {POLICY_TARGET: TargetFile.from_data(POLICY_TARGET, policy, ["sha256"])}
    return signed


def meta_file(version: int, content: bytes) -> MetaFile:
    """What one file of metadata says of another."""
    return MetaFile.from_data(version, content, ["sha256"])


def signers_for(root: Root, role: str, signer_of: SignerOf, *, last: Iterable[str] = ()) -> list[Signer]:
    """As many signers as a role asks for.

    Args:
        root: who may sign what.
        role: which role.
        signer_of: finds signers.
        last: keys to be used only if there are not enough others.

    Raises:
        MissingKeysError: fewer are at hand.
    """
    return signers_of(root.roles[role], role, signer_of, last=last)


def signers_of(of_role: Role, role: str, signer_of: SignerOf, *, last: Iterable[str] = ()) -> list[Signer]:
    """As ``signers_for``, for a role whoever delegates to it."""
    late = frozenset(last)
    found: list[Signer] = []
    for keyid in sorted(of_role.keyids, key=lambda one: one in late):
        signer = signer_of(keyid)
        if signer is not None:
            found.append(signer)
        if len(found) == of_role.threshold:
            return found
    raise MissingKeysError(
        f"{of_role.threshold} of the {len(of_role.keyids)} keys of {role} are needed; {len(found)} at hand"
    )


def root_signers(old: Root, new: Root, signer_of: SignerOf) -> list[Signer]:
    """Who signs a new root: enough of the old one's keys and enough of its own (TUF specification, 5.3.4).

    Raises:
        MissingKeysError: fewer are at hand.
    """
    leaving = frozenset(old.roles["root"].keyids) - frozenset(new.roles["root"].keyids)
    return [
        *signers_for(old, "root", signer_of, last=leaving),
        *signers_for(new, "root", signer_of),
    ]


def signed_by(signed: S, signers: Sequence[Signer]) -> bytes:
    """Metadata with its signatures, as bytes."""
    metadata = Metadata(signed)
    message = metadata.signed_bytes
    for signer in signers:
        keyid = tuf_key(signer.public).keyid
        if keyid not in metadata.signatures:
            metadata.signatures[keyid] = Signature(keyid, signer.sign(message).hex())
    return metadata.to_bytes(JSONSerializer(compact=True))
