"""Policies from a file that people read, signed for hubs.

The file is TOML in the shape of ``contracts/policy``, with three comforts: ``valid_for`` in place of
``expires_at``, ``issued_at`` left out for the present, and a key as 64 hexadecimal digits or as the
path of its public PEM file, relative to the policy's own:

    version = 3
    hubs = ["venue-7"]
    valid_for = "365d"

    [keys]
    desk = "desk.pub.pem"

    [roles.operators]
    kind = "command"
    keys = ["desk"]
    actions = ["power", "volume"]
    devices = "*"

    [actions.power]
    tier = "low"
"""

import json
import re
import tomllib
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Final

from edgeagent.contracts.door import decode, encode
from edgeagent.contracts.envelope import Envelope
from edgeagent.contracts.policy import POLICY_BYTES, POLICY_TYPE, Policy
from edgeagent.contracts.scalars import duration, timestamp_text
from edgeagent.core.envelope import Signer, sign
from edgeagent.errors import ConfigurationError, MalformedError
from edgeagent.issuer.keys import load_public_key

_HEX64: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_DEFAULT_VALIDITY: Final = timedelta(days=365)


def load_policy(path: Path, *, now: datetime) -> Policy:
    """Read a policy and the public keys that it names.

    Raises:
        ConfigurationError: a file cannot be read.
        MalformedError: it is no policy; the message names the place.
    """
    return read_policy(policy_text(path), now=now, key_file=lambda name: load_public_key(path.parent / name))


def policy_text(path: Path) -> bytes:
    """Read a policy's file, and a byte more than a policy may have if there is one.

    Raises:
        ConfigurationError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(POLICY_BYTES + 1)
    except OSError as why:
        raise ConfigurationError(f"{path}: {why.strerror}") from why


def read_policy(text: bytes, *, now: datetime, key_file: Callable[[str], bytes]) -> Policy:
    """Turn TOML into a policy.

    Args:
        text: the file's bytes.
        now: when it is issued, where it does not say.
        key_file: reads the raw public key from a file that the policy names.

    Raises:
        ConfigurationError: a key's file cannot be read.
        MalformedError: it is no policy; the message names the place.
    """
    if len(text) > POLICY_BYTES:
        raise MalformedError(f"a policy has at most {POLICY_BYTES} bytes")
    try:
        fields: dict[str, object] = tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as why:
        raise MalformedError(f"not TOML: {why}") from why
    fields.setdefault("type", "policy")
    issued = fields.setdefault("issued_at", now)
    validity = fields.pop("valid_for", None)
    if "expires_at" not in fields and isinstance(issued, datetime):
        fields["expires_at"] = _later(issued, validity)
    elif validity is not None:
        raise MalformedError("valid_for: it stands beside expires_at, or issued_at is no time")
    keys = fields.get("keys")
    if isinstance(keys, dict):
        fields["keys"] = {name: _public_hex(name, value, key_file) for name, value in keys.items()}
    written = json.dumps(fields, default=_moment_text, ensure_ascii=False).encode()
    return decode(Policy, written, limit=2 * POLICY_BYTES)


def sign_policy(policy: Policy, signers: Sequence[Signer]) -> bytes:
    """Make the envelope of a policy.

    Raises:
        MalformedError: it is larger than hubs take.
    """
    envelope = sign(encode(policy), POLICY_TYPE, signers)
    if len(envelope) > POLICY_BYTES:
        raise MalformedError(f"the policy has {len(envelope)} bytes, of which {POLICY_BYTES} are allowed")
    return envelope


def policy_of(envelope: bytes) -> Policy:
    """Read the policy in an envelope without asking who signed it: for whoever trusts the file itself.

    Raises:
        MalformedError: it is no envelope around a policy.
    """
    opened = decode(Envelope, envelope, limit=POLICY_BYTES)
    if opened.payloadType != POLICY_TYPE:
        raise MalformedError("a signed document of another kind")
    return decode(Policy, opened.payload, limit=POLICY_BYTES)


def _later(issued: datetime, validity: object) -> datetime:
    if validity is None:
        return issued + _DEFAULT_VALIDITY
    if not isinstance(validity, str):
        raise MalformedError('valid_for: a text like "365d"')
    try:
        return issued + duration(validity)
    except (MalformedError, OverflowError) as why:
        raise MalformedError(f"valid_for: {why}") from why


def _public_hex(name: str, value: object, key_file: Callable[[str], bytes]) -> object:
    if not isinstance(value, str) or _HEX64.fullmatch(value) is not None:
        return value
    try:
        return key_file(value).hex()
    except ConfigurationError as why:
        raise ConfigurationError(f"keys.{name}: {why}") from why


def _moment_text(value: object) -> str:
    """TOML has times of its own; only those with a zone are instants."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return timestamp_text(value)
    if isinstance(value, date | time):
        raise MalformedError(
            f"{value.isoformat()}: a time needs a date and a zone, like 2026-01-02T03:04:05Z"
        )
    raise MalformedError(f"{type(value).__name__} is no value of a policy")
