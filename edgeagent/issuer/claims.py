"""Making claim codes. What they pin is read from the issuer's own files, not from the queue.

A queue in the wrong hands must not be able to have a new hub trust another policy than the issuer's.
"""

import secrets
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from edgeagent.contracts.claim import SECRET_BYTES, Claim, ClaimFacts, default_policy
from edgeagent.contracts.door import faults
from edgeagent.contracts.rollout import known_zone
from edgeagent.core.certificates import UnprovenCertificateError, fingerprint, read_chain
from edgeagent.errors import ConfigurationError, MalformedError
from edgeagent.ids import Digest, HubId

_ROOT_BYTES: Final = 512 * 1024
_SECOND: Final = timedelta(seconds=1)


def new_claim(
    hub: HubId, *, cloud: str, policy: str | None, zone: str, pins: tuple[Path, Path], until: datetime
) -> Claim:
    """Make a code for a hub.

    Args:
        hub: who it is to be.
        cloud: the queue's address.
        policy: where the policy is published; the queue's place for it where absent.
        zone: the venue's time zone.
        pins: the authority's root certificate, PEM, and the first root of the policy's metadata.
        until: when the code is over; whole seconds count.

    Raises:
        ConfigurationError: a file cannot be read or is none.
        MalformedError: an address or zone is none.
    """
    facts = {
        "cloud": cloud,
        "policy": policy or default_policy(cloud.rstrip("/")),
        "authority": _fingerprint_of(pins[0]),
        "root": Digest(sha256(_bytes_of(pins[1])).hexdigest()),
        "hub": hub,
        "zone": zone,
        "until": until.replace(microsecond=0) + _SECOND,
    }
    try:
        claim = Claim(ClaimFacts.model_validate(facts), secrets.token_bytes(SECRET_BYTES))
        # A hub that does not know its zone could not start.
        known_zone(zone)
    except ValidationError as why:
        raise MalformedError(faults(why)) from why
    except ValueError as why:
        raise MalformedError(f"zone: {why}") from why
    return claim


def _fingerprint_of(path: Path) -> Digest:
    try:
        [root] = read_chain(_bytes_of(path))
    except (UnprovenCertificateError, ValueError) as why:
        raise ConfigurationError(f"{path}: not the one certificate of an authority") from why
    return fingerprint(root)


def _bytes_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_ROOT_BYTES)
    except OSError as why:
        raise ConfigurationError(f"cannot read {path}: {why.strerror}") from why
