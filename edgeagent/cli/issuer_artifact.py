"""``edgeagent issuer artifact``: files for devices, who signs for them, and which may be installed."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue, ValidationError

from edgeagent.cli.issuer_changes import change, read, room_of
from edgeagent.cli.issuer_groups import add_groups
from edgeagent.cli.issuer_repository import add_folder, folder_of
from edgeagent.cli.printing import safe, show_json, table
from edgeagent.cli.words import Nouns
from edgeagent.contracts.artifact import ArtifactFacts, ArtifactKind
from edgeagent.contracts.door import faults
from edgeagent.errors import MalformedError
from edgeagent.ids import artifact_id

if TYPE_CHECKING:
    from edgeagent.core.catalogue import Artifact
    from edgeagent.issuer.repository.trusted import Trusted


def add_artifact(verbs: Nouns) -> None:
    """Add the words for artifacts."""
    words = verbs.add_parser("artifact", help="files for devices").add_subparsers(
        required=True, metavar="VERB"
    )
    add_groups(words.add_parser("role", help="who signs for the files of a group of models"))
    _add_add(words.add_parser("add", help="sign for a file: what it is; it may not be installed yet"))
    for verb, handler, help_ in (
        ("release", _release, "let the policy list a file: it may be installed"),
        ("revoke", _revoke, "take a file back for good: nobody signs for it, the policy does not list it"),
    ):
        word = words.add_parser(verb, help=help_)
        word.add_argument("id", metavar="ID", type=artifact_id)
        add_folder(word)
        word.set_defaults(handler=handler)
    shown = words.add_parser("list", help="what is signed for, and whether it may be installed")
    shown.add_argument("--folder", type=Path, default=Path(), metavar="FOLDER", help="the issuer's (.)")
    shown.set_defaults(handler=_list)


def _add_add(add: argparse.ArgumentParser) -> None:
    add.add_argument("file", type=Path, metavar="FILE")
    add.add_argument("--id", required=True, type=artifact_id, help="its name, never given to another file")
    add.add_argument("--group", required=True, help="of models; its role signs")
    add.add_argument("--family", required=True, metavar="PROFILE", help="the id of the devices' profile")
    add.add_argument(
        "--model",
        action="append",
        required=True,
        metavar="MODEL",
        help="may be repeated; * for all of the family",
    )
    add.add_argument("--hardware", action="append", default=[], metavar="REVISION", help="all if absent")
    add.add_argument("--version", required=True, help="as the device tells it once it runs")
    add.add_argument(
        "--floor", metavar="VERSION", help="nothing earlier is installed on these models any more"
    )
    add.add_argument("--unpacked-bytes", type=int, metavar="N", help="how much room it takes on the device")
    add.add_argument("--security", action="store_true", help="it mends something that can be attacked")
    add.add_argument("--about", metavar="TEXT", help="for people, one line")
    add_folder(add)
    add.set_defaults(handler=_add)


def _add(arguments: argparse.Namespace) -> int:
    from edgeagent.issuer.repository.artifacts import NewArtifact

    new = NewArtifact(id=arguments.id, group=arguments.group, file=arguments.file, facts=_facts_of(arguments))
    folder = folder_of(arguments)
    with folder.alone():
        artifact = room_of(folder, arguments).add(new)
    if arguments.json:
        show_json(_shown(artifact))
        return 0
    print(f"signed    {artifact.id} {safe(artifact.facts.version)} by {artifact.signed.group}")
    print(f"sha256    {artifact.sha256}\nbytes     {artifact.length}")
    print(f"next      edgeagent issuer artifact release {artifact.id}")
    return 0


def _facts_of(arguments: argparse.Namespace) -> ArtifactFacts:
    try:
        return ArtifactFacts(
            family=arguments.family,
            kind=ArtifactKind.FIRMWARE,
            models="*" if arguments.model == ["*"] else frozenset(arguments.model),
            hardware=frozenset(arguments.hardware),
            version=arguments.version,
            floor=arguments.floor,
            unpacked_bytes=arguments.unpacked_bytes,
            notes=arguments.about,
            security=arguments.security,
        )
    except ValidationError as why:
        raise MalformedError(faults(why)) from why


def _release(arguments: argparse.Namespace) -> int:
    return change(arguments, lambda room: room.release(arguments.id))


def _revoke(arguments: argparse.Namespace) -> int:
    return change(arguments, lambda room: room.revoke(arguments.id))


def _list(arguments: argparse.Namespace) -> int:
    trusted = read(arguments)
    if arguments.json:
        show_json({"artifacts": [_listed(one, trusted) for one in trusted.artifacts.values()]})
        return 0
    table(
        ("artifact", "version", "family", "models", "released", "sha256"),
        [
            (
                artifact.id,
                artifact.facts.version,
                artifact.facts.family,
                ", ".join(sorted(artifact.facts.models)),
                "yes" if _is_released(artifact, trusted) else "no",
                artifact.sha256,
            )
            for artifact in trusted.artifacts.values()
        ],
    )
    return 0


def _is_released(artifact: "Artifact", trusted: "Trusted") -> bool:
    return artifact.sha256 in trusted.policy.artifacts.get(artifact.id, frozenset())


def _listed(artifact: "Artifact", trusted: "Trusted") -> dict[str, JsonValue]:
    return _shown(artifact) | {"released": _is_released(artifact, trusted)}


def _shown(artifact: "Artifact") -> dict[str, JsonValue]:
    return {
        "artifact": artifact.id,
        "group": artifact.signed.group,
        "sha256": artifact.sha256,
        "bytes": artifact.length,
        "version": artifact.facts.version,
        "family": artifact.facts.family,
        "models": [*sorted(artifact.facts.models)],
    }
