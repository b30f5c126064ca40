"""Where the agent's socket is, as far as a configuration that is wrong still tells.

The agent that runs goes on with what it read when that was in order, and has to be within reach: to be
looked at, and to be stopped. Whose socket it is must not be guessed: a file of another place that tells
nothing leads nowhere, and one that anybody may change is not believed. The usual file leads to the usual
place.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from edgeagent.config import DEFAULT_PATH, Config
from edgeagent.config_reading import text_of
from edgeagent.errors import ConfigurationError
from edgeagent.ids import HubId
from edgeagent.sections import HubSection

_VARIABLE: Final = "EDGEAGENT_HUB_RUN_DIR"
_SECTION: Final = re.compile(r"\s*\[+\s*([^\]]*?)\s*\]+")
_USUAL: Final = HubSection(id=HubId("unread"))
_KEY: Final = re.compile(r"\s*run_dir\s*=")


def remains(path: Path, environment: Mapping[str, str]) -> Config | None:
    """A configuration that says where the agent's socket is, and nothing else.

    Args:
        path: the file, which cannot be taken as it is.
        environment: whose variable goes before it.

    Returns:
        None where it is not known.
    """
    folder = _folder(environment.get(_VARIABLE)) or _run_dir_of(path)
    if folder is None and path == DEFAULT_PATH:
        folder = _USUAL.run_dir
    return None if folder is None else Config(hub=_USUAL.model_copy(update={"run_dir": folder}))


def _run_dir_of(path: Path) -> Path | None:
    try:
        text = text_of(path)
    except ConfigurationError:
        return None
    try:
        section = tomllib.loads(text).get("hub")
    except (ValueError, RecursionError):
        return _of_lines(text)
    if not isinstance(section, dict):
        return None
    # Where it says whose hub it is and nothing of this, it is as everywhere.
    return _folder(section["run_dir"]) if "run_dir" in section else _USUAL.run_dir


def _of_lines(text: str) -> Path | None:
    """What the lines tell that are in order by themselves; the last of them."""
    section, found = "", None
    for line in text.splitlines():
        if (begins := _SECTION.match(line)) is not None:
            section = begins[1]
        elif section == "hub" and _KEY.match(line) is not None:
            try:
                found = _folder(tomllib.loads(line)["run_dir"]) or found
            except ValueError:
                continue
    return found


def _folder(value: object) -> Path | None:
    is_one = isinstance(value, str) and value.startswith("/") and "\x00" not in value
    return Path(str(value)) if is_one else None
