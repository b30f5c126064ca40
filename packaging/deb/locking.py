"""The lock file, made anew: the newest versions that ``pyproject.toml`` takes, with their wheels' hashes.

``packaging/build --lock`` runs it. It is the only step that chooses versions; a build takes what is locked.
"""

import json
import tempfile
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

from deb.architectures import ARCHITECTURES, LEFT_OUT, PYTHONS, Architecture
from deb.wheels import Pin, normalised, pip

_HEAD: Final = """\
# What the Debian package holds besides edgeagent: versions, and the sha256 of each wheel that may go into it.
# Made by `packaging/build --lock`, not by hand.
"""


def lock(root: Path) -> str:
    """The text of a new lock file.

    Raises:
        BuildError: pip finds no versions that go together, or no wheel.
    """
    with (root / "pyproject.toml").open("rb") as file:
        wanted = tomllib.load(file)["project"]["dependencies"]
    chosen = ARCHITECTURES["amd64"]
    found = (item["metadata"] for item in _asked(chosen, PYTHONS[0], wanted))
    names = ((normalised(each["name"]), each["version"]) for each in found)
    versions = {name: version for name, version in names if name not in LEFT_OUT}
    hashes: defaultdict[str, set[str]] = defaultdict(set)
    for architecture in ARCHITECTURES.values():
        pins = [f"{name}=={each}" for name, each in versions.items() if name not in architecture.without]
        for python in PYTHONS:
            for item in _asked(architecture, python, ["--no-deps", *pins]):
                archive = item["download_info"]["archive_info"]
                hashes[normalised(item["metadata"]["name"])].add(archive["hashes"]["sha256"])
    pins = [Pin(name, versions[name], tuple(sorted(hashes[name]))).line for name in sorted(versions)]
    return _HEAD + "".join(pins)


def _asked(architecture: Architecture, python: str, words: list[str]) -> list[dict[str, Any]]:
    """What pip would install of these on that machine (its installation report, version 1)."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        asked = ["--dry-run", "--ignore-installed", "--target", folder, "--report", str(report)]
        pip("install", architecture, python, *asked, *words)
        installed: list[dict[str, Any]] = json.loads(report.read_text("utf-8"))["install"]
    return installed
