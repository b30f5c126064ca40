"""Passwords of logins: made at random, told once, kept as mosquitto keeps them.

mosquitto_passwd(1) writes ``NAME:$7$ITERATIONS$SALT$HASH``: PBKDF2 with SHA-512, both in base64.
"""

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from typing import Final

# A password of ours has 160 bits: to guess it needs no slowing down, and a Pi has better things to do when
# all devices come back at once. So it is mosquitto_passwd's own number.
_ITERATIONS: Final = 101
_MOST_ITERATIONS: Final = 10_000_000
_SALT_BYTES: Final = 12
_PASSWORD_BYTES: Final = 20
_PARTS: Final = 5


def new_password() -> str:
    """27 letters, digits, ``-`` and ``_``: every device's menu takes them."""
    return secrets.token_urlsafe(_PASSWORD_BYTES)


def hashed(password: str) -> str:
    """A password as it stands in mosquitto's file, behind the name."""
    salt = secrets.token_bytes(_SALT_BYTES)
    digest = _digest(password, salt, _ITERATIONS)
    return f"$7${_ITERATIONS}${b64encode(salt).decode()}${b64encode(digest).decode()}"


def verifies(password: str, stored: str) -> bool:
    """Whether that is the password; False for what is not in this form."""
    parts = stored.split("$")
    if len(parts) != _PARTS or parts[:2] != ["", "7"]:
        return False
    try:
        iterations, salt, digest = (
            int(parts[2]),
            b64decode(parts[3], validate=True),
            b64decode(parts[4], validate=True),
        )
    except ValueError:
        return False
    if not 0 < iterations <= _MOST_ITERATIONS:
        return False
    return hmac.compare_digest(_digest(password, salt, iterations), digest)


def _digest(password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac("sha512", password.encode(), salt, iterations)
