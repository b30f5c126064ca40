"""Files with secrets, and files on which trust rests: where they lie, and who else may use them.

A relative name is looked up where systemd puts credentials (``$CREDENTIALS_DIRECTORY``), or else beside the
configuration, there in a folder ``credentials`` first. That folder is what the agent's unit lends to it
(``LoadCredential=edgeagent:...``): systemd.exec(5) names each of its files ``edgeagent_NAME``.
"""

import os
import stat
from pathlib import Path
from typing import Final

from edgeagent.errors import ConfigurationError

FOLDER: Final = "credentials"
"""Beside the configuration: whose files the unit lends to the agent; root's alone."""

_LENT_AS: Final = "edgeagent_"
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
        # A FIFO must not hold up a start until somebody writes to it.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise ConfigurationError(f"the secret {path} is no file")
            raw = file.read(_SECRET_BYTES + 1)
    except OSError as why:
        raise _unreadable(path, config_path, why) from why
    _refuse_open(path, about)
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
        about = path.stat()
    except OSError as why:
        raise ConfigurationError(f"cannot read the secret {path}: {why.strerror}") from why
    _refuse_open(path, about)


def check_unchanged(path: Path) -> None:
    """See that not just anybody on this machine may change a file on which trust rests.

    One that cannot be looked at is left to whoever reads it.

    Raises:
        ConfigurationError: anybody may.
    """
    try:
        mode = path.stat().st_mode
    except OSError:  # not ``exists``: that raises where we may not even look
        return
    if mode & stat.S_IWOTH:
        raise ConfigurationError(f"anybody may change {path}: chmod o-w {path}")


def _unreadable(path: Path, config_path: Path, why: OSError) -> ConfigurationError:
    where = config_path.parent / FOLDER
    lend = f"; sudo install -m 600 FILE {where / path.name}, and restart" if where.is_dir() else ""
    return ConfigurationError(f"cannot read the secret {path}: {why.strerror}{lend}")


def _refuse_open(path: Path, about: os.stat_result) -> None:
    """A group may read: that is how systemd lends credentials."""
    if about.st_mode & (stat.S_IRWXG | stat.S_IRWXO) & ~stat.S_IRGRP:
        raise ConfigurationError(f"others may use the secret {path}: chmod 600 {path}")
    ours = os.geteuid()
    if about.st_uid not in {0, ours} and ours != 0:
        raise ConfigurationError(
            f"the secret {path} belongs to another user (uid {about.st_uid}), who may change it: "
            f"chown {ours} {path}"
        )


def secret_path(config_path: Path, name: Path) -> Path:
    """Where a secret's file lies; where there is none, where it could."""
    lent = os.environ.get("CREDENTIALS_DIRECTORY")
    beside = config_path.parent
    places = [beside / FOLDER / name]
    if lent and not name.is_absolute():
        places = [Path(lent) / f"{_LENT_AS}{str(name).replace('/', '_')}", Path(lent) / name, *places]
    # Not ``exists``: that raises where we may not even look, as the agent may not in root's folder.
    return next((place for place in places if os.path.lexists(place)), beside / name)
