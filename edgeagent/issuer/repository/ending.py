"""What of a repository ends soon, so that somebody comes before hubs refuse commands."""

from datetime import datetime, timedelta
from typing import Final

from edgeagent.issuer.repository.trusted import Trusted

# A person has to come for these; a machine renews the others.
_SOON: Final = {
    "root": timedelta(days=30),
    "targets": timedelta(days=30),
    "policy": timedelta(days=30),
    "snapshot": timedelta(days=7),
    "timestamp": timedelta(days=7),
}
REMEDIES: Final = {
    "root": "edgeagent issuer refresh --offline-keys",
    "targets": "edgeagent issuer refresh --offline-keys",
    "policy": "edgeagent issuer policy publish, with a later expires_at",
    "snapshot": "edgeagent issuer refresh",
    "timestamp": "edgeagent issuer refresh",
}
"""What to do about each part that ends."""


def ends_soon(trusted: Trusted, now: datetime) -> list[str]:
    """The parts that have ended or are about to: a month ahead where the offline keys are needed."""
    return [part for part, end in trusted.expiries.items() if end - now < _SOON.get(part, _SOON["targets"])]


def remedy_of(part: str) -> str:
    """What to do about a part that ends: one of a group of models is renewed with the other offline keys."""
    return REMEDIES.get(part, REMEDIES["targets"])
