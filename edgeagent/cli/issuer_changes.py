"""How the words of ``edgeagent issuer`` read and change what is published, and say what has come of it."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from pydantic import JsonValue

from edgeagent.cli.issuer_asking import clock
from edgeagent.cli.issuer_repository import expiries, folder_of, publisher_of, show_expiries
from edgeagent.cli.printing import safe, show_json

if TYPE_CHECKING:
    from edgeagent.issuer.repository.artifacts import ArtifactRoom
    from edgeagent.issuer.repository.folder import IssuerFolder
    from edgeagent.issuer.repository.rotation import Changed, Keychain
    from edgeagent.issuer.repository.trusted import Trusted


def read(arguments: argparse.Namespace) -> "Trusted":
    """What is published. Raises as ``read_trusted``."""
    from edgeagent.issuer.repository.files import RepositoryFiles
    from edgeagent.issuer.repository.trusted import read_trusted

    return read_trusted(RepositoryFiles(arguments.folder / "repository"))


def room_of(folder: "IssuerFolder", arguments: argparse.Namespace) -> "ArtifactRoom":
    """Whoever changes what is known of artifacts."""
    from edgeagent.issuer.repository.artifacts import ArtifactRoom

    return ArtifactRoom(folder, publisher_of(folder, arguments), clock())


def change(arguments: argparse.Namespace, act: "Callable[[ArtifactRoom], Changed]") -> int:
    """Change what is known of artifacts, alone in the folder, and say so."""
    folder = folder_of(arguments)
    with folder.alone():
        changed = act(room_of(folder, arguments))
    return _say(changed, as_json=arguments.json)


def change_keys(arguments: argparse.Namespace, act: "Callable[[Keychain], Changed]") -> int:
    """Change who signs, alone in the folder, and say so."""
    from edgeagent.issuer.repository.rotation import Keychain

    folder = folder_of(arguments)
    with folder.alone():
        changed = act(Keychain(folder, publisher_of(folder, arguments), clock()))
    return _say(changed, as_json=arguments.json)


def _say(changed: "Changed", *, as_json: bool) -> int:
    if as_json:
        made: list[JsonValue] = [str(file) for file in changed.made]
        show_json(expiries(changed.trusted) | {"made": made, "next": [*changed.told]})
        return 0
    show_expiries(changed.trusted)
    for file in changed.made:
        print(f"made      {safe(str(file))}")
    for words in changed.told:
        print(f"next      {safe(words)}")
    return 0
