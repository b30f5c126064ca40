"""Libraries that lie in the agent's own tree as others published them: bill and licences name them too.

Each has a folder of its own with its licence and a ``README.md`` that begins ``# NAME VERSION``, and says
under which licence it is and which npm package it comes from.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from deb.wheels import BuildError


@dataclass(frozen=True, slots=True)
class Vendored:
    """One such library.

    Attributes:
        name: as it calls itself.
        version: its version.
        licence: an SPDX expression.
        package: its name at npm.
        folder: where it lies, from the folder that was searched.
        text: its licence.
    """

    name: str
    version: str
    licence: str
    package: str
    folder: Path
    text: str


def vendored(inside: Path) -> list[Vendored]:
    """All of them in a folder.

    Raises:
        BuildError: one does not say what it is.
    """
    return [_read(licence.parent, inside) for licence in sorted(inside.rglob("LICENSE"))]


def _read(folder: Path, inside: Path) -> Vendored:
    told = (folder / "README.md").read_text("utf-8") if (folder / "README.md").exists() else ""
    title = re.match(r"# (\S+) (\d\S*)\n", told)
    licence = re.search(r"([A-Za-z0-9.-]+) licence", told)
    package = re.search(r"npm package `([^`]+)`", told)
    if title is None or licence is None or package is None:
        raise BuildError(
            f"{folder}: its README.md does not say which library this is, of which licence and package"
        )
    text = (folder / "LICENSE").read_text("utf-8")
    return Vendored(title[1], title[2], licence[1], package[1], folder.relative_to(inside), text)
