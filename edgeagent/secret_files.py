"""Files with secrets, and files on which trust rests: where they lie, and who else may use them.

A relative name is looked up where systemd puts credentials (``$CREDENTIALS_DIRECTORY``), or else beside
the configuration.
"""

import os
import stat
from pathlib import Path
from typing import Final

from edgeagent.errors import ConfigurationError

_SECRET_BYTES: Final = 64 * 1024


def read_secret(config_path: Path, name: Path) -> str:
    """Read a secret from its file.

    Args:
        config_path: where the configuration is.
        name: the file; a relative one lies among systemd's credentials or beside the configuration.

    Raises:
        ConfigurationError: there is none, or others on this machine may read it.
    """
    path = secret_path(config_path, name)
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            raw = file.read(_SECRET_BYTES + 1)
    except OSError as why:
        raise ConfigurationError(f"cannot read the secret {path}: {why.strerror}") from why
    _refuse_open(path, mode)
    if len(raw) > _SECRET_BYTES:
        raise ConfigurationError(f"the secret {path} is larger than {_SECRET_BYTES} bytes")
    try:
        secret = raw.decode().strip()
    except UnicodeDecodeError as why:
        raise ConfigurationError(f"the secret {path} is not text") from why
    if not secret:
        raise ConfigurationError(f"the secret {path} is empty")
    return secret


def check_private(path: Path) -> None:
    """See that a secret that others read for us, such as a key of TLS, is nobody else's.

    Raises:
        ConfigurationError: there is no such file, or others on this machine may use it.
    """
    try:
        mode = path.stat().st_mode
    except OSError as why:
        raise ConfigurationError(f"cannot read the secret {path}: {why.strerror}") from why
    _refuse_open(path, mode)


def check_unchanged(path: Path) -> None:
    """See that not just anybody on this machine may change a file on which trust rests.

    Raises:
        ConfigurationError: anybody may.
    """
    if path.exists() and path.stat().st_mode & stat.S_IWOTH:
        raise ConfigurationError(f"anybody may change {path}: chmod o-w {path}")


def _refuse_open(path: Path, mode: int) -> None:
    """A group may read: that is how systemd lends credentials."""
    if mode & (stat.S_IRWXG | stat.S_IRWXO) & ~stat.S_IRGRP:
        raise ConfigurationError(f"others may use the secret {path}: chmod 600 {path}")


def secret_path(config_path: Path, name: Path) -> Path:
    """Where a secret's file lies."""
    credentials = os.environ.get("CREDENTIALS_DIRECTORY")
    if credentials and not name.is_absolute() and (found := Path(credentials) / name).exists():
        return found
    return config_path.parent / name
