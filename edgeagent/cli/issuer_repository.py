"""``edgeagent issuer init | refresh | repository check``: the folder that hubs get their policy from."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from edgeagent.cli.arguments import length_of_time
from edgeagent.cli.issuer_asking import (
    add_external,
    add_passphrase,
    asked_passphrase,
    clock,
    external_signer_of,
    new_passphrase,
    passphrase_of,
)
from edgeagent.cli.printing import complain, safe, show_json
from edgeagent.cli.words import Nouns
from edgeagent.contracts.scalars import timestamp_text

if TYPE_CHECKING:
    from edgeagent.issuer.repository.folder import IssuerFolder
    from edgeagent.issuer.repository.founding import Founded
    from edgeagent.issuer.repository.publishing import Publisher
    from edgeagent.issuer.repository.signing import Lifetimes
    from edgeagent.issuer.repository.trusted import Trusted

EXIT_ENDS_SOON: Final = 1


def add_repository(verbs: Nouns) -> None:
    """Add the words for the repository."""
    init = verbs.add_parser("init", help="make an issuer's folder: keys, the first root, the first policy")
    init.add_argument("folder", type=Path, metavar="FOLDER")
    init.add_argument("--policy", type=Path, required=True, metavar="POLICY.toml")
    init.add_argument("--root-keys", type=int, default=3, metavar="N", help="how many may sign a root (3)")
    init.add_argument("--threshold", type=int, default=2, metavar="N", help="how many have to (2)")
    add_external(init)
    add_passphrase(init)
    _add_lifetimes(init)
    init.set_defaults(handler=_init)
    refresh = verbs.add_parser(
        "refresh",
        help="renew the timestamp, by the online key; for cron",
        description="Renew the timestamp. Exit 0 all is well; 1 something else ends soon, or it failed.",
    )
    refresh.add_argument(
        "--offline-keys", action="store_true", help="renew the root and the policy's signature as well"
    )
    add_folder(refresh)
    refresh.set_defaults(handler=_refresh)
    repository = verbs.add_parser("repository", help="what hubs read").add_subparsers(
        required=True, metavar="VERB"
    )
    check = repository.add_parser(
        "check",
        help="verify it from the first root on, and say what ends when",
        description="Verify the repository. Exit 0 it verifies; 1 something ends soon, or does not verify.",
    )
    check.add_argument("--folder", type=Path, default=Path(), metavar="FOLDER", help="the issuer's (.)")
    check.set_defaults(handler=_check)


def add_folder(parser: argparse.ArgumentParser) -> None:
    """Add the words for an issuer's folder and what is needed to change it."""
    parser.add_argument("--folder", type=Path, default=Path(), metavar="FOLDER", help="the issuer's (.)")
    parser.add_argument("--offline", type=Path, metavar="FOLDER", help="where the offline keys are (offline)")
    add_external(parser)
    add_passphrase(parser)
    _add_lifetimes(parser)


def folder_of(arguments: argparse.Namespace) -> "IssuerFolder":
    """The issuer's folder that was named."""
    from edgeagent.issuer.repository.folder import IssuerFolder

    external = external_signer_of(arguments)
    known: list[bytes] = []

    def passphrase() -> bytes:
        # Asked for once, however many keys it opens.
        if not known:
            known.append(passphrase_of(arguments) or asked_passphrase("passphrase of the offline keys: "))
        return known[0]

    return IssuerFolder(
        path=arguments.folder,
        passphrase=passphrase,
        offline=arguments.offline,
        external=() if external is None else (external,),
    )


def publisher_of(folder: "IssuerFolder", arguments: argparse.Namespace) -> "Publisher":
    """Whoever publishes there."""
    from edgeagent.issuer.repository.publishing import Publisher

    return Publisher(folder, clock(), _lifetimes_of(arguments))


def expiries(trusted: "Trusted") -> dict[str, JsonValue]:
    """What is in force, and what ends when, for programs."""
    ends: dict[str, JsonValue] = {part: timestamp_text(end) for part, end in trusted.expiries.items()}
    return {"policy": trusted.policy.version, "root": trusted.root.signed.version, "until": ends}


