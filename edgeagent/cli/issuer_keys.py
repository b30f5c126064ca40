"""``edgeagent issuer keys | token``: what signs, and what logs in."""

import argparse
from pathlib import Path

from edgeagent.cli.issuer_asking import passphrase_of
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
    print(f"key     {key.id}\npublic  {key.public.hex()}\nfiles   {arguments.file} {public}")
    return 0


def _show_key(arguments: argparse.Namespace) -> int:
    from edgeagent.contracts.policy import id_of_key
    from edgeagent.issuer.keys import load_public_key

    public = load_public_key(arguments.file)
    print(f"key     {id_of_key(public)}\npublic  {public.hex()}")
    return 0


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
    print(token)
    return 0
