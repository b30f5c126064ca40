"""``edgeagent artifacts list | show | verify``: which files are signed for, and what of them is here."""

import argparse
from typing import Final

from edgeagent.cli.asking import agent_of
from edgeagent.cli.printing import complain, safe, show_json, table
from edgeagent.cli.words import Nouns
from edgeagent.contracts.reports.artifacts import (
    ArtifactShown,
    ArtifactsShown,
    ArtifactsVerified,
    Cached,
    Standing,
)
from edgeagent.ids import artifact_id

_EXIT_UNSOUND: Final = 1
# In seconds: every file that is here is read, and a card gives some ten megabytes in each.
_PATIENCE: Final = 600.0
_MEANS: Final = {
    Standing.RELEASED: "it may be installed, where it fits",
    Standing.SIGNED: "the policy does not list it: edgeagent issuer artifact release",
    Standing.ENDED: "its metadata are over: edgeagent issuer refresh --offline-keys",
    Standing.STALE: "what its group signs now is refused, and so nothing of it is installed",
    Standing.REVOKED: "it was taken back and is never installed",
}


def add_catalogue(verbs: Nouns) -> None:
    """Add the words about what is signed for."""
    verbs.add_parser("list", help="what is signed for, and whether it may be installed").set_defaults(
        handler=_list
    )
    show = verbs.add_parser("show", help="all that is said of one")
    show.add_argument("artifact", type=artifact_id, metavar="ID", help="of the artifact")
    show.set_defaults(handler=_show)
    verify = verbs.add_parser(
        "verify",
        help="look anew at the signatures and at the files that are here; exit 0 sound, 1 not",
        description="Look anew at the signatures and at every file that is here. Exit 0 sound; 1 not.",
    )
    verify.set_defaults(handler=_verify)


def _list(arguments: argparse.Namespace) -> int:
    known = agent_of(arguments).get("/v1/artifacts", ArtifactsShown)
    if arguments.json:
        show_json(known)
        return 0
    table(
        ("artifact", "version", "family", "models", "standing", "file"),
        [
            (one.artifact, safe(one.facts.version), one.facts.family, _models(one), one.standing, _file(one))
            for one in known.artifacts
        ],
    )
    for floor in known.floors:
        print(f"floor of {floor.family} {safe(floor.model)}: {safe(floor.version)}, by {floor.group}")
    if known.problem:
        complain(
            f"what is published now was refused: {safe(known.problem)}", "edgeagent issuer repository check"
        )
    return 0


def _show(arguments: argparse.Namespace) -> int:
    agent = agent_of(arguments)
    one = agent.get(f"/v1/artifacts/{arguments.artifact}", ArtifactShown)
    if arguments.json:
        show_json(one)
        return 0
    facts = one.facts
    hardware = ", ".join(sorted(facts.hardware)) or "every revision"
    print(f"{one.artifact}: {one.standing}, {_MEANS[one.standing]}")
    print(f"version   {safe(facts.version)}{', a security update' if facts.security else ''}")
    print(f"for       {facts.family}, {_models(one)}, hardware {safe(hardware)}")
    print(f"sha256    {one.sha256}\nbytes     {one.length}, {_file(one)}")
    print(f"signed by {one.group}, version {one.role_version}, until {agent.times.by(one.until)}")
    if facts.floor is not None:
        print(f"floor     {safe(facts.floor)}")
    if facts.notes is not None:
        print(f"notes     {safe(facts.notes)}")
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    found = agent_of(arguments).get("/v1/catalogue/verified", ArtifactsVerified, patience=_PATIENCE)
    status = 0 if found.is_sound else _EXIT_UNSOUND
    if arguments.json:
        show_json(found)
        return status
    if found.metadata:
        complain(f"the stored metadata do not verify: {safe(found.metadata)}", "edgeagent health")
    here = [one for one in found.artifacts if one.cached is not Cached.ABSENT]
    for one in here:
        if one.cached is Cached.DAMAGED:
            complain(f"the file of {one.artifact} is damaged; it is not used", "edgeagent artifacts list")
    if not status:
        print(f"sound: {len(found.artifacts)} artifacts of {found.roles} groups, {len(here)} files here")
    return status


def _file(one: ArtifactShown) -> str:
    return "here" if one.here else "not here"


def _models(one: ArtifactShown) -> str:
    models = one.facts.models
    return "all models" if models == "*" else safe(", ".join(sorted(models)))