def show_expiries(trusted: "Trusted") -> None:
    """Say what is in force, and what ends when."""
    print(f"policy {trusted.policy.version}, root {trusted.root.signed.version}")
    for part, end in trusted.expiries.items():
        print(f"{part + ' ':<10}until {end:%Y-%m-%d %H:%M} UTC")


def _add_lifetimes(parser: argparse.ArgumentParser) -> None:
    for part, length in (("root", "730d"), ("targets", "365d"), ("online", "30d")):
        parser.add_argument(
            f"--{part}-lifetime", type=length_of_time, default=length_of_time(length), metavar=length
        )


def _lifetimes_of(arguments: argparse.Namespace) -> "Lifetimes":
    from edgeagent.issuer.repository.signing import Lifetimes

    return Lifetimes(
        root=arguments.root_lifetime, targets=arguments.targets_lifetime, online=arguments.online_lifetime
    )


def _init(arguments: argparse.Namespace) -> int:
    from edgeagent.issuer.repository.folder import IssuerFolder
    from edgeagent.issuer.repository.founding import Plan, found

    passphrase = new_passphrase(arguments)
    external = external_signer_of(arguments)
    folder = IssuerFolder(
        path=arguments.folder,
        passphrase=lambda: passphrase,
        external=() if external is None else (external,),
    )
    plan = Plan(
        policy=arguments.policy,
        root_keys=arguments.root_keys,
        threshold=arguments.threshold,
        policy_signer=external,
        lifetimes=_lifetimes_of(arguments),
    )
    founded = found(folder, plan, clock())
    if arguments.json:
        made: list[JsonValue] = [str(key) for key in founded.keys]
        show_json(expiries(founded.trusted) | {"made": made, "serve": str(folder.files.folder)})
    else:
        _explain(folder, founded)
    return 0


def _explain(folder: "IssuerFolder", founded: "Founded") -> None:
    files = folder.files.folder
    show_expiries(founded.trusted)
    for key in founded.keys:
        print(f"made      {key}, for whoever signs with it; {key.name}.pub is in the policy")
    print(f"lock away {folder.path / 'offline'}: fetched only to publish policies and to change keys")
    print(f"keep      {folder.path / 'online'}: for `edgeagent issuer refresh --folder {folder.path}`, daily")
    print(f"serve     {files}: by any web server, or `edgeagent issuer serve --repository {files}`")
    print("at each hub:")
    print(f"  copy {files / 'metadata' / '1.root.json'} by hand, and write in its configuration")
    print('  [policy]\n  root = "/etc/edgeagent/root.json"')
    print('  source = "https://queue.example/v1/policy"   # or a copy of the folder')


def _refresh(arguments: argparse.Namespace) -> int:
    folder = folder_of(arguments)
    with folder.alone():
        publisher = publisher_of(folder, arguments)
        trusted = publisher.renew() if arguments.offline_keys else publisher.refresh()
    # What was just renewed is as long as it was asked to be.
    renewed = {"snapshot", "timestamp"} | ({"root", "targets"} if arguments.offline_keys else set())
    return _warn(arguments, trusted, renewed)


def _check(arguments: argparse.Namespace) -> int:
    from edgeagent.issuer.repository.files import RepositoryFiles
    from edgeagent.issuer.repository.trusted import read_trusted

    trusted = read_trusted(RepositoryFiles(arguments.folder / "repository"))
    return _warn(arguments, trusted, set())


def _warn(arguments: argparse.Namespace, trusted: "Trusted", renewed: set[str]) -> int:
    """Say what is in force, and what of it somebody has to renew."""
    from edgeagent.issuer.repository.ending import ends_soon, remedy_of

    now = clock().wall().best
    ending = [part for part in ends_soon(trusted, now) if part not in renewed]
    status = EXIT_ENDS_SOON if ending else 0
    if arguments.json:
        soon: dict[str, JsonValue] = {part: remedy_of(part) for part in ending}
        show_json(expiries(trusted) | {"ending": soon})
        return status
    show_expiries(trusted)
    sys.stdout.flush()
    for part in ending:
        word = "has ended" if trusted.expiries[part] <= now else "ends soon"
        complain(safe(f"{part} {word}"), remedy_of(part))
    return status
