"""What the issuer's tool publishes is what a hub reads, through every change of its keys."""

from hashlib import sha256
from pathlib import Path

import pytest

from edgeagent.adapters.metadata.reading import FolderReader
from edgeagent.adapters.metadata.verifying import check_root, published
from edgeagent.contracts.door import decode
from edgeagent.contracts.policy import POLICY_BYTES, Policy
from edgeagent.ids import Digest
from edgeagent.issuer.repository.rotation import Keychain
from edgeagent.ports.policy_source import Held
from tests.issuer.publishing import TODAY, Issuing, issuing

pytestmark = [pytest.mark.requirement("T2", "P2"), pytest.mark.slow]


def read_by_hub(issuer: Issuing, held: Held | None) -> Held:
    """What a hub holds after a refresh."""
    folder = issuer.home / "venue/repository"
    first = (folder / "metadata/1.root.json").read_bytes()
    root = first if held is None else held.metadata.root
    return published(FolderReader(folder), root, held, TODAY, Digest(sha256(first).hexdigest())).held


def version_of(held: Held) -> int:
    return decode(Policy, held.policy, limit=POLICY_BYTES).version


def test_a_hub_follows_policies_and_changes_of_keys(tmp_path: Path) -> None:
    issuer = issuing(tmp_path)
    held = read_by_hub(issuer, None)
    first = version_of(held)

    issuer.publisher.refresh()
    held = read_by_hub(issuer, held)
    for what in ("online", "policy", "root-1"):
        Keychain(issuer.folder, issuer.publisher, issuer.clock).rotate(what)
    issuer.publisher.publish(issuer.policy(2))
    held = read_by_hub(issuer, held)

    assert (first, version_of(held)) == (1, 2)
    check_root(held.metadata.root, limit=128 * 1024)
