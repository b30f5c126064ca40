"""The beginning of an issuer: its keys, the first root, the first policy.

Everything that could be refused is refused before the first file is written. What an interrupted beginning
leaves is never built upon: the folder is to be removed and made anew.
"""

from collections.abc import Sequence
from dataclasses import field
from pathlib import Path

from tuf.api.metadata import Root

from edgeagent.clock import Clock
from edgeagent.contracts.policy import Policy
from edgeagent.core.envelope import Signer
from edgeagent.errors import ConfigurationError, RejectedError
from edgeagent.issuer.keys import PrivateKey, load_public_key
from edgeagent.issuer.policies import policy_text, read_policy
from edgeagent.issuer.repository.files import make_folder
from edgeagent.issuer.repository.folder import (
    ONLINE_KEYS,
    POLICY_KEYS,
    ROOT_KEYS,
    IssuerFolder,
    save_pair,
    tuf_key,
)
from edgeagent.issuer.repository.publishing import ONLINE_ROLES, Publisher
from edgeagent.issuer.repository.signing import Lifetimes
from edgeagent.issuer.repository.trusted import Trusted
from edgeagent.values import dataclass

MOST_ROOT_KEYS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be made.

    Attributes:
        policy: the file of the first policy.
        root_keys: how many keys may sign a root.
        threshold: how many of them have to.
        policy_signer: signs policies; a key is made where absent.
        lifetimes: of the metadata.
    """

    policy: Path
    root_keys: int = 3
    threshold: int = 2
    policy_signer: Signer | None = None
    lifetimes: Lifetimes = field(default_factory=Lifetimes)


@dataclass(frozen=True, slots=True)
class Founded:
    """What was made.

    Attributes:
        trusted: the repository.
        keys: files of keys that the policy names and that did not exist.
    """

    trusted: Trusted
    keys: Sequence[Path]


def found(folder: IssuerFolder, plan: Plan, clock: Clock) -> Founded:
    """Make an issuer's folder.

    Raises:
        RejectedError: the threshold is not among the keys.
        MalformedError: the policy is none; the message names the place.
        ConfigurationError: something of it exists, or cannot be read or written.
    """
    if not 1 <= plan.threshold <= plan.root_keys <= MOST_ROOT_KEYS:
        raise RejectedError(
            f"a root has 1 to {MOST_ROOT_KEYS} keys, and a threshold of at least 1 and at most as many"
        )
    policy, missing = _policy(plan.policy, clock)
    for path in (folder.path / "offline", folder.path / "online", folder.path / "repository"):
        if path.exists():
            raise ConfigurationError(f"{path} exists; it is left as it is")
    if not folder.path.exists():
        make_folder(folder.path, mode=0o700)
    for name in ("offline", "online"):
        make_folder(folder.path / name, mode=0o700)
    root = _root(folder, plan)
    for file, key in missing.items():
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        save_pair(key, file, passphrase=None)
    trusted = Publisher(folder, clock, plan.lifetimes).found(root, policy)
    return Founded(trusted, list(missing))


def _policy(file: Path, clock: Clock) -> tuple[Policy, dict[Path, PrivateKey]]:
    """The first policy, and keys for the public halves that it names and that are not there yet."""
    missing: dict[Path, PrivateKey] = {}

    def public_of(name: str) -> bytes:
        path = file.parent / name
        if path.exists() or path.suffix != ".pub":
            return load_public_key(path)
        private = path.with_suffix("")
        if private.exists():
            raise ConfigurationError(f"{path} is missing beside {private}; it is left as it is")
        return missing.setdefault(private, PrivateKey.new()).public

    policy = read_policy(policy_text(file), now=clock.wall().best, key_file=public_of)
    return policy, missing


def _root(folder: IssuerFolder, plan: Plan) -> Root:
    root = Root(version=1, consistent_snapshot=True)
    for _ in range(plan.root_keys):
        root.add_key(tuf_key(folder.new_key(ROOT_KEYS).public), "root")
    root.roles["root"].threshold = plan.threshold
    signer = plan.policy_signer or folder.new_key(POLICY_KEYS)
    root.add_key(tuf_key(signer.public), "targets")
    online = folder.new_key(ONLINE_KEYS)
    for role in ONLINE_ROLES:
        root.add_key(tuf_key(online.public), role)
    return root
