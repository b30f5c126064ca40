"""``edgeagent issuer keys | token``: what signs, and what logs in."""

import argparse
from pathlib import Path

from pydantic import JsonValue

from edgeagent.cli.issuer_asking import passphrase_of
from edgeagent.cli.issuer_changes import change_keys
from edgeagent.cli.issuer_repository import add_folder
from edgeagent.cli.printing import safe, show_json
from edgeagent.cli.words import Nouns
from edgeagent.errors import ConfigurationError


def add_keys(verbs: Nouns) -> None:
    """Add the words for keys and tokens."""
    keys = verbs.add_parser("keys", help="keys that sign").add_subparsers(required=True, metavar="VERB")
    new = keys.add_parser("new", help="make a key: FILE holds it, FILE.pub its public half")
    new.add_argument("file", type=Path, metavar="FILE")
    new.add_argument("--passphrase-file", type=Path, help="encrypt it with the text in this file")
    new.set_defaults(handler=_new_key)
    show = keys.add_parser("show", help="the id and public half of a key; for [policy] signer")
    show.add_argument("file", type=Path, metavar="FILE.pub")
    show.set_defaults(handler=_show_key)
    for verb, handler, words in (
        ("rotate", _rotate, "put a new key in place of one: root, root-2, policy, online, or a name"),
        ("revoke", _revoke, "take a key away for good: root-2, a name in the policy, or a key's id"),
    ):
        change = keys.add_parser(verb, help=words)
        change.add_argument("what", metavar="NAME")
        add_folder(change)
        change.set_defaults(handler=handler)
        if handler is _rotate:
            change.add_argument("--public", type=Path, metavar="FILE.pub", help="the new key; made if absent")
    tokens = verbs.add_parser("token", help="logins to the queue").add_subparsers(
        required=True, metavar="VERB"
    )
    token = tokens.add_parser("new", help="make a token, add its digest to the server's file, print it")
    token.add_argument("name", metavar="NAME")
    token.add_argument("role", metavar="ROLE", help="hub:ID, issuer or audit")
    token.add_argument("--tokens", type=Path, required=True, metavar="FILE", help="the server's file")
    token.set_defaults(handler=_new_token)


def _new_key(arguments: argparse.Namespace) -> int:
    from edgeagent.issuer.keys import PrivateKey, save_key, save_public_key

    key = PrivateKey.new()
    save_key(key, arguments.file, passphrase=passphrase_of(arguments))
    public = arguments.file.with_name(arguments.file.name + ".pub")
    save_public_key(key.public, public)
    if arguments.json:
        files: list[JsonValue] = [str(arguments.file), str(public)]
        show_json({"key": key.id, "public": key.public.hex(), "files": files})
        return 0
    print(f"key     {key.id}\npublic  {key.public.hex()}\nfiles   {safe(f'{arguments.file} {public}')}")
    return 0


def _show_key(arguments: argparse.Namespace) -> int:
    from edgeagent.contracts.policy import id_of_key
    from edgeagent.issuer.keys import load_public_key

    public = load_public_key(arguments.file)
    if arguments.json:
        show_json({"key": id_of_key(public), "public": public.hex()})
    else:
        print(f"key     {id_of_key(public)}\npublic  {public.hex()}")
    return 0


def _rotate(arguments: argparse.Namespace) -> int:
    from edgeagent.issuer.keys import load_public_key

    public = None if arguments.public is None else load_public_key(arguments.public)
    return change_keys(arguments, lambda keychain: keychain.rotate(arguments.what, public))


def _revoke(arguments: argparse.Namespace) -> int:
    return change_keys(arguments, lambda keychain: keychain.revoke(arguments.what))


def _new_token(arguments: argparse.Namespace) -> int:
    from edgeagent.issuer.tokens import entry_text, new_token

    token = new_token()
    entry = entry_text(arguments.name, arguments.role, token)
    try:
        with arguments.tokens.open("a", encoding="utf-8") as file:
            file.write(entry)
        arguments.tokens.chmod(0o600)
    except OSError as why:
        raise ConfigurationError(f"cannot write {arguments.tokens}: {why.strerror}") from why
    if arguments.json:
        show_json({"name": arguments.name, "role": arguments.role, "token": token})
    else:
        print(token)
    return 0
