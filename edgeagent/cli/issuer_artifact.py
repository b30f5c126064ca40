"""``edgeagent issuer artifact``: files for devices, who signs for them, and which may be installed."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue, ValidationError

from edgeagent.cli.issuer_asking import clock
from edgeagent.cli.issuer_repository import add_folder, expiries, folder_of, publisher_of, show_expiries
from edgeagent.cli.printing import safe, show_json, table
from edgeagent.cli.words import Nouns
from edgeagent.contracts.artifact import ArtifactFacts, ArtifactKind, GroupFacts, Models, group_of_role
from edgeagent.contracts.door import faults
from edgeagent.errors import MalformedError
from edgeagent.ids import artifact_id

if TYPE_CHECKING:
    from edgeagent.core.catalogue import Artifact
    from edgeagent.issuer.repository.artifacts import ArtifactRoom
    from edgeagent.issuer.repository.folder import IssuerFolder
    from edgeagent.issuer.repository.rotation import Changed
    from edgeagent.issuer.repository.trusted import Trusted


def add_artifact(verbs: Nouns) -> None:
    """Add the words for artifacts."""
    words = verbs.add_parser("artifact", help="files for devices").add_subparsers(
        required=True, metavar="VERB"
    )
    _add_role(words.add_parser("role", help="who signs for the files of a group of models"))
    _add_add(words.add_parser("add", help="sign for a file: what it is; it may not be installed yet"))
    for verb, handler, help_ in (
        ("release", _release, "let the policy list a file: it may be installed"),
        ("revoke", _revoke, "take a file back for good: nobody signs for it, the policy does not list it"),
    ):
        change = words.add_parser(verb, help=help_)
        change.add_argument("id", metavar="ID", type=artifact_id)
        add_folder(change)
        change.set_defaults(handler=handler)
    shown = words.add_parser("list", help="what is signed for, and whether it may be installed")
    shown.add_argument("--folder", type=Path, default=Path(), metavar="FOLDER", help="the issuer's (.)")
    shown.set_defaults(handler=_list)


def _add_role(role: argparse.ArgumentParser) -> None:
    verbs = role.add_subparsers(required=True, metavar="VERB")
    for verb, handler, words in (
        ("add", _role_add, "give a group of models keys of its own; one is made where none is named"),
        ("rotate", _role_rotate, "put other keys in place of a group's"),
    ):
        change = verbs.add_parser(verb, help=words)
        change.add_argument("group", metavar="GROUP", help="of models: 1 to 32 of a-z 0-9 _ -")
        change.add_argument(
            "--key", type=Path, action="append", default=[], metavar="FILE.pub", help="may sign"
        )
        change.add_argument("--threshold", type=int, default=1, metavar="N", help="how many have to (1)")
        change.add_argument(
            "--for",
            dest="devices",
            action="append",
            required=handler is _role_add,
            metavar="PROFILE[:MODEL]",
            help="for which devices; may be repeated; all models of the profile where none is named",
        )
        add_folder(change)
        change.set_defaults(handler=handler)
    shown = verbs.add_parser("list", help="the groups, with their keys and ends")
    shown.add_argument("--folder", type=Path, default=Path(), metavar="FOLDER", help="the issuer's (.)")
    shown.set_defaults(handler=_role_list)


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
        artifact = _room(folder, arguments).add(new)
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
    return _change(arguments, lambda room: room.release(arguments.id))


def _revoke(arguments: argparse.Namespace) -> int:
    return _change(arguments, lambda room: room.revoke(arguments.id))


def _role_add(arguments: argparse.Namespace) -> int:
    group, keys, devices = arguments.group, _keys(arguments), _devices(arguments.devices)
    return _change(arguments, lambda room: room.add_role(group, devices, keys, threshold=arguments.threshold))


def _role_rotate(arguments: argparse.Namespace) -> int:
    group, keys = arguments.group, _keys(arguments)
    devices = None if arguments.devices is None else _devices(arguments.devices)
    return _change(
        arguments,
        lambda room: room.rotate_role(group, keys, threshold=arguments.threshold, devices=devices),
    )


def _devices(words: Sequence[str]) -> GroupFacts:
    """For which devices a group may sign."""
    named: dict[str, set[str]] = {}
    for family, _, model in (each.partition(":") for each in words):
        named.setdefault(family, set()).add(model or "*")
    try:
        return GroupFacts(
            families={family: "*" if "*" in models else frozenset(models) for family, models in named.items()}
        )
    except ValidationError as why:
        raise MalformedError(faults(why)) from why


def _models(models: Models) -> str:
    return "all models" if models == "*" else ", ".join(sorted(models))


def _keys(arguments: argparse.Namespace) -> list[bytes]:
    from edgeagent.issuer.keys import load_public_key

    return [load_public_key(file) for file in arguments.key]


def _change(arguments: argparse.Namespace, change: "Callable[[ArtifactRoom], Changed]") -> int:
    folder = folder_of(arguments)
    with folder.alone():
        changed = change(_room(folder, arguments))
    if arguments.json:
        made: list[JsonValue] = [str(file) for file in changed.made]
        show_json(expiries(changed.trusted) | {"made": made, "next": [*changed.told]})
        return 0
    show_expiries(changed.trusted)
    for file in changed.made:
        print(f"made      {file}")
    for words in changed.told:
        print(f"next      {safe(words)}")
    return 0


def _room(folder: "IssuerFolder", arguments: argparse.Namespace) -> "ArtifactRoom":
    from edgeagent.issuer.repository.artifacts import ArtifactRoom

    return ArtifactRoom(folder, publisher_of(folder, arguments), clock())


def _list(arguments: argparse.Namespace) -> int:
    trusted = _read(arguments)
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


def _role_list(arguments: argparse.Namespace) -> int:
    from edgeagent.issuer.repository.trusted import roles_of

    trusted = _read(arguments)
    roles = roles_of(trusted.targets.signed)
    rows = [
        (group_of_role(name), role, trusted.devices_of(group_of_role(name)), trusted.delegated[name].signed)
        for name, role in roles.items()
    ]
    if arguments.json:
        show_json(
            {
                "groups": [
                    {
                        "group": group,
                        "threshold": role.threshold,
                        "keys": [*role.keyids],
                        "devices": {
                            family: "*" if models == "*" else [*sorted(models)]
                            for family, models in devices.families.items()
                        },
                        "version": signed.version,
                        "artifacts": len(signed.targets),
                    }
                    for group, role, devices, signed in rows
                ]
            }
        )
        return 0
    table(
        ("group", "keys", "artifacts", "version", "until", "devices"),
        [
            (
                group,
                f"{role.threshold} of {len(role.keyids)}",
                str(len(signed.targets)),
                str(signed.version),
                f"{signed.expires:%Y-%m-%d}",
                "; ".join(f"{family} {_models(models)}" for family, models in devices.families.items()),
            )
            for group, role, devices, signed in rows
        ],
    )
    return 0


def _read(arguments: argparse.Namespace) -> "Trusted":
    from edgeagent.issuer.repository.files import RepositoryFiles
    from edgeagent.issuer.repository.trusted import read_trusted

    return read_trusted(RepositoryFiles(arguments.folder / "repository"))


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
