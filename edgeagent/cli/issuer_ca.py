"""``edgeagent issuer ca init | server | rotate | show``: who certifies hubs, and the queue itself."""

import argparse
from datetime import timedelta
from pathlib import Path

from edgeagent.cli.arguments import length_of_time
from edgeagent.cli.issuer_asking import add_passphrase, asked_passphrase, clock, new_passphrase, passphrase_of
from edgeagent.cli.printing import complain, safe, show_json
from edgeagent.cli.words import Nouns
from edgeagent.contracts.scalars import timestamp_text

_EXIT_ENDS_SOON = 1
_SOON = timedelta(days=30)
_AGAIN = {"server": "server NAME", "issuing": "rotate"}


def add_ca(verbs: Nouns) -> None:
    """Add the words of the authority."""
    words = verbs.add_parser("ca", help="who certifies hubs, and the queue itself").add_subparsers(
        required=True, metavar="VERB"
    )
    init = words.add_parser("init", help="make the authority: a root to lock away, and a key that signs")
    init.add_argument("--name", default="edgeagent", help="for people; stands in its certificates")
    add_passphrase(init)
    init.set_defaults(handler=_init)
    server = words.add_parser("server", help="certify the queue itself; again to renew it")
    server.add_argument("name", nargs="+", metavar="NAME", help="what the queue is called: hosts, addresses")
    server.add_argument(
        "--lifetime", type=length_of_time, default=length_of_time("397d"), metavar="397d", help="of it"
    )
    server.set_defaults(handler=_server)
    rotate = words.add_parser(
        "rotate",
        help="put another issuing key in the place of the present one; hubs follow without a visit",
        description="Make another issuing key, signed for by the root's, and certify the queue by it. "
        "A running queue takes it, and has each hub renew its certificate within an hour or so.",
    )
    add_passphrase(rotate)
    rotate.set_defaults(handler=_rotate)
    show = words.add_parser(
        "show",
        help="its fingerprint, and what ends when",
        description="Show the authority. Exit 0 all is well; 1 something ends within 30 days.",
    )
    show.set_defaults(handler=_show)
    for word in (init, server, rotate, show):
        word.add_argument("--folder", type=Path, default=Path("ca"), metavar="FOLDER", help="its folder (ca)")


def _init(arguments: argparse.Namespace) -> int:
    from edgeagent.core.certificates import fingerprint
    from edgeagent.issuer.authority import AuthorityFolder

    folder = AuthorityFolder(arguments.folder)
    passphrase = new_passphrase(arguments)
    made = folder.found(arguments.name, clock().wall().best, passphrase=passphrase)
    if arguments.json:
        show_json({"root": str(folder.root), "fingerprint": fingerprint(made.root)})
        return 0
    print(f"made      {folder.root}, sha256 {fingerprint(made.root)}")
    print(f"lock away {folder.path / 'root.key'}: fetched only to replace the issuing key")
    print(f"keep      {folder.path / 'issuing.key'}: certifies hubs; lies where the queue runs")
    print(f"next      edgeagent issuer ca server NAME --folder {folder.path}")
    return 0


def _server(arguments: argparse.Namespace) -> int:
    from edgeagent.issuer.authority import AuthorityFolder

    folder = AuthorityFolder(arguments.folder)
    made = folder.certify_server(arguments.name, clock().wall().best, arguments.lifetime)
    chain, key = folder.server
    if arguments.json:
        show_json({"chain": str(chain), "key": str(key), "until": timestamp_text(made.not_valid_after_utc)})
        return 0
    print(f"certified {', '.join(safe(name) for name in arguments.name)}: {chain}, with {key}")
    print(f"until     {made.not_valid_after_utc:%Y-%m-%d %H:%M} UTC; a running queue takes a renewed one")
    return 0


def _rotate(arguments: argparse.Namespace) -> int:
    from edgeagent.core.certificates import key_id
    from edgeagent.issuer.authority import AuthorityFolder

    folder = AuthorityFolder(arguments.folder)
    folder.load()
    passphrase = passphrase_of(arguments) or asked_passphrase("passphrase of the root's key: ")
    made = folder.rotate(clock().wall().best, passphrase=passphrase).issuing
    if arguments.json:
        show_json({"key": key_id(made).hex(), "until": timestamp_text(made.not_valid_after_utc)})
        return 0
    print(f"made      {folder.path / 'issuing.key'}, key {key_id(made).hex()}; the earlier one is gone")
    print(f"until     {made.not_valid_after_utc:%Y-%m-%d %H:%M} UTC; a running queue takes it")
    print(f"lock away {folder.path / 'root.key'} again")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    from edgeagent.core.certificates import fingerprint
    from edgeagent.issuer.authority import AuthorityFolder

    folder = AuthorityFolder(arguments.folder)
    ends = {name: each.not_valid_after_utc for name, each in folder.certificates().items()}
    soon = {name: end for name, end in ends.items() if end <= clock().wall().best + _SOON}
    told = fingerprint(folder.read_root())
    if arguments.json:
        until = {name: timestamp_text(end) for name, end in ends.items()}
        show_json({"fingerprint": told, "until": dict(until), "ending": [*soon]})
    else:
        print(f"sha256    {told}")
        for name, end in ends.items():
            print(f"{name.ljust(9)} until {end:%Y-%m-%d %H:%M} UTC")
        for name in soon:
            words = _AGAIN.get(name)
            advice = "" if words is None else f"edgeagent issuer ca {words} --folder {folder.path}"
            complain(f"{name} ends soon, or has ended", advice)
    return _EXIT_ENDS_SOON if soon else 0
