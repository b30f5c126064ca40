"""The secrets of this hub by value, as far as whoever makes a bundle may read them: none is to slip through.

They are read to be looked for, and go nowhere.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from edgeagent.config import Config
from edgeagent.secret_files import secret_path

_LARGEST: Final = 64 * 1024
_MOST_FILES: Final = 200
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_KEYS: Final = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL
)
_PUBLIC: Final = frozenset({"ca_file", "cert_file", "config_file", "file"})
# What is beside the database in the folder of the state and is secret.
_IN_THE_STATE: Final = ("hub.key", "identity/*")


def known_secrets(config: Config, path: Path) -> list[bytes]:
    """All that can be read.

    Args:
        config: names the files.
        path: where it stands.
    """
    files = {secret_path(path, name) for name in _named(config)}
    files |= {found for pattern in _IN_THE_STATE for found in _found(config.hub.state_dir, pattern)}
    for folder in (
        path.parent / "credentials",
        Path(os.environ.get("CREDENTIALS_DIRECTORY") or "/nonexistent"),
    ):
        files |= set(_found(folder, "*"))
    return [secret for file in sorted(files) for secret in _read(file)]


def _named(section: BaseModel) -> Iterator[Path]:
    """The files that any section names and that are not public."""
    for name in type(section).model_fields:
        value = vars(section)[name]
        if isinstance(value, BaseModel):
            yield from _named(value)
        elif isinstance(value, Path) and name.endswith("_file") and name not in _PUBLIC:
            yield value


def _found(folder: Path, pattern: str) -> list[Path]:
    try:
        return sorted(found for found in folder.glob(pattern) if found.is_file())[:_MOST_FILES]
    except OSError:
        return []


def _read(file: Path) -> Iterator[bytes]:
    """A file's content; nothing where we may not read it, or it is none of a secret's size."""
    try:
        if not file.is_file():
            return  # who opens a pipe waits for whoever writes to it
        with file.open("rb") as opened:
            raw = opened.read(_LARGEST + 1)
    except OSError:
        return
    keys = _KEYS.findall(raw)
    if keys:
        # What stands beside a key, its certificate for one, is public.
        yield from keys
    elif 0 < len(raw) <= _LARGEST and _CERTIFICATE not in raw:
        yield raw
        yield raw.strip()
