"""``edgeagent issuer artifact role``: who signs for the files of a group of models, and for which devices."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue, ValidationError

from edgeagent.cli.issuer_changes import change, read
from edgeagent.cli.issuer_repository import add_folder
from edgeagent.cli.printing import show_json, table
from edgeagent.contracts.artifact import GroupFacts, Models, group_of_role
from edgeagent.contracts.door import faults
from edgeagent.errors import MalformedError
from edgeagent.values import dataclass

if TYPE_CHECKING:
    from tuf.api.metadata import DelegatedRole, Targets


def add_groups(role: argparse.ArgumentParser) -> None:
    """Add the words for groups."""
    verbs = role.add_subparsers(required=True, metavar="VERB")
    for verb, handler, words in (
        ("add", _role_add, "give a group of models keys of its own; one is made where none is named"),
        ("rotate", _role_rotate, "put other keys in place of a group's"),
    ):
        word = verbs.add_parser(verb, help=words)
        word.add_argument("group", metavar="GROUP", help="of models: 1 to 32 of a-z 0-9 _ -")
        word.add_argument(
            "--key", type=Path, action="append", default=[], metavar="FILE.pub", help="may sign"
        )
        word.add_argument("--threshold", type=int, default=1, metavar="N", help="how many have to (1)")
        word.add_argument(
            "--for",
            dest="devices",
            action="append",
            required=handler is _role_add,
            metavar="PROFILE[:MODEL]",
            help="for which devices; may be repeated; all models of the profile where none is named",
        )
        add_folder(word)
        word.set_defaults(handler=handler)
    shown = verbs.add_parser("list", help="the groups, with their keys and ends")
    shown.add_argument("--folder", type=Path, default=Path(), metavar="FOLDER", help="the issuer's (.)")
    shown.set_defaults(handler=_role_list)


def _role_add(arguments: argparse.Namespace) -> int:
    group, keys, devices = arguments.group, _keys(arguments), _devices(arguments.devices)
    return change(arguments, lambda room: room.add_role(group, devices, keys, threshold=arguments.threshold))


def _role_rotate(arguments: argparse.Namespace) -> int:
    group, keys = arguments.group, _keys(arguments)
    devices = None if arguments.devices is None else _devices(arguments.devices)
    return change(
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


@dataclass(frozen=True, slots=True)
class _Group:
    """A group, as it is told."""

    name: str
    role: "DelegatedRole"
    devices: GroupFacts
    signed: "Targets"

    def for_programs(self) -> dict[str, JsonValue]:
        devices: dict[str, JsonValue] = {
            family: "*" if models == "*" else [*sorted(models)]
            for family, models in self.devices.families.items()
        }
        return {
            "group": self.name,
            "threshold": self.role.threshold,
            "keys": [*self.role.keyids],
            "devices": devices,
            "version": self.signed.version,
            "artifacts": len(self.signed.targets),
        }

    def for_people(self) -> tuple[str, ...]:
        return (
            self.name,
            f"{self.role.threshold} of {len(self.role.keyids)}",
            str(len(self.signed.targets)),
            str(self.signed.version),
            f"{self.signed.expires:%Y-%m-%d}",
            "; ".join(f"{family} {_models(models)}" for family, models in self.devices.families.items()),
        )


def _groups(arguments: argparse.Namespace) -> Iterator[_Group]:
    from edgeagent.issuer.repository.trusted import roles_of

    trusted = read(arguments)
    for name, role in roles_of(trusted.targets.signed).items():
        group = group_of_role(name)
        yield _Group(group, role, trusted.devices_of(group), trusted.delegated[name].signed)


def _role_list(arguments: argparse.Namespace) -> int:
    groups = list(_groups(arguments))
    if arguments.json:
        show_json({"groups": [group.for_programs() for group in groups]})
    else:
        table(
            ("group", "keys", "artifacts", "version", "until", "devices"),
            [group.for_people() for group in groups],
        )
    return 0
